"""``system`` and ``messages`` of an Anthropic request, as messages for the template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calculators.kit.requests import fields
from calculators.llm.requests.documents import decoded_text, document_text
from calculators.llm.requests.media import MediaCheck
from calculators.llm.requests.messages import required_string
from calculators.llm.requests.request_limits import RequestLimits


def read_messages(
    body: Mapping[str, Any], limits: RequestLimits, media: MediaCheck
) -> list[dict[str, Any]]:
    """Return the conversation. A user's turn with results of tools becomes several messages.

    The last message may be the assistant's: its text is the beginning of the answer.

    ``media`` gathers the images.

    Raises:
        RequestError: ``param`` is the place, such as ``messages[2].content[0].text``.
    """
    value = body.get("messages")
    if value is None:
        raise fields.missing("messages", "the conversation, an array of messages")
    if not isinstance(value, list):
        raise fields.wrong_type("messages", "an array", value)
    if not value:
        raise fields.invalid("messages", "expected at least one message")
    if len(value) > limits.max_messages:
        raise fields.invalid(
            "messages", f"{len(value)} messages are more than the maximum {limits.max_messages}"
        )
    conversation = _Conversation(media)
    if body.get("system") is not None:
        conversation.add_text("system", body["system"], "system")
    for place, message in enumerate(value):
        conversation.add(message, f"messages[{place}]")
    if not conversation.messages:
        raise fields.invalid("messages", "nothing is said in any of them")
    return conversation.messages


class _Conversation:
    def __init__(self, media: MediaCheck) -> None:
        self.messages: list[dict[str, Any]] = []
        self._media = media

    def add(self, message: object, path: str) -> None:
        if not isinstance(message, dict):
            raise fields.wrong_type(path, "an object", message)
        role = fields.string(message, "role", f"{path}.role")
        if role is None:
            raise fields.missing(f"{path}.role")
        content = message.get("content")
        path = f"{path}.content"
        if content is None:
            raise fields.missing(path)
        match role:
            case "user":
                self._add_user(content, path)
            case "assistant":
                self._add_assistant(content, path)
            case "system":
                self.add_text(role, content, path)
            case _:
                raise fields.invalid(
                    path.removesuffix("content") + "role",
                    f'{fields.describe(role)} is none of "user", "assistant", "system"',
                )

    def add_text(self, role: str, content: object, path: str) -> None:
        """Add a message that has only text."""
        if not isinstance(content, str):
            blocks = _blocks(content, path)
            for block, kind, place in blocks:
                if kind != "text":
                    raise _unknown(kind, place, "text")
                required_string(block, "text", place)
            content = _joined([_text(block["text"]) for block, _, _ in blocks])
        if content:
            self.messages.append({"role": role, "content": content})

    def _add_user(self, content: object, path: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": "user", "content": content})
            return
        parts: list[dict[str, Any]] = []
        blocks = _blocks(content, path)
        if not blocks:
            self.messages.append({"role": "user", "content": ""})
        for block, kind, place in blocks:
            if kind != "tool_result":
                parts += self._parts(block, kind, place, "tool_result")
                continue
            if parts:
                self.messages.append({"role": "user", "content": _joined(parts)})
                parts = []
            self._add_result(block, place)
        if parts:
            self.messages.append({"role": "user", "content": _joined(parts)})

    def _add_result(self, block: dict[str, Any], path: str) -> None:
        call_id = required_string(block, "tool_use_id", path)
        content = block.get("content")
        parts: list[dict[str, Any]] = []
        if fields.boolean(block, "is_error", f"{path}.is_error"):
            # Templates have no member for errors.
            parts.append(_text("Error: "))
        if isinstance(content, str):
            parts.append(_text(content))
        elif content is not None:
            path = f"{path}.content"
            for each in _blocks(content, path):
                parts += self._parts(*each, "tool_reference")
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": _joined(parts)})

    def _add_assistant(self, content: object, path: str) -> None:
        if isinstance(content, str):
            self.messages.append({"role": "assistant", "content": content})
            return
        said = _Said()
        results = 0
        for block, kind, place in _blocks(content, path):
            if kind == "mcp_tool_result":
                # The server's own calls: each turn of the model was a message.
                self.messages += [said.message] if said.has_any else []
                said = _Said()
                results += 1
                self._add_result(block, place)
                continue
            match kind:
                case "text":
                    said.parts.append(_text(required_string(block, "text", place)))
                case "thinking":
                    said.reasoning.append(required_string(block, "thinking", place))
                case "redacted_thinking":
                    pass  # encrypted by its author
                case _ if _ran_elsewhere(kind):
                    pass  # by tools of Anthropic, in an earlier turn
                case "tool_use" | "mcp_tool_use":
                    said.calls.append(_call(block, place))
                case _:
                    raise _unknown(kind, place, "text", "thinking", "tool_use", "mcp_tool_use")
        if said.has_any or not results:
            self.messages.append(said.message)

    def _parts(
        self, block: dict[str, Any], kind: str, path: str, also: str
    ) -> list[dict[str, Any]]:
        """Return the parts of a block of the user's or of a result; ``also``: what else may be."""
        match kind:
            case "text":
                return [_text(required_string(block, "text", path))]
            case "image":
                url = _image_url(block, path)
                self._media.image(path, url, "source")
                return [{"type": "image_url", "image_url": {"url": url}}]
            case "document":
                return self._document(block, path)
            case "search_result":
                return self._search_result(block, path)
            case "tool_reference" if also == kind:
                name = required_string(block, "tool_name", path)
                return [_text(f"The tool {name} is loaded.\n")]
            case _:
                raise _unknown(kind, path, "text", "image", "document", "search_result", also)

    def _document(self, block: dict[str, Any], path: str) -> list[dict[str, Any]]:
        name = fields.string(block, "title", f"{path}.title") or ""
        about = fields.string(block, "context", f"{path}.context")
        path = f"{path}.source"
        source = fields.json_object(block, "source", path)
        if source is None:
            raise fields.missing(path)
        before = [_text(f"{about}\n")] if about else []
        match required_string(source, "type", path):
            case "text":
                return [*before, _text(document_text(required_string(source, "data", path), name))]
            case "base64":
                kind = required_string(source, "media_type", path)
                data = required_string(source, "data", path)
                text = decoded_text(data, kind, f"{path}.data")
                return [*before, _text(document_text(text, name))]
            case "content":
                content = source.get("content")
                if isinstance(content, str):
                    return [*before, _text(document_text(content, name))]
                inner = [
                    part
                    for each in _blocks(content, f"{path}.content")
                    for part in self._parts(*each, "text")
                ]
                texts = [part["text"] for part in inner if part["type"] == "text"]
                others = [part for part in inner if part["type"] != "text"]
                return [*before, _text(document_text("".join(texts), name)), *others]
            case kind:
                raise _unknown(kind, path, "text", "base64", "content")

    def _search_result(self, block: dict[str, Any], path: str) -> list[dict[str, Any]]:
        source = required_string(block, "source", path)
        title = fields.string(block, "title", f"{path}.title") or source
        texts = []
        for inner, kind, place in _blocks(block.get("content"), f"{path}.content"):
            if kind != "text":
                raise _unknown(kind, place, "text")
            texts.append(required_string(inner, "text", place))
        return [_text(document_text(f"Source: {source}\n" + "".join(texts), title))]


