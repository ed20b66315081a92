"""`CallWalker`: the base of parsers of calls whose arguments are not written as JSON.

Such a parser walks through the text state by state. Its `CallScanner` remembers what was taken, so
that text that turns out not to be a call is content again, unchanged. Its `BuiltCall` makes JSON of
the arguments, and announces the call with the first of them: from then on it is a call, however its
text goes on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, ClassVar, NamedTuple

from calculators.language.events import Arguments, Content, OutputEvent, ToolCall
from calculators.llm.parsers.parser import Tags, TagScanner, ToolParser


class CallWalker(ToolParser):
    """Walks through a text. Each state is a method that takes some of the text received so far.

    A state returns False when it needs more text. To be independent of where the text was cut, a
    state decides by a tag, or by text that no tag of another state precedes.

    Attributes:
        erased: tags that are left out of the content, such as ends of turns.
    """

    erased: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._scanner = CallScanner()
        self._events: list[OutputEvent] = []
        self._state: Callable[[], bool] = self._outside

    def feed(self, text: str) -> list[OutputEvent]:
        self._scanner.feed(text)
        return self._walk()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        events = self._walk()
        self._no_call()
        return events + self._walk()

    def _take_content(self, tags: Tags) -> str | None:
        """Pass on text as content and return the next tag that begins a call, or None.

        ``tags``: the tags that begin a call, and the erased ones.
        """
        while True:
            text, tag = self._scanner.take_content(tags)
            if text:
                self._events.append(Content(text))
            if tag is None or tag not in self.erased:
                return tag
            self._scanner.commit()

    @abstractmethod
    def _outside(self) -> bool:
        """Read outside of calls: the first state."""

    def _walk(self) -> list[OutputEvent]:
        while self._state():
            pass
        events, self._events = self._events, []
        return events

    def _no_call(self) -> bool:
        """Turn text that did not become a call into content, and continue outside of calls."""
        text = self._scanner.give_back()
        for tag in self.erased:
            text = text.replace(tag, "")
        if text:
            self._events.append(Content(text))
        self._state = self._outside
        return True


class CallScanner(TagScanner):
    """Remembers what was taken since the last `commit`, tags included."""

    def __init__(self) -> None:
        self._taken: list[str] = []

    def take_one(self, characters: str) -> str | None:
        """Take the next character if it is one of ``characters``: quicker than to look for tags."""
        place = self.place
        character = self.text[place : place + 1]
        if not character or character not in characters:
            return None
        self.place = place + 1
        self._taken.append(character)
        return character

    def take(self, tags: Tags) -> tuple[str, str | None]:
        text, tag = super().take(tags)
        if text:
            self._taken.append(text)
        if tag is not None:
            self._taken.append(tag)
        return text, tag

    def take_content(self, tags: Tags) -> tuple[str, str | None]:
        """Take like `take`, but remember only the tag: the text is not part of a call."""
        text, tag = super().take(tags)
        if tag is not None:
            self._taken.append(tag)
        return text, tag

    def put_back(self, tag: str) -> None:
        """Undo the taking of ``tag``, which came out of the last `take`."""
        self.place -= len(tag)
        self._taken.pop()

    def commit(self) -> None:
        """Forget the remembered text: it has become events."""
        self._taken.clear()

    def give_back(self) -> str:
        """Return and forget all that was taken since the last `commit`."""
        taken = "".join(self._taken)
        self._taken.clear()
        return taken


class BuiltCall:
    """Builds a compact JSON object, one argument after the other; of one name the first counts.

    The call is announced with its first argument, or with its end. Text that breaks off before
    either is not a call.
    """

    __slots__ = ("_names", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._names: set[str] = set()

    @property
    def is_announced(self) -> bool:
        """True once an argument has been added."""
        return bool(self._names)

    def has(self, argument: str) -> bool:
        """Return True if an argument of this name has been added."""
        return argument in self._names

    def add(self, name: str, value: str) -> list[OutputEvent]:
        """Add an argument and return the events. ``value``: JSON, or the start of a JSON string."""
        if name in self._names:
            return []
        member = f"{encode_basestring(name)}:{value}"
        if self._names:
            self._names.add(name)
            return [Arguments("," + member)]
        self._names.add(name)
        return [ToolCall(self.name), Arguments("{" + member)]

    def end(self) -> list[OutputEvent]:
        """End the arguments and return the events."""
        if self._names:
            return [Arguments("}")]
        return [ToolCall(self.name), Arguments("{}")]


class Argument(NamedTuple):
    """A complete argument. ``value``: as JSON."""

    name: str
    value: str


class BrokenCall(Exception):
    """The text is not a call, or stopped being one."""
