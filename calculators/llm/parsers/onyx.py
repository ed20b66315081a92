"""Onyx: messages to a recipient; those to ``self`` are reasoning, those to tools hold calls.

Calls are elements in the text of messages: ``<atem:function_calls><atem:invoke name="NAME">...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from calculators.language.events import OutputEvent, Reasoning
from calculators.llm.parsers.answer_reader import AnswerReader, MessageJoiner, MessageParser
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.parser import Tags, beginnings
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


#: The calls in the text of messages.
_CALL_FORM: Final = CallSyntax(
    call='<atem:invoke name="{name}">\n{args}</atem:invoke>\n',
    argument='<atem:parameter name="{key}">{value}</atem:parameter>\n',
    section=("<atem:function_calls>\n", "</atem:function_calls>"),
)
_CALLS: Final = AnswerFamily(name="onyx", calls=_CALL_FORM)


class OnyxParser(MessageParser):
    """Reads messages to ``self`` as reasoning, and the calls and texts in all others.

    A message is ``[<|start|>assistant] [to=NAME]<|message|>text``, up to ``<|eom|>``, ``<|eot|>``
    or the next header: ``<|start|>``, or ``to=NAME<|message|>`` after a blank. Text without a
    header is a message, too, without the tags of an incomplete header.

    The recipient does not matter otherwise: a call names its tool. Reasoning is joined by line
    ends; where it is content, it keeps its frames.
    """

    start_tags = ("to=self<|message|>", "to=self")
    end_tag = "<|eom|>"
    turn = "<|start|>assistant "
    answer_start = "to=user<|message|>"
    special_tokens = ONYX_TOKENS | marks(_CALL_FORM)
    calls = _CALL_FORM

    def _begun(self, tools: Mapping[str, Mapping[str, Any]] | None) -> Callable[[], bool]:
        self._thoughts = MessageJoiner("\n")
        #: Reads the text of messages to others.
        self._calls = AnswerReader(_CALLS, tools)
        #: The message is to the model itself.
        self._is_to_self = self.is_open
        return self._message if self.is_open else self._header

    def feed(self, text: str) -> list[OutputEvent]:
        scanner = self._scanner
        # Where nothing is held back, nearly all text has not even the first letter of a tag.
        is_plain = self._state == self._message and text and scanner.is_empty
        if is_plain and _TAGS.first.search(text) is None and not _at_end(_IN_TEXT_SO_FAR, text):
            return self._passed(text)
        scanner.feed(text)
        return self._read()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        return [*self._read(), *self._calls.finish()]

    def _passed(self, text: str) -> list[OutputEvent]:
        """Return the events of text of the current message."""
        if self.is_open:
            return [Reasoning(self._thoughts.add(text))]
        return self._calls.feed(text)

    def _frame(self, text: str) -> None:
        """Pass on a header or an end, which only reasoning that is content keeps."""
        if self._is_to_self and not self._takes_reasoning:
            self._events += self._calls.feed(text)

    def _begin_message(self, recipient: str, header: str) -> None:
        self._is_to_self = recipient == SELF
        self.is_open = self._is_to_self and self._takes_reasoning
        if self.is_open:
            self._thoughts.begin()
        self._frame(header)

    # The states, each of which returns True if there may be more to read -------------------------

    def _header(self) -> bool:
        scanner = self._scanner
        found = _HEADER.match(scanner.text, scanner.place)
        if found is not None:
            self._begin_message(found[1] or "", found[0])
            scanner.place = found.end()
        elif scanner.more and _HEADER_SO_FAR.fullmatch(scanner.text, scanner.place):
            return False
        else:
            self._begin_message("", "")
            no_header = _NO_HEADER.match(scanner.text, scanner.place)
            if no_header is not None:
                scanner.place = no_header.end()
        self._state = self._message
        return True

    def _message(self) -> bool:
        scanner = self._scanner
        text, tag = scanner.take(_TAGS)
        header = _at_end(_HEADER_IN_TEXT, text) if tag == _MESSAGE else None
        if header is not None:
            text = text[: len(text) - len(header[0])]
        elif tag is None and scanner.more and (held := _at_end(_IN_TEXT_SO_FAR, text)):
            # It may become a header.
            scanner.place -= len(held[0])
            text = text[: len(text) - len(held[0])]
        if text:
            self._events += self._passed(text)
        if header is not None:
            self._begin_message(header[1], header[0] + _MESSAGE)
        elif tag is not None and tag in _ENDS:
            self._frame(tag)
            self._is_to_self = self.is_open = False
            self._state = self._header
        elif tag is not None and tag == _START:
            scanner.place -= len(tag)
            self._state = self._header
        return tag is not None


def _at_end(header: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Match the end of a text; the time does not depend on the length of the text."""
    return header.search(text, max(0, len(text) - _LONGEST_IN_TEXT))
