"""The conversation of Google's requests: ``contents`` and ``systemInstruction``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.images.media.image import VideoSampling
from calculators.kit.requests import fields
from calculators.kit.requests.google_json import read_object
from calculators.kit.requests.members import leave_out
from calculators.language.generation_request import Message
from calculators.llm.requests.messages import (
    MediaCheck,
    SaidMessage,
    check_anything_is_left,
    decoded_text,
    document_text,
    frames_per_second,
    joined_parts,
    required_string,
    text_part,
)
from calculators.llm.requests.request_limits import RequestLimits

_CONTENT: Final = ("role", "parts")
#: The members of parts that hold something; a part has one of them.
PART_DATA: Final = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
#: Members about the data of a part, which change nothing here.
_ABOUT_DATA: Final = (
    *("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"),
    *("audioTranscription", "mediaProcessing", "speechMetadata", "documentMetadata"),
    *("spreadsheetMetadata", "audioMetadata"),
)
_PART: Final = (*PART_DATA, *_ABOUT_DATA)
_BLOB: Final = ("mimeType", "data", "displayName")
_FILE: Final = ("mimeType", "fileUri", "displayName")
_VIDEO: Final = ("startOffset", "endOffset", "fps")
#: A duration in protobuf's JSON.
DURATION: Final = r"^[0-9]{1,9}(\.[0-9]{1,9})?s$"
_CALL: Final = ("id", "name", "args", "partialArgs", "willContinue")
_RESPONSE: Final = ("id", "name", "response", "parts", "willContinue", "scheduling")
#: The members of data, also where it is left out, and those that it needs.
_NEEDED: Final = {
    "inlineData": (_BLOB, ("mimeType", "data")),
    "fileData": (_FILE, ("fileUri",)),
    "functionCall": (_CALL, ("name",)),
    "functionResponse": (_RESPONSE, ("name",)),
}
_USER_ROLES: Final = ("user", "function", "tool")


def read_contents(
    body: Mapping[str, Any], limits: RequestLimits, media: MediaCheck
) -> list[Message]:
    """Return the conversation. A user's turn with results of functions becomes several messages.

    ``media`` gathers the images, videos and sounds.

    Raises:
        RequestError: ``param`` is the place, such as ``contents[2].parts[0].text``.
    """
    value = body.get("contents")
    if value is None:
        raise fields.missing("contents", "the conversation, an array of contents")
    if isinstance(value, dict):
        value = [value]  # protobuf takes one for a list of one
    if not isinstance(value, list):
        raise fields.wrong_type("contents", "an array", value)
    if not value:
        raise fields.invalid("contents", "expected at least one")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "contents", f"{len(value)} contents are more than the maximum {limits.max_messages}"
        )
    conversation = _Conversation(media)
    if (system := body.get("systemInstruction")) is not None:
        conversation.add_system(system, "systemInstruction")
    for i, content in enumerate(value):
        conversation.add(content, f"contents[{i}]")
    check_anything_is_left(conversation.messages, conversation.left_out)
    if not any(message["role"] != "system" for message in conversation.messages):
        raise fields.invalid("contents", "nothing is said in any of them")
    return conversation.messages


class _Conversation:
    def __init__(self, media: MediaCheck) -> None:
        self.messages: list[dict[str, Any]] = []
        #: The paths of parts of unknown kinds.
        self.left_out: list[str] = []
        self._media = media
        #: The id and name of each call that has no result yet.
        self._open: list[tuple[str, str]] = []
        self._calls = 0

    def add_system(self, value: object, path: str) -> None:
        if isinstance(value, str):
            value = {"parts": [{"text": value}]}
        parts = _parts(value, path)
        if isinstance(value, dict):
            fields.string(value, "role", f"{path}.role")
        texts = [
            required_string(part, "text", place)
            for part, place in parts
            if "text" in part or self._leave_out(part, place)
        ]
        if any(texts):
            self.messages.append({"role": "system", "content": "\n".join(texts)})

    def add(self, value: object, path: str) -> None:
        parts = _parts(value, path)
        assert isinstance(value, dict)
        role = fields.string(value, "role", f"{path}.role") or "user"
        if role == "model":
            self._add_model(parts)
        elif role in _USER_ROLES:
            self._add_user(parts)
        else:
            raise fields.invalid(
                f"{path}.role", f'{fields.describe(role)} is none of "user", "model"'
            )

    def _add_user(self, parts: list[tuple[Mapping[str, Any], str]]) -> None:
        said: list[dict[str, Any]] = []
        for part, path in parts:
            if "functionResponse" not in part:
                said += self._shown(part, path)
                continue
            if said:
                self.messages.append({"role": "user", "content": joined_parts(said)})
                said = []
            self._add_response(part["functionResponse"], f"{path}.functionResponse")
        if said:
            self.messages.append({"role": "user", "content": joined_parts(said)})

    def _add_response(self, value: object, path: str) -> None:
        result = read_object(value, path, _RESPONSE)
        name = required_string(result, "name", path)
        call_id = fields.string(result, "id", f"{path}.id")
        response = fields.json_object(result, "response", f"{path}.response")
        shown = [text_part(_response_text(response or {}))]
        for part, place in _parts({"parts": result.get("parts")}, path):
            shown += self._shown(part, place)
        known = [each for each in self._open if call_id in (None, each[0])]
        found = next((each for each in known if each[1] == name), None) or next(iter(known), None)
        if found is not None:
            self._open.remove(found)
        self.messages.append(
            {
                "role": "tool",
                "tool_call_id": call_id or (found[0] if found else name),
                "name": name,
                "content": joined_parts(shown),
            }
        )

    def _add_model(self, parts: list[tuple[Mapping[str, Any], str]]) -> None:
        said = SaidMessage()
        for part, path in parts:
            if "text" in part:
                text = required_string(part, "text", path)
                if fields.boolean(part, "thought", f"{path}.thought"):
                    said.reasoning.append(text)
                else:
                    said.parts.append(text_part(text))
            elif "functionCall" in part:
                said.calls.append(self._call(part["functionCall"], f"{path}.functionCall"))
            else:
                self._leave_out(part, path)
        if said.has_any:
            self.messages.append(said.message)

    def _call(self, value: object, path: str) -> dict[str, Any]:
        call = read_object(value, path, _CALL)
        name = required_string(call, "name", path)
        arguments = fields.json_object(call, "args", f"{path}.args")
        call_id = fields.string(call, "id", f"{path}.id") or f"call_{self._calls}"
        self._calls += 1
        self._open.append((call_id, name))
        written = json.dumps(arguments or {}, ensure_ascii=False)
        return {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": written},
        }

    def _shown(self, part: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
        """Return the parts that show the model a part of the user's or of a result."""
        if "text" in part:
            return [text_part(required_string(part, "text", path))]
        if "inlineData" in part:
            return [self._blob(part, f"{path}.inlineData")]
        if "fileData" in part:
            return self._file(part, f"{path}.fileData")
        self._leave_out(part, path)
        return []

    def _blob(self, part: Mapping[str, Any], path: str) -> dict[str, Any]:
        blob = read_object(part["inlineData"], path, _BLOB)
        kind = required_string(blob, "mimeType", path).lower()
        data = required_string(blob, "data", path)
        family = kind.partition("/")[0]
        url = f"data:{kind};base64,{data}"
        if family == "video":
            return self._video(part, path, url, "data")
        if family == "image":
            self._media.image(path, url, "data")
            return {"type": "image_url", "image_url": {"url": url}}
        if family == "audio":
            self._media.sound(path, data, "data")
            return {"type": "input_audio", "input_audio": {"data": data}}
        name = fields.string(blob, "displayName", f"{path}.displayName") or ""
        return text_part(document_text(decoded_text(data, kind, f"{path}.data"), name))

    def _file(self, part: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
        file = read_object(part["fileData"], path, _FILE)
        uri = required_string(file, "fileUri", path)
        kind = (fields.string(file, "mimeType", f"{path}.mimeType") or "").lower()
        if kind.startswith("video/"):
            return [self._video(part, path, uri, "fileUri")]
        if kind.startswith("image/"):
            self._media.image(path, uri, "fileUri")
            return [{"type": "image_url", "image_url": {"url": uri}}]
        raise fields.invalid(f"{path}.fileUri", "the file is not read here; send it as inlineData")

    def _video(self, part: Mapping[str, Any], path: str, url: str, member: str) -> dict[str, Any]:
        place = f"{path.rpartition('.')[0]}.videoMetadata"
        self._media.video(path, url, member, _sampling(part, place))
        return {"type": "video_url", "video_url": {"url": url}}

    def _leave_out(self, part: Mapping[str, Any], path: str) -> bool:
        """Leave out a part that shows the model nothing here; return False."""
        kind = next((name for name in part if name in PART_DATA), None)
        if kind is None and part.keys() & {"thoughtSignature", "thought"}:
            return False  # a signature may stand alone
        if kind in _NEEDED:
            _check_data(part[kind], f"{path}.{kind}", *_NEEDED[kind])
        what = "a part without data" if kind is None else f"{kind} is not read here"
        leave_out(fields.invalid(path, what))
        self.left_out.append(path)
        return False


def _check_data(value: object, path: str, members: Sequence[str], needed: Sequence[str]) -> None:
    """Check the data of a part that is left out."""
    data = read_object(value, path, members)
    for name in needed:
        required_string(data, name, path)
    for name in ("id", "mimeType", "displayName"):
        fields.string(data, name, f"{path}.{name}")
    for name in ("args", "response"):
        fields.json_object(data, name, f"{path}.{name}")
    for part, place in _parts({"parts": data.get("parts")}, path):
        for kind in part.keys() & _NEEDED.keys():
            _check_data(part[kind], f"{place}.{kind}", *_NEEDED[kind])


def _parts(value: object, path: str) -> list[tuple[Mapping[str, Any], str]]:
    """Return the parts of a content with their paths."""
    content = read_object(value, path, _CONTENT)
    parts = content.get("parts")
    if isinstance(parts, dict):
        parts = [parts]
    if parts is None:
        return []
    if not isinstance(parts, list):
        raise fields.wrong_type(f"{path}.parts", "an array of parts", parts)
    found: list[tuple[Mapping[str, Any], str]] = []
    for i, part in enumerate(parts):
        place = f"{path}.parts[{i}]"
        read = read_object({"text": part} if isinstance(part, str) else part, place, _PART)
        given = {name: each for name, each in read.items() if each is not None}
        fields.string(given, "text", f"{place}.text")
        fields.boolean(given, "thought", f"{place}.thought")
        _sampling(given, f"{place}.videoMetadata")
        data = [name for name in PART_DATA if name in given]
        if len(data) > 1 and given.get("text") == "":
            del given[data.pop(0)]
        if len(data) > 1:
            raise fields.combined(f"{place}.{data[0]}", f"{place}.{data[1]}")
        found.append((given, place))
    return found


def _sampling(part: Mapping[str, Any], path: str) -> VideoSampling:
    """Return which pictures of a video the model gets; ``path``: of the part's metadata."""
    told = read_object(part.get("videoMetadata", {}), path, _VIDEO)
    fps = frames_per_second(told.get("fps"), f"{path}.fps", usual=1.0)
    start, end = (_offset(told, name, path) for name in ("startOffset", "endOffset"))
    return VideoSampling(fps, start or 0.0, end)


def _offset(told: Mapping[str, Any], name: str, path: str) -> float | None:
    """Return a duration of protobuf's JSON in seconds."""
    text = fields.string(told, name, f"{path}.{name}")
    if text is None:
        return None
    if not re.search(DURATION, text):
        raise fields.invalid(f"{path}.{name}", 'expected seconds, such as "12.5s"')
    return float(text[:-1])


def _response_text(response: Mapping[str, Any]) -> str:
    """Return the result of a function for the model, by Google's two names for it."""
    match response:
        case {"output": str(text), **rest} if not rest:
            return text
        case {"error": str(text), **rest} if not rest:
            return f"Error: {text}"
        case _:
            return json.dumps(response, ensure_ascii=False)
