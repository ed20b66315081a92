"""`OutputParsers`: the parsers that understand the answers of one model.

For each answer they make an `AnswerParser`, which turns its text into events as the text grows: the
reasoning parser reads first, and the tool parser looks for calls in the content that it leaves.

Models of Qwen3's kind sometimes call a tool and stop without ``</think>``. A call in reasoning may
also be a draft: the model goes on to think, and calls later or not at all. Only the end of the
answer shows which of the two it is. So `OpenReasoning` holds text back from the mark of a call on,
and takes it as a call if nothing follows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.parser import ReasoningParser, Tags, TagScanner, ToolParser


@dataclass(frozen=True, slots=True)
class OutputParsers:
    """The parsers of one model, as classes. None: no parser.

    Attributes:
        special_tokens: the special tokens that the parsers must see in the text.
    """

    tool: type[ToolParser] | None = None
    reasoning: type[ReasoningParser] | None = None
    special_tokens: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        found = frozenset[str]()
        if self.tool is not None:
            found |= self.tool.special_tokens
        if self.reasoning is not None:
            found |= self.reasoning.special_tokens
        object.__setattr__(self, "special_tokens", found)

    def start(
        self, *, tools: Mapping[str, Mapping[str, Any]] | None, prompt: str = ""
    ) -> AnswerParser:
        """Make the parsers of one answer.

        Args:
            tools: the JSON schema of the parameters by the tool's name, {} for a tool without
                parameters. None when the request has no tools: then calls are plain text.
            prompt: the text before the answer, which may have begun the reasoning.
        """
        reasoning, tool = None, None
        if self.reasoning is not None:
            # A chain, reasoning first and calls in the rest, so that any two parsers combine
            # (decision 0012).
            reasoning = self.reasoning(is_open=self.reasoning_is_open(prompt))
        if self.tool is not None and tools is not None:
            tool = self.tool(tools)
        if reasoning is not None:
            reasoning.feeds_tools = tool is not None
        in_reasoning = None
        if self.tool is not None and tools and reasoning is not None and self.tool.heads:
            in_reasoning = OpenReasoning(self.tool, tools, self.tool.heads)
        return AnswerParser(reasoning, tool, in_reasoning)

    def reasoning_is_open(self, prompt: str) -> bool:
        """Return True if an answer to ``prompt`` begins inside the reasoning."""
        if self.reasoning is None or not self.reasoning.start_tags:
            return False
        # A tag may itself end in white space, which templates write or leave out.
        tags = tuple(map(str.rstrip, self.reasoning.start_tags))
        return prompt.rstrip().endswith(tags)


class AnswerParser(Struct, frozen=True):
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


class TrimmedAnswer:
    """An `AnswerParser` whose content does not begin with white space.

    Used for answers that follow a form: after its reasoning a model writes a line end, which is not
    part of the form. A form that may begin with white space itself follows at once.
    """

    __slots__ = ("_has_begun", "_stream")

    def __init__(self, stream: AnswerParser) -> None:
        self._stream = stream
        self._has_begun = False

    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events of `AnswerParser.feed`, without the white space."""
        events = self._stream.feed(text)
        return events if self._has_begun else self._trimmed(events)

    def finish(self) -> list[OutputEvent]:
        """Return the events of `AnswerParser.finish`, without the white space."""
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


class OpenReasoning:
    """Finds the calls at the end of reasoning, in the text of its `Reasoning` events.

    A call counts if it names a tool of the request, is complete, and only further calls and white
    space follow it up to the end.
    """

    def __init__(
        self,
        parser: Callable[[Mapping[str, Mapping[str, Any]]], ToolParser],
        tools: Mapping[str, Mapping[str, Any]],
        heads: tuple[str, ...],
    ) -> None:
        """``parser``: makes a tool parser; ``heads``: the marks of its calls."""
        self._parser = parser
        self._tools = tools
        self._heads = Tags(*heads)
        self._scanner = TagScanner()
        #: The text from the mark of a call on, and the parser that reads it.
        self._held: list[str] = []
        self._reader: ToolParser | None = None
        self._has_call = False
        self._arguments: list[str] = []

    def feed(self, text: str) -> str:
        """Return the text of reasoning that is certain to be none of a call."""
        is_idle = self._reader is None and self._scanner.is_empty
        if is_idle and self._heads.first.search(text) is None:
            return text
        self._scanner.feed(text)
        return self._advance()

    def close(self) -> str:
        """Return the rest of the reasoning, which has ended: what was held is not a call."""
        rest = "".join(self._held) + self._scanner.text[self._scanner.place :]
        self._held, self._reader, self._scanner = [], None, TagScanner()
        return rest

    def finish(self) -> tuple[str, str]:
        """Return the rest of the reasoning, and the text of calls, at the end of the answer."""
        self._scanner.finish()
        rest = self._advance()
        reader = self._reader
        is_call = reader is not None and self._take(reader.finish()) and self._ends_call()
        if is_call and self._has_call:
            return rest, "".join(self._held)
        return rest + self.close(), ""

    def _advance(self) -> str:
        passed: list[str] = []
        while True:
            # From mark to mark, so that what is found does not depend on the pieces.
            before, head = self._scanner.take(self._heads)
            if self._reader is None:
                passed.append(before)
            elif before and not self._read(before):
                passed.append(self._release(head or ""))
                continue
            if head is None:
                return "".join(passed)
            if self._reader is None:
                self._reader = self._parser(self._tools)
                self._has_call = False
                self._arguments = []
            if not self._read(head):
                passed.append(self._release(""))

    def _read(self, text: str) -> bool:
        """Return False if the text that is held back is not a call."""
        self._held.append(text)
        return self._reader is not None and self._take(self._reader.feed(text))

    def _take(self, events: list[OutputEvent]) -> bool:
        for event in events:
            match event:
                case ToolCall(name):
                    if name not in self._tools or not self._ends_call():
                        return False
                    self._has_call = True
                case Arguments(text):
                    self._arguments.append(text)
                case Content(text) if not text.strip():
                    pass
                case _:
                    return False
        return True

    def _ends_call(self) -> bool:
        """Return True if the call before, if there is one, is complete."""
        text = "".join(self._arguments)
        self._arguments = []
        if not self._has_call:
            return True
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    def _release(self, head: str) -> str:
        """Return what was held up to its last mark, from which on reading begins again.

        ``head``: a mark that was taken after what was held.
        """
        held = "".join(self._held)
        self._held, self._reader = [], None
        last = max(held.rfind(each) for each in self._heads.values)
        if last <= 0:
            first = self._heads.find(held, 0, more=False)[1] or ""
            last = len(first)
        self._scanner.text = held[last:] + head + self._scanner.text[self._scanner.place :]
        self._scanner.place = 0
        return held[:last]
