"""The messages of a chat request, as chat templates and media decoders take them.

The accepted forms are OpenVINO Model Server's (``llm/apis/openai_completions.cpp``). Unlike there,
content or tool calls of a wrong type are an error and not dropped, as is a message without content
that is not the assistant's. Files of text become text of the prompt; `MediaCheck` gathers images
and refuses media that the model cannot read.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from calculators.images.media.image import (
    MAX_FPS,
    MAX_FRAMES,
    ImageReference,
    SoundReference,
    VideoSampling,
)
from calculators.kit.requests import fields
from calculators.kit.requests.fields import invalid, missing, wrong_type
from calculators.kit.requests.members import check_object, check_spelling, leave_out_type
from calculators.language.generation_request import Message
from calculators.llm.requests.client_tools import CUSTOM_INPUT
from calculators.llm.requests.request_limits import RequestLimits


class MediaCheck:
    """Gathers the media of one request.

    Attributes:
        images, sounds: in the order of the messages; videos are among the images.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self.images: list[ImageReference] = []
        self.sounds: list[SoundReference] = []

    def image(self, path: str, url: str, member: str) -> None:
        """Add an image.

        Args:
            path: of the part, such as ``messages[0].content[1]``.
            url: of the image, maybe a ``data:`` URL.
            member: path of the URL inside the part, such as ``image_url.url``; "": it is the part.

        Raises:
            RequestError: the model reads no images, or not as many.
        """
        self._add(ImageReference(url, f"{path}.{member}" if member else path), path)

    def video(
        self, path: str, url: str | list[str], member: str, sampling: VideoSampling | None = None
    ) -> None:
        """Add a video; ``url`` is of a file, or of each of its frames. Else as `image`.

        Raises:
            RequestError: the model takes no videos, or not as many, or not as many frames.
        """
        place = f"{path}.{member}"
        frames = () if isinstance(url, str) else tuple(url)
        if isinstance(url, list) and not 0 < len(frames) <= MAX_FRAMES:
            raise fields.invalid(place, f"expected 1 to {MAX_FRAMES} frames, not {len(frames)}")
        file = url if isinstance(url, str) else ""
        self._add(ImageReference(file, place, sampling or VideoSampling(), frames), path)

    def _add(self, image: ImageReference, path: str) -> None:
        self.images.append(image)
        if image.video is not None:
            videos = sum(each.video is not None for each in self.images)
            _check_count(videos, self._limits.max_videos, path, "videos")
        _check_count(len(self.images), self._limits.max_images, path, "images")

    def sound(self, path: str, data: str, member: str) -> None:
        """Add a sound.

        Args:
            path: of the part, such as ``messages[0].content[1]``.
            data: the file in Base64, or a ``data:`` URL.
            member: path of the data inside the part, such as ``input_audio.data``.

        Raises:
            RequestError: the model does not hear, or not as many.
        """
        self.sounds.append(SoundReference(data, f"{path}.{member}"))
        _check_count(len(self.sounds), self._limits.max_sounds, path, "sounds")


def check_media(
    images: Sequence[ImageReference], sounds: Sequence[SoundReference], limits: RequestLimits
) -> None:
    """Refuse images and sounds that the model does not take, or more than it takes.

    Raises:
        RequestError: with the part of the first one as ``param``.
    """
    for kind, most, places in (
        ("videos", limits.max_videos, [image.param for image in images if image.video]),
        ("images", limits.max_images, [image.param for image in images]),
        ("sounds", limits.max_sounds, [sound.param for sound in sounds]),
    ):
        for count, place in enumerate(places, 1):
            _check_count(count, most, place[: place.rfind("]") + 1] or place, kind)


def _check_count(count: int, limit: int, path: str, kind: str) -> None:
    if not limit:
        raise fields.invalid(path, f"this model does not {_CANNOT[kind]}")
    if count > limit:
        raise fields.invalid(path, f"only {limit} {kind} are allowed")


_CANNOT: Final = {
    "images": "read images",
    "videos": "take videos; send pictures of it to a model that reads images",
    "sounds": "hear: it takes no sound",
}

