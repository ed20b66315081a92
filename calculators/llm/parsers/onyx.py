"""Onyx: messages to a recipient; those to ``self`` are reasoning, those to tools hold calls.

`OnyxReader` splits the text into messages as it grows. Calls are elements in the text of messages:
``<atem:function_calls><atem:invoke name="NAME">...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from calculators.language.events import Content, OutputEvent, Reasoning
from calculators.llm.parsers.answer_reader import AnswerReader
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.harmony import MessageJoiner
from calculators.llm.parsers.parser import (
    ReasoningParser,
    Tags,
    TagScanner,
    ToolParser,
    beginnings,
)
from calculators.llm.parsers.pattern import marks

_START: Final = "<|start|>"
_MESSAGE: Final = "<|message|>"
_ENDS: Final = ("<|eom|>", "<|eot|>")
ONYX_TOKENS: Final = frozenset((_START, _MESSAGE, *_ENDS))
#: The recipient of messages that are reasoning.
SELF: Final = "self"
_TAGS: Final = Tags(*ONYX_TOKENS)
_BLANK: Final = r"\s{0,20}+"
_ROLE: Final = re.escape(_START + "assistant")
_HEADER: Final = re.compile(
    rf"{_BLANK}(?:{_ROLE})?{_BLANK}(?:to=([^\s<]{{1,128}}))?{_BLANK}{re.escape(_MESSAGE)}"
)
_HEADER_SO_FAR: Final = re.compile(
    rf"{_BLANK}(?:{beginnings(_START + 'assistant')}"
    rf"|(?:{_ROLE})?{_BLANK}(?:{beginnings('to=')}|to=[^\s<]{{1,128}}"
    rf"|(?:to=[^\s<]{{1,128}})?{_BLANK}{beginnings(_MESSAGE)}))"
)
#: A header within text, up to its tag, and what may become one.
_HEADER_IN_TEXT: Final = re.compile(r"\sto=([^\s<]{1,128})\s{0,20}\Z")
_IN_TEXT_SO_FAR: Final = re.compile(r"\s(?:t|to|to=[^\s<]{0,128}\s{0,20})?\Z")
_LONGEST_IN_TEXT: Final = 1 + len("to=") + 128 + 20
_NO_HEADER: Final = re.compile(rf"{re.escape(_START)}(?:assistant\s?)?")


class OnyxReasoningParser(ReasoningParser):
    """Reads messages ``to=self``, joined by line ends, as reasoning, and others as content."""

    start_tags = ("to=self<|message|>", "to=self")
    end_tag = "<|eom|>"
    turn = "<|start|>assistant "
    answer_start = "to=user<|message|>"
    special_tokens = ONYX_TOKENS

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._reader = OnyxReader(SELF if is_open else None)
        self._thoughts = MessageJoiner("\n")

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[OnyxPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            if part.recipient != SELF:
                if part.place == "text":
                    events.append(Content(part.text))
            elif part.place == "text":
                events.append(Reasoning(self._thoughts.add(part.text)))
            elif part.place == "header":
                self._thoughts.begin()
        return events


#: The calls in the text of messages.
_CALL_FORM: Final = CallSyntax(
    call='<atem:invoke name="{name}">\n{args}</atem:invoke>\n',
    argument='<atem:parameter name="{key}">{value}</atem:parameter>\n',
    section=("<atem:function_calls>\n", "</atem:function_calls>"),
)
_CALLS: Final = AnswerFamily(name="onyx", calls=_CALL_FORM)


class OnyxToolParser(ToolParser):
    """Takes messages out of their frames, unless the reasoning parser did, and reads the calls.

    The recipient does not matter: a call names its tool. Only messages of the model to itself,
    which arrive if no reasoning parser took them, are content with their frames.
    """

    special_tokens = ONYX_TOKENS | marks(_CALL_FORM)
    calls = _CALL_FORM

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._reader = OnyxReader()
        self._calls = AnswerReader(_CALLS, self.tools)

    def feed(self, text: str) -> list[OutputEvent]:
        return self._read_calls(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._read_calls(self._reader.finish()) + self._calls.finish()

    def _read_calls(self, parts: Sequence[OnyxPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            if part.place == "text" or part.recipient == SELF:
                events += self._calls.feed(part.text)
        return events


class OnyxPart(NamedTuple):
    """A piece of a message.

    Attributes:
        recipient: "" when the header does not name one.
        place: the header and the end each come whole; the end may be missing.
    """

    recipient: str
    text: str
    place: Literal["header", "text", "end"] = "text"


class OnyxReader:
    """Splits text into parts of messages.

    A message is ``[<|start|>assistant] [to=NAME]<|message|>text``, up to ``<|eom|>``, ``<|eot|>``
    or the next header: ``<|start|>``, or ``to=NAME<|message|>`` after a blank. Text without a
    header is a message, too, without the tags of an incomplete header.

    ``recipient``: of the message that has begun before the text, or None.
    """

    def __init__(self, recipient: str | None = None) -> None:
        self._scanner = TagScanner()
        self._parts: list[OnyxPart] = []
        self._recipient = recipient or ""
        #: The end of a message's text, while it may become a header.
        self._held = ""
        self._state: Callable[[], bool] = self._header if recipient is None else self._message

    def feed(self, text: str) -> list[OnyxPart]:
        """Return the parts that this text makes certain."""
        self._scanner.feed(text)
        return self._read()

    def finish(self) -> list[OnyxPart]:
        """Return the parts of the text that was held back."""
        self._scanner.finish()
        return self._read()

    def _read(self) -> list[OnyxPart]:
        while self._state():
            pass
        parts, self._parts = self._parts, []
        return parts

    def _header(self) -> bool:
        scanner = self._scanner
        found = _HEADER.match(scanner.text, scanner.place)
        if found is not None:
            self._recipient = found[1] or ""
            self._parts.append(OnyxPart(self._recipient, found[0], "header"))
            scanner.place = found.end()
        elif scanner.more and _HEADER_SO_FAR.fullmatch(scanner.text, scanner.place):
            return False
        else:
            self._recipient = ""
            no_header = _NO_HEADER.match(scanner.text, scanner.place)
            if no_header is not None:
                scanner.place = no_header.end()
        self._state = self._message
        return True

    def _message(self) -> bool:
        scanner = self._scanner
        text, tag = scanner.take(_TAGS)
        text, self._held = self._held + text, ""
        header = _at_end(_HEADER_IN_TEXT, text) if tag == _MESSAGE else None
        if header is not None:
            text = text[: len(text) - len(header[0])]
        elif tag is None and scanner.more and (held := _at_end(_IN_TEXT_SO_FAR, text)):
            self._held = held[0]
            text = text[: len(text) - len(self._held)]
        if text:
            self._parts.append(OnyxPart(self._recipient, text))
        if header is not None:
            self._recipient = header[1]
            self._parts.append(OnyxPart(self._recipient, header[0] + _MESSAGE, "header"))
        elif tag is not None and tag in _ENDS:
            self._parts.append(OnyxPart(self._recipient, tag, "end"))
            self._recipient = ""
            self._state = self._header
        elif tag is not None and tag == _START:
            scanner.place -= len(tag)
            self._state = self._header
        return tag is not None


def _at_end(header: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Match the end of a text; the time does not depend on the length of the text."""
    return header.search(text, max(0, len(text) - _LONGEST_IN_TEXT))
