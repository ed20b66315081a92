"""`CallWalker`: the base of tool parsers that go through a text state by state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from calculators.llm.parsers.call_scanner import CallScanner
from calculators.llm.parsers.events import Content, OutputEvent
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.tag_scanner import Tags


class CallWalker(ToolParser):
    """Walks through a text. Each state is a method that takes some of what has come.

    A state says whether to go on: False when it needs more text than there is. So that the way the
    text was cut makes no difference, a state decides either by a tag, or by text before which no
    tag stands that another state looks for.

    Attributes:
        erased: what is left out of the content: ends of turns and the like.
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
        """In the state outside: pass on text as content, up to the next tag that begins a call.

        ``tags``: those that do, and the erased ones.
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
        """The state outside calls, where everything begins."""

    def _walk(self) -> list[OutputEvent]:
        while self._state():
            pass
        events, self._events = self._events, []
        return events

    def _no_call(self) -> bool:
        """What was taken and did not become part of a call is content. Go on outside."""
        text = self._scanner.give_back()
        for tag in self.erased:
            text = text.replace(tag, "")
        if text:
            self._events.append(Content(text))
        self._state = self._outside
        return True