#: A part of a message, as templates take it: ``{"type": "text", "text": "Hello"}``.
Part: TypeAlias = dict[str, Any]


def text_part(text: str) -> Part:
    """Return a text as a part of a message."""
    return {"type": "text", "text": text}


def joined_parts(parts: list[Part]) -> str | list[Part]:
    """Return the content of a message: a string for one text or none, else the parts."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


@dataclass(slots=True)
class SaidMessage:
    """A message of the assistant that its API writes as blocks or parts."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_any(self) -> bool:
        """True if something was said, thought or called."""
        return bool(self.parts or self.reasoning or self.calls)

    @property
    def message(self) -> Message:
        """The message, as templates take it."""
        message: dict[str, Any] = {"role": "assistant", "content": joined_parts(self.parts)}
        if any(self.reasoning):
            message["reasoning_content"] = "\n".join(filter(None, self.reasoning))
        if self.calls:
            message["tool_calls"] = self.calls
        return message


_DATA_URL: Final = re.compile(r"data:(?P<type>[^;,]*)(?P<parameters>(?:;[^;,]*)*),", re.IGNORECASE)
#: Kinds of media with bytes that may look like text and are none.
_NO_TEXT: Final = re.compile(r"application/(?:pdf|zip|octet-stream.+)|image/|audio/|video/|font/")


def document_text(text: str, name: str = "") -> str:
    """Return a document as it stands in a prompt."""
    shown = "".join(each if each.isprintable() and each != '"' else " " for each in name)
    head = f'<document name="{shown}">' if shown else "<document>"
    return f"{head}\n{text}\n</document>\n"


def file_text(file: Mapping[str, Any], path: str) -> str:
    """Return a file of OpenAI's APIs, ``{"file_data": ..., "filename": ...}``, for the prompt.

    The data is a ``data:`` URL or plain Base64.

    Raises:
        RequestError: it has no data, or the data is not text.
    """
    data = fields.string(file, "file_data", f"{path}.file_data")
    name = fields.string(file, "filename", f"{path}.filename") or ""
    for other in ("file_id", "file_url"):
        if fields.string(file, other, f"{path}.{other}") is not None and data is None:
            raise fields.invalid(f"{path}.{other}", "it is not read here; use file_data")
    if data is None:
        raise fields.missing(f"{path}.file_data", "the file as Base64 or as a data: URL")
    return document_text(decoded_text(data, "", f"{path}.file_data"), name)


def decoded_text(data: str, media_type: str, path: str) -> str:
    """Return the text of a file that is written in Base64 or as a ``data:`` URL.

    Raises:
        RequestError: it is written otherwise, or is not text in UTF-8.
    """
    if (url := _DATA_URL.match(data)) is not None:
        media_type = url["type"] or "text/plain"
        data = data[url.end() :]
        if ";base64" not in url["parameters"].lower():
            from urllib.parse import unquote_to_bytes

            return _utf8(unquote_to_bytes(data), media_type, path)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise fields.invalid(path, "the file is not written in Base64") from None
    return _utf8(content, media_type, path)


