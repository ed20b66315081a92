"""The member ``input`` of a responses request, as messages for the template.

Source: OpenVINO Model Server ``llm/apis/openai_responses.cpp``. Unlike there, all parts of
reasoning are kept, not only the first, and calls after a text of the assistant belong to the same
message, as they did when the model wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.messages import check_arguments, required_string
from calculators.llm.requests.request_limits import RequestLimits
from calculators.requests import fields

_TEXT_PARTS: Final = {"input_text": "text", "output_text": "text", "refusal": "refusal"}


def read_input(
    value: object, limits: RequestLimits, media: MediaCheck | None = None
) -> list[dict[str, Any]]:
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
        return [{"role": "user", "content": value}]
    if not isinstance(value, list):
        raise fields.wrong_type("input", "a string or an array", value)
    if not value:
        raise fields.invalid("input", "expected at least one item")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "input", f"{len(value)} items are more than the maximum {limits.max_messages}"
        )
    conversation = _Conversation(media or MediaCheck(limits))
    for place, item in enumerate(value):
        conversation.add(item, f"input[{place}]")
    conversation.flush()
    return conversation.messages


class _Conversation:
    """Gathers the parts of a message of the assistant: reasoning, text and calls."""

    def __init__(self, media: MediaCheck) -> None:
        self.messages: list[dict[str, Any]] = []
        self._media = media
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        #: The last text of the assistant, which calls may follow.
        self._said: dict[str, Any] | None = None

    def add(self, item: object, path: str) -> None:
        if not isinstance(item, dict):
            raise fields.wrong_type(path, "an object", item)
        kind = fields.string(item, "type", f"{path}.type")
        match kind:
            case "reasoning":
                self._add_reasoning(item, path)
            case "function_call":
                self._calls.append(_call(item, path))
            case "function_call_output":
                self._add_output(item, path)
            case "mcp_call":
                self._add_server_call(item, path)
            case "mcp_list_tools":
                pass  # the tools are listed anew
            case None | "message":
                self._add_message(item, path)
            case _:
                raise fields.invalid(
                    f"{path}.type",
                    f'{fields.describe(kind)} is none of "message", "function_call", '
                    '"function_call_output", "reasoning", "mcp_call", "mcp_list_tools"',
                )

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
        self._reasoning += _texts(item, "content", path) or _texts(item, "summary", path)

    def _add_output(self, item: dict[str, Any], path: str) -> None:
        self.flush()
        message: dict[str, Any] = {"role": "tool"}
        call_id = fields.string(item, "call_id", f"{path}.call_id")
        if call_id is not None:
            message["tool_call_id"] = call_id
        output = item.get("output")
        if output is None:
            output = ""
        message["content"] = self._content(output, f"{path}.output")
        self.messages.append(message)

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
        if not value:
            raise fields.invalid(path, "expected at least one part")
        return [self._part(part, f"{path}[{place}]") for place, part in enumerate(value)]

    def _part(self, part: object, path: str) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise fields.wrong_type(path, "an object", part)
        kind = fields.string(part, "type", f"{path}.type")
        match kind:
            case None:
                raise fields.missing(f"{path}.type")
            case "input_text" | "output_text" | "refusal":
                return {"type": "text", "text": required_string(part, _TEXT_PARTS[kind], path)}
            case "input_image":
                url = _image_url(part, f"{path}.image_url")
                self._media.image(path, url, "image_url")
                return {"type": "image_url", "image_url": {"url": url}}
            case "input_audio":
                audio = fields.json_object(part, "input_audio", f"{path}.input_audio")
                if audio is None:
                    raise fields.missing(f"{path}.input_audio")
                data = required_string(audio, "data", f"{path}.input_audio")
                form = fields.string(audio, "format", f"{path}.input_audio.format") or "wav"
                self._media.audio(path)
                return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
            case _:
                raise fields.invalid(
                    f"{path}.type",
                    f'{fields.describe(kind)} is none of "input_text", "output_text", '
                    '"input_image", "input_audio"',
                )


def _call(item: dict[str, Any], path: str) -> dict[str, Any]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        call_id = item.get("id")
    if not isinstance(call_id, str):
        raise fields.missing(f"{path}.call_id")
    arguments = required_string(item, "arguments", path)
    check_arguments(arguments, f"{path}.arguments")
    function = {"name": required_string(item, "name", path), "arguments": arguments or "{}"}
    return {"id": call_id, "type": "function", "function": function}


def _image_url(part: Mapping[str, Any], path: str) -> str:
    """Read a string, as in OpenAI's API, or an object with ``url`` as in a chat request."""
    value = part.get("image_url")
    match value:
        case None:
            raise fields.missing(path)
        case str():
            return value
        case dict():
            return required_string(value, "url", path)
        case _:
            raise fields.wrong_type(path, "a string or an object", value)


def _texts(item: Mapping[str, Any], name: str, path: str) -> list[str]:
    parts = fields.array(item, name, f"{path}.{name}") or []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str) and text]
