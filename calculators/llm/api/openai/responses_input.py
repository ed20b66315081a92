"""The member ``input`` of a responses request, as messages for the template.

Source: OpenVINO Model Server ``llm/apis/openai_responses.cpp``. Unlike there, all parts of
reasoning are kept, not only the first, and calls after a text of the assistant belong to the same
message, as they did when the model wrote them.

Calls of all types become calls of the functions that `client_tools` makes of the tools. Items
about what OpenAI's servers have done are passed over: they have nothing that a model can read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from calculators.images.media.image import VideoSampling
from calculators.kit.requests import fields
from calculators.kit.requests.members import check_object, leave_out, leave_out_type
from calculators.llm.api.openai.responses_object import opened
from calculators.llm.requests.client_tools import CUSTOM_INPUT, flat_name
from calculators.llm.requests.messages import (
    VIDEO_TYPES,
    MediaCheck,
    check_anything_is_left,
    check_arguments,
    file_text,
    image_url,
    required_string,
    video_part,
)
from calculators.llm.requests.request_limits import RequestLimits

_TEXT_PARTS: Final = {
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}


#: Items about tools that ran at OpenAI, or that only its servers and clients know.
PASSED_OVER: Final = (
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "web_search_call",
    "file_search_call",
    "image_generation_call",
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "ghost_snapshot",
)
ITEM_TYPES: Final = (
    "message",
    "agent_message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "reasoning",
    "mcp_call",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "compaction",
    *PASSED_OVER,
)
PART_TYPES: Final = (
    *("input_text", "output_text", "refusal", "input_image", "input_audio", "input_file"),
    *VIDEO_TYPES,
)
_READ: Final = frozenset({None, *ITEM_TYPES}.difference(PASSED_OVER))
#: The members of items and parts that are read, or that clients send back of an answer.
_ITEM: Final = frozenset(
    {
        *("type", "id", "call_id", "status", "role", "content", "phase", "name", "namespace"),
        *("arguments", "input", "action", "operation", "output", "execution", "tools", "error"),
        *("encrypted_content", "summary", "server_label", "approval_request_id", "author"),
        *("recipient", "agent", "caller", "created_by", "environment", "max_output_length"),
    }
)
_PART: Final = frozenset(
    {
        *("type", "text", "annotations", "logprobs", "refusal", "image_url", "detail"),
        *("file_id", "file_data", "file_url", "filename", "input_audio"),
        *("video_url", "video", "fps"),
    }
)
#: The front puts the items in their place where responses are kept.
STORED: Final = ("item_reference",)


class ReadInput(NamedTuple):
    """The input of a request.

    Attributes:
        messages: for the template.
        tools: those that items add to the request's, each after its path.
    """

    messages: list[dict[str, Any]]
    tools: Sequence[tuple[str, Any]] = ()


def read_input(value: object, limits: RequestLimits, media: MediaCheck | None = None) -> ReadInput:
    """Read a string, which is the user's message, or an array of items.

    ``media`` gathers the images.

    Raises:
        RequestError: ``param`` is the place, such as ``input[2].content[0].text``.
    """
    if value is None:
        raise fields.missing("input", "a string or an array of items")
    if isinstance(value, str):
        if not value:
            raise fields.invalid("input", "the string is empty")
        return ReadInput([{"role": "user", "content": value}])
    if not isinstance(value, list):
        raise fields.wrong_type("input", "a string or an array", value)
    if not value:
        raise fields.invalid("input", "expected at least one item")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "input", f"{len(value)} items are more than the maximum {limits.max_messages}"
        )
    conversation = _ResponsesInput(media or MediaCheck(limits))
    for place, item in enumerate(value):
        conversation.add(item, f"input[{place}]")
    conversation.flush()
    check_anything_is_left(conversation.messages, conversation.left_out)
    return ReadInput(conversation.messages, conversation.tools)


class _ResponsesInput:
    """Gathers the parts of a message of the assistant: reasoning, text and calls."""

    def __init__(self, media: MediaCheck) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: list[tuple[str, Any]] = []
        #: The paths of items and parts of unknown types.
        self.left_out: list[str] = []
        self._media = media
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        #: The last text of the assistant, which calls may follow.
        self._said: dict[str, Any] | None = None

    def add(self, item: object, path: str) -> None:
        if not isinstance(item, dict):
            raise fields.wrong_type(path, "an object", item)
        kind = fields.string(item, "type", f"{path}.type")
        if kind in _READ:
            check_object(item, path, _ITEM)
        match kind:
            case "reasoning":
                self._add_reasoning(item, path)
            case "function_call":
                self._calls.append(_call(item, path))
            case "custom_tool_call" | "local_shell_call" | "shell_call" | "apply_patch_call":
                self._calls.append(_client_call(item, kind, path))
            case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
                self._add_output(item, path)
            case "shell_call_output" | "apply_patch_call_output":
                self._add_output({**item, "output": _run_output(item, path)}, path)
            case "mcp_call":
                self._add_server_call(item, path)
            case "tool_search_call":
                if fields.string(item, "execution", f"{path}.execution") == "client":
                    self._calls.append(_client_call(item, kind, path))
            case "tool_search_output" | "additional_tools":
                self._add_tools(item, path)
            case None | "message":
                self._add_message(item, path)
            case "agent_message":
                self._add_message({"role": "user", **item}, path)
            case "compaction":
                self._add_compaction(item, path)
            case _ if kind in PASSED_OVER:
                pass
            case _ if kind in STORED:
                raise fields.invalid(
                    f"{path}.type",
                    f"{fields.describe(kind)} names what is not kept here; send the item itself",
                )
            case _:
                why = "is no type of items that are read"
                leave_out_type(kind, ITEM_TYPES, path, why, noun="type of items")
                self.left_out.append(path)

    def flush(self) -> None:
        """Make a message of the assistant of the pending parts."""
        said, self._said = self._said, None
        if self._calls and said is not None and not self._reasoning:
            said["tool_calls"], self._calls = self._calls, []
        elif self._calls or self._reasoning:
            self._add_assistant("")

    def _add_assistant(self, content: str | list[dict[str, Any]]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._reasoning:
            message["reasoning_content"] = "\n".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = self._calls
        else:
            self._said = message
        self._reasoning, self._calls = [], []
        self.messages.append(message)

    def _add_reasoning(self, item: dict[str, Any], path: str) -> None:
        sealed = fields.string(item, "encrypted_content", f"{path}.encrypted_content")
        texts = _texts(item, "content", path) or _texts(item, "summary", path)
        if sealed and (text := opened(sealed)) is not None:
            texts = [text]
        elif sealed and not texts:
            _leave_out_foreign(path)
        self._reasoning += texts

    def _add_compaction(self, item: dict[str, Any], path: str) -> None:
        """Add a summary of an earlier conversation, if this server has made it."""
        sealed = required_string(item, "encrypted_content", path)
        if (text := opened(sealed)) is not None:
            self.flush()
            self.messages.append({"role": "user", "content": text})
        else:
            _leave_out_foreign(path)

    def _add_output(self, item: dict[str, Any], path: str) -> None:
        self.flush()
        message: dict[str, Any] = {"role": "tool"}
        call_id = fields.string(item, "call_id", f"{path}.call_id")
        if call_id is None:
            call_id = fields.string(item, "id", f"{path}.id")
        if call_id is not None:
            message["tool_call_id"] = call_id
        output = item.get("output")
        message["content"] = "" if output is None else self._content(output, f"{path}.output")
        self.messages.append(message)

    def _add_tools(self, item: dict[str, Any], path: str) -> None:
        found = fields.array(item, "tools", f"{path}.tools") or ()
        self.tools += [(f"{path}.tools[{i}]", tool) for i, tool in enumerate(found)]
        if item.get("type") == "tool_search_output" and item.get("execution") == "client":
            names = [tool["name"] for tool in found if isinstance(tool, dict) and "name" in tool]
            text = (
                "Tools that can be called now: " + json.dumps(names)
                if names
                else "No tools were found."
            )
            self._add_output({**item, "output": text}, path)

    def _add_server_call(self, item: dict[str, Any], path: str) -> None:
        """Add a call that this server ran in an earlier answer, and its result."""
        call = _call(item, path)
        self._calls.append(call)
        self.flush()
        output = fields.string(item, "output", f"{path}.output") or ""
        error = fields.string(item, "error", f"{path}.error")
        text = output if error is None else f"error: {error}"
        self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    def _add_message(self, item: dict[str, Any], path: str) -> None:
        role = fields.string(item, "role", f"{path}.role")
        if role is None:
            raise fields.missing(f"{path}.role")
        if item.get("content") is None:
            raise fields.missing(f"{path}.content")
        if role != "assistant":
            self.flush()
        content = self._content(item["content"], f"{path}.content")
        if role == "assistant":
            self._add_assistant(content)
        else:
            self.messages.append({"role": role, "content": content})

    def _content(self, value: object, path: str) -> str | list[dict[str, Any]]:
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise fields.wrong_type(path, "a string or an array of parts", value)
        parts = [self._part(part, f"{path}[{place}]") for place, part in enumerate(value)]
        return [part for part in parts if part is not None] or ""

    def _part(self, part: object, path: str) -> dict[str, Any] | None:
        if not isinstance(part, dict):
            raise fields.wrong_type(path, "an object", part)
        kind = fields.string(part, "type", f"{path}.type")
        if kind in PART_TYPES:
            check_object(part, path, _PART)
        match kind:
            case None:
                raise fields.missing(f"{path}.type")
            case "input_text" | "output_text" | "refusal":
                return {"type": "text", "text": required_string(part, _TEXT_PARTS[kind], path)}
            case "input_file":
                return {"type": "text", "text": file_text(part, path)}
            case "encrypted_content":
                return None  # for OpenAI's own models
            case "input_image":
                url = image_url(part, f"{path}.image_url")
                self._media.image(path, url, "image_url")
                return {"type": "image_url", "image_url": {"url": url}}
            case kind if kind in VIDEO_TYPES:
                video = video_part(part, path)
                url, fps = video["video_url"]["url"], video["fps"]
                self._media.video(path, url, "video_url", VideoSampling(fps))
                return video
            case "input_audio":
                audio = fields.json_object(part, "input_audio", f"{path}.input_audio")
                if audio is None:
                    raise fields.missing(f"{path}.input_audio")
                data = required_string(audio, "data", f"{path}.input_audio")
                form = fields.string(audio, "format", f"{path}.input_audio.format") or "wav"
                self._media.sound(path, data, "input_audio.data")
                return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
            case _:
                why = "is no type of parts that are read"
                leave_out_type(kind, PART_TYPES, path, why, noun="type of parts")
                self.left_out.append(path)
                return None


def _leave_out_foreign(path: str) -> None:
    """Leave out the opaque text of an item that this server has not made."""
    why = "the text is not of this server, or is changed"
    leave_out(fields.invalid(f"{path}.encrypted_content", why))


def _call(item: dict[str, Any], path: str) -> dict[str, Any]:
    call_id = _call_id(item, path)
    arguments = required_string(item, "arguments", path)
    check_arguments(arguments, f"{path}.arguments")
    name = required_string(item, "name", path)
    return _function_call(item, call_id, name, arguments or "{}", path)


def _client_call(item: dict[str, Any], kind: str, path: str) -> dict[str, Any]:
    """Return a call of a tool that is not a function, as the call of the function it has become."""
    call_id = _call_id(item, path)
    match kind:
        case "custom_tool_call":
            name = required_string(item, "name", path)
            given: dict[str, Any] = {CUSTOM_INPUT: required_string(item, "input", path)}
        case "apply_patch_call":
            name = "apply_patch"
            given = _inner(item, "operation", path)
        case "tool_search_call":
            name = "tool_search"
            given = fields.json_object(item, "arguments", f"{path}.arguments") or {}
        case _:
            name = kind.removesuffix("_call")
            given = {
                member: value
                for member, value in _inner(item, "action", path).items()
                if member != "type" and value not in (None, {})
            }
    return _function_call(item, call_id, name, json.dumps(given, ensure_ascii=False), path)


def _call_id(item: dict[str, Any], path: str) -> str:
    for name in ("call_id", "id"):
        if isinstance(found := item.get(name), str):
            return found
    raise fields.missing(f"{path}.call_id")


def _function_call(
    item: dict[str, Any], call_id: str, name: str, arguments: str, path: str
) -> dict[str, Any]:
    namespace = fields.string(item, "namespace", f"{path}.namespace") or ""
    function = {"name": flat_name(namespace, name), "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _inner(item: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    inner = fields.json_object(item, name, f"{path}.{name}")
    if inner is None:
        raise fields.missing(f"{path}.{name}")
    return inner


def _run_output(item: dict[str, Any], path: str) -> str:
    """Return the result of shell commands or of a patch as a text for the model."""
    output = item.get("output")
    if not isinstance(output, list):
        text = fields.string(item, "output", f"{path}.output") or ""
        return text or fields.string(item, "status", f"{path}.status") or ""
    return json.dumps(output, ensure_ascii=False)


def _texts(item: Mapping[str, Any], name: str, path: str) -> list[str]:
    parts = fields.array(item, name, f"{path}.{name}") or []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text]