@dataclass(slots=True)
class _Said:
    """One message of the assistant."""

    parts: list[dict[str, Any]] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_any(self) -> bool:
        return bool(self.parts or self.reasoning or self.calls)

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": _joined(self.parts)}
        if any(self.reasoning):
            message["reasoning_content"] = "\n".join(filter(None, self.reasoning))
        if self.calls:
            message["tool_calls"] = self.calls
        return message


def _ran_elsewhere(kind: str) -> bool:
    """Return True for blocks about tools that ran at Anthropic."""
    return kind == "server_tool_use" or kind.endswith("_tool_result")


def _blocks(content: object, path: str) -> list[tuple[dict[str, Any], str, str]]:
    """Return each block with its type and its path."""
    if not isinstance(content, list):
        raise fields.wrong_type(path, "a string or an array of blocks", content)
    blocks = []
    for number, block in enumerate(content):
        place = f"{path}[{number}]"
        if not isinstance(block, dict):
            raise fields.wrong_type(place, "an object", block)
        blocks.append((block, required_string(block, "type", place), place))
    return blocks


def _image_url(block: dict[str, Any], path: str) -> str:
    path = f"{path}.source"
    source = fields.json_object(block, "source", path)
    if source is None:
        raise fields.missing(path)
    match required_string(source, "type", path):
        case "url":
            return required_string(source, "url", path)
        case "base64":
            media_type = required_string(source, "media_type", path)
            return f"data:{media_type};base64,{required_string(source, 'data', path)}"
        case kind:
            raise _unknown(kind, path, "base64", "url")


def _call(block: dict[str, Any], path: str) -> dict[str, Any]:
    arguments = fields.json_object(block, "input", f"{path}.input")
    if arguments is None:
        raise fields.missing(f"{path}.input")
    written = json.dumps(arguments, ensure_ascii=False)
    function = {"name": required_string(block, "name", path), "arguments": written}
    return {"id": required_string(block, "id", path), "type": "function", "function": function}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _joined(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return content: a string for one text or none, else the parts."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


def _unknown(kind: str, path: str, *known: str) -> Exception:
    words = ", ".join(f'"{word}"' for word in known)
    return fields.invalid(f"{path}.type", f"{fields.describe(kind)} is not supported here: {words}")