def _utf8(content: bytes, media_type: str, path: str) -> str:
    kind = media_type.lower()
    if _NO_TEXT.match(kind) or content.startswith(b"%PDF-"):
        what = kind if kind and not content.startswith(b"%PDF-") else "application/pdf"
        raise fields.invalid(path, f"{what} is not read here; send its text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise fields.invalid(path, "the file is not text in UTF-8")
    return text


#: Members that a template may read. Other members are dropped, and so are these if they are not
#: strings, because a template would print anything.
_TEXT_MEMBERS: Final = frozenset({"role", "tool_call_id", "name", "reasoning_content"})
#: Members of messages that are read, or that clients send back of an answer.
_MESSAGE_MEMBERS: Final = _TEXT_MEMBERS | {
    *("content", "tool_calls", "function_call", "reasoning", "refusal", "audio", "annotations"),
    *("id", "cache_control", "reasoning_details", "thinking_blocks", "provider_specific_fields"),
}
_FILE_MEMBERS: Final = frozenset({"file_data", "file_id", "file_url", "filename", "format"})
#: Half of a surrogate pair as JSON escapes it, alone or as part of a pair.
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


def normalise_messages(value: object) -> list[dict[str, Any]]:
    """Check the member ``messages`` of a request, and reduce it to the members of templates.

    Each message keeps, in its order, ``role`` (any text, also ``developer``), ``content``,
    ``tool_calls``, ``tool_call_id``, ``name`` and ``reasoning_content``. Null counts as absent. In
    the result every message has ``content``: a text, "" by default, or the list of parts; files of
    text and refusals are parts of text. Every tool call has ``arguments``, ``"{}"`` by default. The
    predecessors of calls, ``function_call`` and the role "function", become a call and its result.

    Raises:
        RequestError: ``param`` is the place, such as ``messages[2].content[0].type``.
    """
    if value is None:
        raise missing("messages")
    if not isinstance(value, list):
        raise wrong_type("messages", "an array", value)
    if not value:
        raise invalid("messages", "expected at least one message")
    left_out: list[str] = []
    messages = [_message(each, f"messages[{place}]", left_out) for place, each in enumerate(value)]
    check_anything_is_left(messages, left_out)
    _pair_functions(messages)
    _name_results(messages)
    return messages


def check_anything_is_left(messages: Sequence[Mapping[str, Any]], left_out: Sequence[str]) -> None:
    """Refuse a conversation of which nothing is left without its parts of unknown types.

    Args:
        messages: a checked conversation's; only a system's do not count.
        left_out: the paths of the parts.

    Raises:
        RequestError: with the first path as ``param``.
    """
    if left_out and not any(
        message["role"] not in ("system", "developer")
        and (message["content"] or message.get("tool_calls") or message.get("reasoning_content"))
        for message in messages
    ):
        raise invalid(f"{left_out[0]}.type", "its type is not known, and nothing else is said")


def _pair_functions(messages: list[dict[str, Any]]) -> None:
    """Give calls of the former form the ids by which results are known now."""
    pending = ""
    for place, message in enumerate(messages):
        if message.get("function_call") is not None:
            pending = f"call_{place}"
            call = {"id": pending, "type": "function", "function": message.pop("function_call")}
            message["tool_calls"] = [call]
        elif message["role"] == "function":
            message["role"] = "tool"
            if pending:
                message["tool_call_id"] = pending


def _name_results(messages: list[dict[str, Any]]) -> None:
    """Give results without an id that of the next call that has none, as templates look it up."""
    waiting: list[str] = []
    for message in messages:
        if calls := message.get("tool_calls"):
            waiting = [id for call in calls if isinstance(id := call.get("id"), str)]
        elif message["role"] == "tool":
            given = message.get("tool_call_id")
            if given is None and waiting:
                message["tool_call_id"] = waiting.pop(0)
            elif given in waiting:
                waiting.remove(given)


def _message(value: object, path: str, left_out: list[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong_type(path, "an object", value)
    required_string(value, "role", path)
    check_object(value, path, _MESSAGE_MEMBERS)
    message: dict[str, Any] = {}
    thoughts: list[str] = []
    for name, member in value.items():
        if name == "content":
            may_think = value["role"] == "assistant"
            message[name] = _content(
                member, f"{path}.content", thoughts if may_think else None, left_out
            )
        elif name == "tool_calls" and member is not None:
            message[name] = _tool_calls(member, f"{path}.tool_calls")
        elif name == "function_call" and member is not None and not value.get("tool_calls"):
            function = _inner(value, name, path)
            required_string(function, "name", f"{path}.function_call")
            call = _tool_call({"function": function}, path)
            message[name] = call["function"]
        elif name in _TEXT_MEMBERS and isinstance(member, str):
            message[name] = member
    if "content" not in value and message["role"] != "assistant":
        # Only an assistant can have called tools instead of saying something.
        raise missing(f"{path}.content")
    if isinstance(value.get("reasoning"), str):
        # Newer clients of vLLM send reasoning back under this name.
        message.setdefault("reasoning_content", value["reasoning"])
    details = value.get("reasoning_details")
    if isinstance(details, list) and (texts := _texts_of_details(details)):
        message.setdefault("reasoning_content", texts)
    if thoughts:
        message.setdefault("reasoning_content", "\n".join(thoughts))
    if not message.get("content") and isinstance(value.get("refusal"), str):
        message["content"] = value["refusal"]
    message.setdefault("content", "")
    return message


def _texts_of_details(details: Sequence[object]) -> str:
    """Return the reasoning in OpenRouter's form; encrypted parts and other values have none."""
    parts = [part for part in details if isinstance(part, dict)]
    texts = [part.get("text") or part.get("summary") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def required_string(value: Mapping[str, Any], name: str, path: str) -> str:
    """Return a member of the object at ``path`` that must be there.

    Raises:
        RequestError: it is missing or null, or no string.
    """
    member = value.get(name)
    if not isinstance(member, str):
        if member is None:
            raise missing(f"{path}.{name}")
        raise wrong_type(f"{path}.{name}", "a string", member)
    return member


def _required(value: Mapping[str, Any], name: str, path: str) -> Any:
    member = value.get(name)
    if member is None:
        raise missing(f"{path}.{name}")
    return member


def _content(
    value: object, path: str, thoughts: list[str] | None, left_out: list[str]
) -> str | list[Any]:
    """Return the content of a message.

    ``thoughts`` gets the parts with reasoning, if it may, and ``left_out`` the paths of parts of
    unknown types.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of parts", value)
    parts: list[Any] = []
    for place, part in enumerate(value):
        if thoughts is not None and isinstance(part, dict) and part.get("type") == "thinking":
            thoughts.append(_thought(part))
        elif (read := _part(part, f"{path}[{place}]")) is not None:
            parts.append(read)
        else:
            left_out.append(f"{path}[{place}]")
    return parts or ""


def _thought(part: Mapping[str, Any]) -> str:
    """Return the text of a part with reasoning, as Anthropic's and Mistral's clients have it."""
    thinking = part.get("thinking")
    if isinstance(thinking, list):
        texts = (each.get("text") for each in thinking if isinstance(each, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return thinking if isinstance(thinking, str) else ""


def _part(part: object, path: str) -> dict[str, Any] | None:
    """Return a part as templates and media decoders take it; None: it is left out."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise wrong_type(path, "an object", part)
    kind = _required(part, "type", path)
    match kind:
        case "text":
            required_string(part, "text", path)
            return part
        case "input_text" | "output_text":
            return {"type": "text", "text": required_string(part, "text", path)}
        case "refusal":
            return {"type": "text", "text": required_string(part, "refusal", path)}
        case "file":
            file, place = _inner(part, "file", path), f"{path}.file"
            check_object(file, place, _FILE_MEMBERS)
            return {"type": "text", "text": file_text(file, place)}
        case "input_file":
            return {"type": "text", "text": file_text(part, path)}
        case "image_url" | "input_image":
            url = image_url(part, f"{path}.image_url")
            inner = part["image_url"]
            image = inner if isinstance(inner, dict) else {"url": url}
            return {**part, "type": "image_url", "image_url": image}
        case kind if kind in VIDEO_TYPES:
            return video_part(part, path)
        case "input_audio":
            required_string(_inner(part, "input_audio", path), "data", f"{path}.input_audio")
            return part
        case "audio_url":
            # vLLM's form, of which the files that are in the request itself are read.
            place = f"{path}.audio_url.url"
            url = required_string(_inner(part, "audio_url", path), "url", f"{path}.audio_url")
            if not url.lstrip()[:5].lower() == "data:":
                raise invalid(place, "sounds are not fetched; send the data: URL of a file")
            return {"type": "input_audio", "input_audio": {"data": url}}
        case str():
            known = (
                "text",
                "image_url",
                "video_url",
                "input_audio",
                "audio_url",
                "file",
                "refusal",
            )
            why = "is no type of parts that are read"
            leave_out_type(kind, known, path, why, noun="type of parts")
            return None
        case _:
            raise wrong_type(f"{path}.type", "a string", kind)


#: The types of a video's part: vLLM's and OpenVINO Model Server's, and what others have.
VIDEO_TYPES: Final = ("video_url", "input_video", "video")


def video_part(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a video as templates and media decoders take it.

    Its source is a text, or an object with the member ``url``, in ``video_url`` or ``video``: the
    URL of a file, or an array with the URL of each frame, as OpenVINO Model Server takes them.

    Raises:
        RequestError: there is none, or ``fps`` is not a number of frames per second.
    """
    name = "video" if part.get("video_url") is None and "video" in part else "video_url"
    place = f"{path}.{name}"
    url = _required(part, name, path)
    if isinstance(url, dict):
        url, place = _required(url, "url", place), f"{place}.url"
    if isinstance(url, list):
        for i, frame in enumerate(url):
            if not isinstance(frame, str):
                raise wrong_type(f"{place}[{i}]", "a string", frame)
    elif not isinstance(url, str):
        raise wrong_type(place, "a string or an array of strings", url)
    fps = frames_per_second(part.get("fps"), f"{path}.fps", usual=VideoSampling().fps)
    return {"type": "video_url", "video_url": {"url": url}, "fps": fps}


def frames_per_second(value: object, path: str, usual: float) -> float:
    """Return the member at ``path``, which says how often frames are taken; ``usual``: if None.

    Raises:
        RequestError: it is not a number, or not above 0 and up to `MAX_FPS`.
    """
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_FPS:
        raise invalid(path, f"expected frames per second above 0, up to {MAX_FPS}")
    return float(value)


def image_url(part: Mapping[str, Any], path: str) -> str:
    """Return the URL of an image, which is a text or in an object of its own.

    Raises:
        RequestError: there is none.
    """
    value = part.get("image_url")
    match value:
        case None:
            raise missing(path)
        case str():
            return value
        case dict():
            return required_string(value, "url", path)
        case _:
            raise wrong_type(path, "an object or a string", value)


def _inner(part: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    inner = _required(part, name, path)
    if not isinstance(inner, dict):
        raise wrong_type(f"{path}.{name}", "an object", inner)
    return inner


def _tool_calls(value: object, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return [_tool_call(call, f"{path}[{place}]") for place, call in enumerate(value)]


def _tool_call(call: object, path: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise wrong_type(path, "an object", call)
    if call.get("type") == "custom":
        custom = _inner(call, "custom", path)
        place = f"{path}.custom"
        text = required_string(custom, "input", place)
        written = json.dumps({CUSTOM_INPUT: text}, ensure_ascii=False)
        made = {"name": required_string(custom, "name", place), "arguments": written}
        return {"id": call.get("id"), "type": "function", "function": made}
    function = _inner(call, "function", path)
    # Templates write names without checking that they exist.
    required_string(function, "name", f"{path}.function")
    # Templates may show further members.
    check_spelling(function, f"{path}.function", ("name", "arguments"))
    arguments = function.get("arguments")
    if arguments is None or arguments == "":
        # Templates print arguments without checking that they exist.
        return {**call, "function": {**function, "arguments": "{}"}}
    if isinstance(arguments, str):
        check_arguments(arguments, f"{path}.function.arguments")
    return call


def check_arguments(text: str, path: str) -> None:
    """Check the arguments of a call, a text that the prompt process parses as `json.loads` does.

    Text that is not JSON stays: some models write it, and a limit of tokens may cut a call. A
    client that sends it back could not go on with the conversation if that was an error.

    Raises:
        RequestError: the JSON has half of a surrogate pair, which no process can send on.
    """
    try:
        value = json.loads(text)
        if _ESCAPED_HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise invalid(path, "the JSON in the text has half of a surrogate pair") from None
    except (ValueError, RecursionError):
        pass
