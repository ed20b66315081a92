"""`Items`: what has been said in a conversation, as OpenAI's items and as messages of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.language.generation_request import Message
from calculators.llm.requests.messages import required_string

#: Items of a conversation, and the characters of all: then the client has to delete some.
MOST_ITEMS: Final = 1024
MOST_CHARACTERS: Final = 1 << 20
_TEXTS: Final = ("input_text", "output_text", "text")
_ROLES: Final = ("user", "assistant", "system")


@dataclass(slots=True, eq=False)
class ConversationItem:
    """One item.

    Attributes:
        type: ``message``, ``function_call`` or ``function_call_output``.
        role: of messages.
        kind: of their content: ``input_text``, ``input_audio``, ``output_text``, ``output_audio``.
        text: what was said, the arguments of a call, or its output.
        name: of the function.
        call_id: of the call.
        status: ``completed``, ``incomplete`` or ``in_progress``.
        heard: set when the text of a sound is there; None: the text was never sound.
        failure: the error with which a sound was not understood.
        spoken: the text and the milliseconds of each sentence that was sent as sound.
    """

    id: str
    type: str = "message"
    role: str = ""
    kind: str = ""
    text: str = field(default="", repr=False)
    name: str = ""
    call_id: str = ""
    status: str = "completed"
    heard: asyncio.Event | None = None
    failure: RequestError | None = None
    spoken: list[tuple[str, int]] = field(default_factory=list, repr=False)

    def described(self) -> Mapping[str, Any]:
        """Return the item's object. Sound is not kept."""
        about: dict[str, Any] = {
            "id": self.id,
            "object": "realtime.item",
            "type": self.type,
            "status": self.status,
        }
        if self.type == "function_call":
            return about | {"name": self.name, "call_id": self.call_id, "arguments": self.text}
        if self.type == "function_call_output":
            return about | {"call_id": self.call_id, "output": self.text}
        return about | {"role": self.role, "content": self._content()}

    def _content(self) -> list[dict[str, Any]]:
        if self.kind == "input_audio":
            is_heard = self.heard is None or self.heard.is_set()
            return [{"type": self.kind, "transcript": self.text if is_heard else None}]
        if not self.text:
            return []
        member = "transcript" if self.kind == "output_audio" else "text"
        return [{"type": self.kind, member: self.text}]

    def truncate(self, milliseconds: int) -> None:
        """Cut the text to what was heard of its sound by a time."""
        kept = []
        for text, duration in self.spoken:
            if milliseconds >= duration:
                kept.append(text)
            elif milliseconds > 0:
                words = text.split()
                kept.append(" ".join(words[: len(words) * milliseconds // duration]))
            milliseconds -= duration
        self.text = " ".join(part for part in kept if part)


class Items:
    """The items of a conversation, in order."""

    def __init__(self) -> None:
        self._items: dict[str, ConversationItem] = {}

    def __iter__(self) -> Iterator[ConversationItem]:
        return iter(self._items.values())

    def __contains__(self, name: object) -> bool:
        return name in self._items

    @property
    def last(self) -> str | None:
        """The id of the last item, or None."""
        return next(reversed(self._items), None)

    def find(self, event: Mapping[str, Any]) -> ConversationItem:
        """Return the item that an event names.

        Raises:
            RequestError: there is none.
        """
        name = fields.string(event, "item_id")
        if name is None:
            raise fields.missing("item_id")
        found = self._items.get(name)
        if found is None:
            raise RequestError(
                f"there is no item {fields.describe(name)} in this conversation",
                param="item_id",
                reason="item_not_found",
            )
        return found

    def add(self, item: ConversationItem, after: str | None = None) -> str | None:
        """Add an item, at the end or after another one; return the id of the one before it.

        Args:
            after: an item's id, or "root" for the beginning.

        Raises:
            RequestError: there is no such item, one of this id is there, or there is no room.
        """
        if item.id in self._items:
            text = f"the item {fields.describe(item.id)} is there already"
            raise RequestError(text, param="item.id", reason="item_already_exists")
        taken = sum(len(each.text) for each in self._items.values()) + len(item.text)
        if len(self._items) >= MOST_ITEMS or taken > MOST_CHARACTERS:
            raise RequestError(
                f"the conversation has room for {MOST_ITEMS} items with {MOST_CHARACTERS} "
                "characters: delete some",
                reason="conversation_full",
            )
        names = list(self._items)
        if after is None:
            self._items[item.id] = item
            return names[-1] if names else None
        if after != "root" and after not in self._items:
            raise RequestError(
                f"there is no item {fields.describe(after)} in this conversation",
                param="previous_item_id",
                reason="item_not_found",
            )
        place = 0 if after == "root" else names.index(after) + 1
        before = list(self._items.values())
        self._items = {each.id: each for each in (*before[:place], item, *before[place:])}
        return names[place - 1] if place else None

    def before(self, item: ConversationItem) -> str | None:
        """Return the id of the item before another one, or None."""
        previous = None
        for name in self._items:
            if name == item.id:
                return previous
            previous = name
        return None

    def remove(self, item: ConversationItem) -> None:
        """Take an item out."""
        self._items.pop(item.id, None)


def read_item(item: Mapping[str, Any], new_id: str) -> ConversationItem:
    """Return the item of ``conversation.item.create``. Sound and images are not taken.

    Raises:
        RequestError: a member is wrong; ``param`` is its path.
    """
    name = fields.string(item, "id", "item.id") or new_id
    if len(name) > 64:
        raise fields.invalid("item.id", "expected at most 64 characters")
    kind = fields.string(item, "type", "item.type")
    if kind == "function_call_output":
        call_id = required_string(item, "call_id", "item")
        output = required_string(item, "output", "item")
        return ConversationItem(name, kind, call_id=call_id, text=output)
    if kind == "function_call":
        return ConversationItem(
            name,
            kind,
            name=required_string(item, "name", "item"),
            call_id=fields.string(item, "call_id", "item.call_id") or f"call_{name}",
            text=required_string(item, "arguments", "item"),
        )
    if kind != "message":
        expected = "message, function_call, function_call_output"
        raise fields.invalid("item.type", f"expected one of {expected}")
    role = required_string(item, "role", "item")
    if role not in _ROLES:
        raise fields.invalid("item.role", f"expected one of {', '.join(_ROLES)}")
    content = fields.array(item, "content", "item.content") or []
    texts = []
    for place, part in enumerate(content):
        path = f"item.content[{place}]"
        if not isinstance(part, dict):
            raise fields.invalid(path, "expected an object")
        if part.get("type") in _TEXTS:
            texts.append(required_string(part, "text", path))
        elif part.get("type") == "output_audio":
            texts.append(required_string(part, "transcript", path))
        else:
            raise fields.invalid(
                f"{path}.type", f"expected one of {', '.join(_TEXTS[:2])}; append sound instead"
            )
    text_kind = "output_text" if role == "assistant" else "input_text"
    return ConversationItem(name, role=role, kind=text_kind, text="\n".join(texts))


def messages_of(items: Iterable[ConversationItem]) -> list[Message]:
    """Return items as the messages of a chat, without silence and calls that have no output."""
    items = list(items)
    answered = {each.call_id for each in items if each.type == "function_call_output"}
    called = {each.call_id for each in items if each.type == "function_call"}
    made: list[Message] = []
    for item in items:
        if item.type == "function_call":
            if item.call_id in answered:
                call = {
                    "id": item.call_id,
                    "type": "function",
                    "function": {"name": item.name, "arguments": item.text},
                }
                if made and made[-1]["role"] == "assistant" and "tool_calls" in made[-1]:
                    made[-1]["tool_calls"].append(call)
                else:
                    made.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif item.type == "function_call_output":
            if item.call_id in called:
                made.append({"role": "tool", "tool_call_id": item.call_id, "content": item.text})
        elif item.text.strip():
            made.append({"role": item.role, "content": item.text.strip()})
    return made
