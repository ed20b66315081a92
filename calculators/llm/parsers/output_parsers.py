"""`OutputParsers`: how one model writes its answers, and the parsers that read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from calculators.language.events import Content, OutputEvent, merged
from calculators.llm.parsers.answer_reader import AnswerReader, MessageParser
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.parser import OutputParser
from calculators.llm.parsers.pattern import atoms, marks
from calculators.llm.parsers.registry import (
    MADE,
    NO_PARSER,
    ReasoningForm,
    ToolForm,
    reasoning_parser,
    tool_parser,
)


class AnswerParser(Protocol):
    """Reads one answer as it grows; see `OutputParser`."""

    @property
    def is_thinking(self) -> bool:
        """True if the text so far certainly ends within reasoning."""

    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events that this text makes certain, with adjacent ones of one kind merged."""

    def finish(self) -> list[OutputEvent]:
        """Return the events of text that was held back. Call it once, at the end of the text."""


@dataclass(frozen=True, slots=True)
class OutputParsers:
    """The forms of one model's calls and reasoning, which any two families may give. None: none.

    Attributes:
        names: of both, as options name them.
    """

    tool: ToolForm | None = None
    reasoning: ReasoningForm | None = None
    names: tuple[str, str] = (NO_PARSER, NO_PARSER)

    @property
    def calls(self) -> CallSyntax | None:
        """The form of calls, for those who write them."""
        return None if self.tool is None else self.tool.calls

    @classmethod
    def named(cls, tool: str, reasoning: str, made: AnswerFamily | None = None) -> OutputParsers:
        """Return the forms of two names; "" and `NO_PARSER` are none, `MADE` is ``made``.

        Raises:
            UnknownParser: there is no such form, or the package that offers it is broken.
        """
        own = {"": None, NO_PARSER: None, MADE: made}
        return cls(
            own[tool] if tool in own else tool_parser(tool),
            own[reasoning] if reasoning in own else reasoning_parser(reasoning),
            (tool or NO_PARSER, reasoning or NO_PARSER),
        )

    @property
    def made(self) -> AnswerFamily | None:
        """The declaration that was made for this model, of calls or of reasoning or of both."""
        forms = (form for form in (self.tool, self.reasoning) if isinstance(form, AnswerFamily))
        return next((form for form in forms if form.name == MADE), None)

    @property
    def reasoning_marks(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The marks that begin reasoning, and those that end it; one may end in white space."""
        found = self.reasoning
        if found is None:
            return (), ()
        if isinstance(found, AnswerFamily):
            assert found.reasoning is not None, "the registry gives no other"
            return found.reasoning.begin, found.reasoning.end
        return found.start_tags, (found.end_tag,) if found.end_tag else ()

    def shown(self, special: Iterable[str], *, with_calls: bool) -> frozenset[str]:
        """Return the special tokens of a vocabulary that the parsers have to see in the text.

        ``with_calls``: calls are looked for.
        """
        texts: set[str] = set()
        declared: set[str] = set()
        for form in (self.tool if with_calls else None, self.reasoning):
            if isinstance(form, AnswerFamily):
                declared |= _marks(form, with_calls=form is self.tool and with_calls)
            elif form is not None:
                texts |= form.special_tokens
        # A token may be a part of a mark only.
        return frozenset(
            each for each in special if each in texts or any(each in mark for mark in declared)
        )

    def start(
        self,
        *,
        tools: Mapping[str, Mapping[str, Any]] | None,
        prompt: str = "",
        keeps_space: bool = False,
        keeps_stops: bool = False,
    ) -> AnswerParser:
        """Make the parser of one answer.

        Args:
            tools: the JSON schema of the parameters by the tool's name, {} for a tool without
                parameters. None when the request has no tools: then calls are plain text.
            prompt: the text before the answer, which may have begun the reasoning.
            keeps_space: white space after the reasoning belongs to the answer.
            keeps_stops: ends of turns are text, as the client asked to see them.
        """
        tool = self.tool if tools is not None else None
        reasoning = self.reasoning
        if not isinstance(tool, type) and not isinstance(reasoning, type):
            family = _joined(tool, reasoning)
            if keeps_stops:
                family = replace(family, stops=())
            return AnswerReader(family, tools, prompt, keeps_space=keeps_space)
        is_open = self.reasoning_is_open(prompt)
        if isinstance(reasoning, type) and issubclass(reasoning, MessageParser):
            messages = reasoning(
                tools if tool is reasoning else None, is_open=is_open, takes_reasoning=True
            )
            if tool is None or tool is reasoning:
                return messages
            first: OutputParser | None = messages
        elif isinstance(reasoning, AnswerFamily):
            first = AnswerReader(_joined(None, reasoning), None, prompt, keeps_space=keeps_space)
        else:
            first = None if reasoning is None else reasoning(is_open=is_open)
        # A chain, reasoning first and calls in the rest, so that any two forms combine
        # (decision 0012).
        second: OutputParser | None = None
        if isinstance(tool, AnswerFamily):
            second = AnswerReader(_joined(tool, None), tools, prompt)
        elif tool is not None:
            second = tool(tools)
        return _Chain(first, second)

    def reasoning_is_open(self, prompt: str) -> bool:
        """Return True if an answer to ``prompt`` begins inside the reasoning."""
        begins, _ = self.reasoning_marks
        # A mark may itself end in white space, which templates write or leave out.
        return bool(begins) and prompt.rstrip().endswith(tuple(map(str.rstrip, begins)))


def _joined(tool: AnswerFamily | None, reasoning: AnswerFamily | None) -> AnswerFamily:
    """Return one declaration with the calls of one and the reasoning of another."""
    if tool is None:
        return AnswerFamily(name="") if reasoning is None else replace(reasoning, calls=None)
    if reasoning is tool:
        return tool
    if reasoning is None:
        return replace(tool, reasoning=None)
    return replace(
        tool,
        reasoning=reasoning.reasoning,
        answer=tuple(dict.fromkeys((*tool.answer, *reasoning.answer))),
        stops=tuple(dict.fromkeys((*tool.stops, *reasoning.stops))),
    )


def _marks(family: AnswerFamily, *, with_calls: bool) -> frozenset[str]:
    found = {each for pair in family.answer for each in pair}
    if family.reasoning is not None:
        found |= {*family.reasoning.begin, *family.reasoning.end}
    of_calls = marks(family.calls) if with_calls and family.calls is not None else frozenset[str]()
    return of_calls.union(*map(atoms, found))


class _Chain:
    """Two parsers in sequence, of which one reads channels. Either may be missing."""

    is_thinking = False

    def __init__(self, reasoning: OutputParser | None, tool: OutputParser | None) -> None:
        self._reasoning = reasoning
        self._tool = tool

    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events that this text makes certain."""
        if not text:
            return []
        if self._reasoning is None:
            return self._find_calls([Content(text)])
        return self._find_calls(self._reasoning.feed(text))

    def finish(self) -> list[OutputEvent]:
        """Return the events of text that was held back."""
        found = self._find_calls([] if self._reasoning is None else self._reasoning.finish())
        return found if self._tool is None else merged([*found, *self._tool.finish()])

    def _find_calls(self, events: list[OutputEvent]) -> list[OutputEvent]:
        if self._tool is None:
            return merged(events)
        found: list[OutputEvent] = []
        for event in events:
            found += self._tool.feed(event.text) if isinstance(event, Content) else [event]
        return merged(found)
