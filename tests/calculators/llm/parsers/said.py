"""Sums of answers, for tests to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import reasoning_parser, tool_parser


class Reader(Protocol):
    """A parser, or a whole stream."""

    def feed(self, text: str) -> list[OutputEvent]: ...

    def finish(self) -> list[OutputEvent]: ...


class Said(NamedTuple):
    """The sum of an answer. ``calls``: names and arguments, in order."""

    content: str
    reasoning: str
    calls: list[tuple[str, str]]


def said(events: Iterable[OutputEvent]) -> Said:
    """Return the sum of events."""
    content, reasoning, calls = "", "", list[tuple[str, str]]()
    for event in events:
        match event:
            case Content(text):
                assert text
                content += text
            case Reasoning(text):
                assert text
                reasoning += text
            case ToolCall(name):
                calls.append((name, ""))
            case Arguments(text):
                calls[-1] = (calls[-1][0], calls[-1][1] + text)
    return Said(content, reasoning, calls)


def events_of(reader: Reader, chunks: Iterable[str]) -> list[OutputEvent]:
    """Return all events of a text that arrives in chunks."""
    events: list[OutputEvent] = []
    for chunk in chunks:
        events += reader.feed(chunk)
    return events + reader.finish()


def parsers(tool: str | None = None, reasoning: str | None = None) -> OutputParsers:
    """Return parsers by their names."""
    return OutputParsers(
        tool=None if tool is None else tool_parser(tool),
        reasoning=None if reasoning is None else reasoning_parser(reasoning),
    )


def parse(
    text: str | Iterable[str],
    tool: str | None = None,
    reasoning: str | None = None,
    *,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    prompt: str = "",
) -> Said:
    """Return the parsers' reading of a text, whole or in chunks. Without ``tools`` none are known.

    The same text character by character has to give the same result.
    """
    chunks = [text] if isinstance(text, str) else list(text)
    known = {} if tools is None else tools
    chosen = parsers(tool, reasoning)
    result = said(events_of(chosen.start(tools=known, prompt=prompt), chunks))
    single = said(events_of(chosen.start(tools=known, prompt=prompt), "".join(chunks)))
    assert single == result
    return result
