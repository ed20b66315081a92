"""`CallWalker`: the base of tool parsers that go through a text state by state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from calculators.language.events import Content, OutputEvent
from calculators.llm.parsers.call_scanner import CallScanner
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.tag_scanner import Tags


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
