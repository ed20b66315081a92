"""`OutputStream`: turns the text of one answer into events."""

from __future__ import annotations

from msgspec import Struct

from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
)
from calculators.llm.parsers.open_reasoning import OpenReasoning
from calculators.llm.parsers.parser import ReasoningParser, ToolParser


class OutputStream(Struct, frozen=True):
    """The parsers of one answer, in sequence.

    The reasoning parser reads the text first, and the tool parser looks for calls in the content
    that it leaves. Either may be missing; without both, all text is content.
    """

    reasoning: ReasoningParser | None
    tool: ToolParser | None
    #: Finds calls in reasoning that never ends.
    open_reasoning: OpenReasoning | None = None

    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events that this text makes certain, with adjacent ones of one kind merged."""
        if not text:
            return []
        if self.reasoning is not None:
            events = self.reasoning.feed(text)
            if self.tool is not None:
                return self._find_calls(events, self.tool)
            return events if len(events) < 2 else merged(events)
        if self.tool is not None:
            return merged(self.tool.feed(text))
        return [Content(text)]

    def finish(self) -> list[OutputEvent]:
        """Return the events of text that was held back. Call it once, at the end of the text."""
        events = self.reasoning.finish() if self.reasoning is not None else []
        if self.tool is None:
            return events if len(events) < 2 else merged(events)
        found = self._find_calls(events, self.tool)
        if self.open_reasoning is not None and self.reasoning is not None:
            is_open = self.reasoning.is_open
            rest, calls = (
                self.open_reasoning.finish() if is_open else (self.open_reasoning.close(), "")
            )
            if rest:
                found.append(Reasoning(rest))
            if calls:
                found += self.tool.feed(calls)
        return merged([*found, *self.tool.finish()])

    def _find_calls(self, events: list[OutputEvent], tool: ToolParser) -> list[OutputEvent]:
        found: list[OutputEvent] = []
        for event in events:
            if isinstance(event, Content):
                if self.open_reasoning is not None and (rest := self.open_reasoning.close()):
                    found.append(Reasoning(rest))
                found += tool.feed(event.text)
            elif isinstance(event, Reasoning) and self.open_reasoning is not None:
                if passed := self.open_reasoning.feed(event.text):
                    found.append(Reasoning(passed))
            else:
                found.append(event)
        return merged(found)


class TrimmedStream:
    """An `OutputStream` whose content does not begin with white space.

    Used for answers that follow a form: after its reasoning a model writes a line end, which is not
    part of the form. A form that may begin with white space itself follows at once.
    """

    __slots__ = ("_has_begun", "_stream")

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream
        self._has_begun = False

    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events of `OutputStream.feed`, without the white space."""
        events = self._stream.feed(text)
        return events if self._has_begun else self._trimmed(events)

    def finish(self) -> list[OutputEvent]:
        """Return the events of `OutputStream.finish`, without the white space."""
        return self._trimmed(self._stream.finish())

    def _trimmed(self, events: list[OutputEvent]) -> list[OutputEvent]:
        kept: list[OutputEvent] = []
        for event in events:
            if isinstance(event, Content) and not self._has_begun:
                event = Content(event.text.lstrip())
                if not event.text:
                    continue
            if not isinstance(event, Reasoning):
                self._has_begun = True
            kept.append(event)
        return kept


def merged(events: list[OutputEvent]) -> list[OutputEvent]:
    """Merge adjacent events of one kind. Takes time in proportion to their text."""
    if len(events) < 2:
        return events
    joined: list[OutputEvent] = []
    run: list[str] = []
    kind: type[Content | Reasoning | Arguments] | None = None
    for event in events:
        if kind is not None and type(event) is not kind:
            joined.append(kind("".join(run)))
            kind, run = None, []
        match event:
            case Content(text) | Reasoning(text) | Arguments(text):
                kind = type(event)
                run.append(text)
            case _:
                joined.append(event)
    if kind is not None:
        joined.append(kind("".join(run)))
    return joined
