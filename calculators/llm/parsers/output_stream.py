"""`OutputStream`: one answer, from the text of a model to what it means."""

from __future__ import annotations

from calculators.llm.parsers.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
)
from calculators.llm.parsers.parser import ReasoningParser, ToolParser


class OutputStream:
    """The parsers of one answer, one behind the other.

    Reasoning is taken out first; what it leaves as content is searched for calls. Either may be
    missing; with neither all text is content.
    """

    __slots__ = ("_reasoning", "_tool")

    def __init__(self, reasoning: ReasoningParser | None, tool: ToolParser | None) -> None:
        self._reasoning = reasoning
        self._tool = tool

    def feed(self, text: str) -> list[OutputEvent]:
        """What this text makes certain; neighbours of the same kind are one event."""
        if not text:
            return []
        if self._reasoning is not None:
            return self._find_calls(self._reasoning.feed(text))
        if self._tool is not None:
            return merged(self._tool.feed(text))
        return [Content(text)]

    def finish(self) -> list[OutputEvent]:
        """What was held back. Call it once, when nothing follows."""
        events = self._find_calls(self._reasoning.finish()) if self._reasoning is not None else []
        return merged([*events, *self._tool.finish()]) if self._tool is not None else events

    def _find_calls(self, events: list[OutputEvent]) -> list[OutputEvent]:
        if self._tool is None:
            return merged(events)
        found: list[OutputEvent] = []
        for event in events:
            found += self._tool.feed(event.text) if isinstance(event, Content) else [event]
        return merged(found)


def merged(events: list[OutputEvent]) -> list[OutputEvent]:
    """The same with neighbours of the same kind as one; in proportion to their text."""
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
