"""gpt-oss: messages in OpenAI's harmony form, whose headers name a channel and a recipient."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.answer_reader import MessageJoiner, MessageParser
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.parser import Tags

_START: Final = "<|start|>"
_CHANNEL: Final = "<|channel|>"
_CONSTRAIN: Final = "<|constrain|>"
_MESSAGE: Final = "<|message|>"
_ENDS: Final = ("<|end|>", "<|return|>", "<|call|>")
HARMONY_TOKENS: Final = frozenset((_START, _CHANNEL, _CONSTRAIN, _MESSAGE, *_ENDS))
_IN_TEXT: Final = Tags(*HARMONY_TOKENS)
_ENDS_OF_MESSAGES: Final = frozenset((*_ENDS, _START, _CHANNEL))
_LONGEST_HEADER: Final = 512
#: The beginning of an answer whose prompt ends in the role: the recipient comes first.
_RECIPIENT_FIRST: Final = re.compile(r"\s{0,8}to=")
_RECIPIENT: Final = re.compile(r"(?:\A|\s)to=(?P<name>[^\s<]+)")
#: A header without the token before its role or channel, and the text that may become one.
_BARE_ROLE: Final = re.compile(r"\s{0,8}assistant\s{0,8}")
_BARE_CHANNEL: Final = re.compile(
    r"\s{0,8}(?:assistant\s{0,8})?(?:analysis|commentary|final)\s{0,8}"
)
_BARE_WORDS: Final = ("assistant", "analysis", "commentary", "final")
_LONGEST_BARE: Final = 48
_NAMESPACE: Final = "functions."
#: The header of an answer whose prompt ends in the role.
_IMPLIED: Final = _START + "assistant "
#: Recipients that are nobody else: the message is for the user, or the model's own.
_NOBODY: Final = frozenset(("assistant", "user", "all", "system", "developer"))
#: Tools that the model was trained with, and calls by itself.
_BUILT_IN: Final = frozenset(("python", "browser", "container"))
_CUT_HEADER: Final = re.compile(
    r"\s*(?:assistant)?\s*(?:to=\S*)?\s*(?:analysis|commentary|final)?\s*(?:to=\S*)?\s*(?:json|code)?\s*"
)
_TOKEN: Final = re.compile("|".join(map(re.escape, HARMONY_TOKENS)))
_ROLE_IN_TEXT: Final = re.compile(re.escape(_START) + r"(?:assistant)?")


class GptOssParser(MessageParser):
    """Reads analysis as reasoning, messages to functions as calls, and others as content.

    A message is ``[<|start|>role] <|channel|>channel [<|constrain|>type] <|message|>text``, up to
    ``<|end|>``, ``<|return|>``, ``<|call|>`` or the next message. The recipient, ``to=NAME``, is
    after the role or the channel; a text may begin with it, as its prompt ends in the role.
    Outside of messages these ends are left out, and so are tokens that begin nothing.

    All texts lose their headers. Several messages of one kind are joined by a space. The text of a
    call is its arguments, unchanged; a call of one of the model's own tools, which the request does
    not have, is reasoning.
    """

    start_tags = ("<|channel|>analysis<|message|>",)
    end_tag = "<|end|>"
    turn = "<|start|>assistant"
    answer_start = "<|channel|>final<|message|>"
    special_tokens = HARMONY_TOKENS
    # A call ends with <|call|>, which also ends the answer.
    calls = CallSyntax(
        call="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json}",
        only_one=True,
    )

    def _begun(self, tools: Mapping[str, Mapping[str, Any]] | None) -> Callable[[], bool]:
        self._header: list[str] = []
        self._analysis = MessageJoiner(" ")
        self._answer = MessageJoiner(" ")
        #: How the text of the current message is passed on.
        self._event: type[Content | Reasoning | Arguments] = Content
        self._joiner: MessageJoiner | None = None
        #: A call has begun and has no arguments yet.
        self._is_bare_call = False
        if self.is_open:
            self._begin_message(self.start_tags[0].removesuffix(_MESSAGE))
            return self._in_message
        return self._at_start

    def feed(self, text: str) -> list[OutputEvent]:
        scanner = self._scanner
        # Where nothing is held back, nearly all text has not even the first letter of a token.
        is_plain = self._state == self._in_message and text and scanner.is_empty
        if is_plain and _IN_TEXT.first.search(text) is None:
            return [self._passed(text)]
        scanner.feed(text)
        return self._read()

    def finish(self) -> list[OutputEvent]:
        self._scanner.finish()
        events = self._read()
        if self._header:
            header = "".join(self._header)
            implied = header.removeprefix(_IMPLIED)
            is_text = implied != header and _TOKEN.search(implied) is None
            text = implied if is_text else _bare(header)
            # A header that was cut says nothing to anybody.
            if text and (is_text or not _CUT_HEADER.fullmatch(text)):
                events.append(Content(text))
        return events

    def _passed(self, text: str) -> OutputEvent:
        """Return the event of text of the current message."""
        self._is_bare_call = False
        return self._event(text if self._joiner is None else self._joiner.add(text))

    def _begin_message(self, header: str) -> None:
        """Begin the text of a message. ``header``: up to the last token of it."""
        kind, function = _kind_and_function(header)
        is_own = kind is MessageKind.CALL and is_built_in(function)
        self._event, self._joiner, self.is_open = Content, None, False
        if kind is MessageKind.ANSWER:
            self._joiner = self._answer
            self._answer.begin()
        elif kind is MessageKind.ANALYSIS and self._takes_reasoning:
            self._event, self._joiner, self.is_open = Reasoning, self._analysis, True
            self._analysis.begin()
        elif (
            is_own and (self._takes_reasoning or self._takes_calls) and (function not in self.tools)
        ):
            self._event, self._joiner, self.is_open = Reasoning, self._analysis, True
        elif kind is MessageKind.CALL and self._takes_calls:
            self._event, self._is_bare_call = Arguments, True
            self._events.append(ToolCall(function))
        self._state = self._in_message

    # The states, each of which returns True if there may be more to read -------------------------

    def _at_start(self) -> bool:
        scanner = self._scanner
        text = scanner.text[scanner.place :]
        if _RECIPIENT_FIRST.match(text):
            self._header = [_IMPLIED]
            self._state = self._in_header
            return True
        if scanner.more and "to=".startswith(text.lstrip()) and len(text) < _LONGEST_HEADER:
            return False
        words = text.split("<", 1)[0]
        after = text[len(words) :]
        if len(words) <= _LONGEST_BARE and all(
            any(each.startswith(word) for each in _BARE_WORDS) for word in words.split()
        ):
            if scanner.more and any(each.startswith(after) for each in (_CHANNEL, _MESSAGE)):
                return False
            if after.startswith(_CHANNEL) and _BARE_ROLE.fullmatch(words):
                self._header = [_START]
            elif after.startswith(_MESSAGE) and _BARE_CHANNEL.fullmatch(words):
                self._header = [_START + "assistant" + _CHANNEL]
                scanner.place += len(words)
                self._header.append(words.replace("assistant", ""))
        self._state = self._in_header if self._header else self._outside
        return True

    def _outside(self) -> bool:
        text, tag = self._scanner.take(_IN_TEXT)
        if text:
            self._events.append(Content(text))
        if tag is not None and tag in (_START, _CHANNEL):
            self._header = [tag]
            self._state = self._in_header
        return tag is not None

    def _in_header(self) -> bool:
        text, tag = self._scanner.take(_IN_TEXT)
        before = "".join((*self._header, text))
        header = before + (tag or "")
        if len(header) <= _LONGEST_HEADER:
            # The channel may come again, after the recipient.
            names = tag == _CHANNEL and not before.rstrip().endswith(_CHANNEL)
            if tag is None or tag == _CONSTRAIN or names:
                self._header = [header]
                return tag is not None
            if tag == _MESSAGE:
                self._header = []
                self._begin_message(before)
                return True
        self._header = []
        if text := _bare(before):
            self._events.append(Content(text))
        self._scanner.place -= len(tag or "")
        self._state = self._outside
        return True

    def _in_message(self) -> bool:
        text, tag = self._scanner.take(_IN_TEXT)
        if text:
            self._events.append(self._passed(text))
        if tag is None or tag not in _ENDS_OF_MESSAGES:
            return tag is not None
        if tag in _ENDS:
            if self._is_bare_call:
                self._events.append(Arguments("{}"))
            self._state = self._at_start
        else:
            self._header = [tag]
            self._state = self._in_header
        self._is_bare_call = self.is_open = False
        return True


class MessageKind(Enum):
    """The purpose of a message."""

    ANALYSIS = "reasoning"
    ANSWER = "the answer to the user"
    CALL = "the arguments for a function"
    OTHER = "a message of another role"


def is_built_in(function: str) -> bool:
    """Return True for a tool of the model's own, such as ``browser.search``."""
    return function.partition(".")[0] in _BUILT_IN


def _bare(text: str) -> str:
    """Return text without the tokens of the form."""
    return _TOKEN.sub("", _ROLE_IN_TEXT.sub("", text))


def _kind_and_function(header: str) -> tuple[MessageKind, str]:
    """Return the purpose of a message, and the function that it calls, by its header."""
    role, has_channel, rest = header.partition(_CHANNEL)
    role = role.removeprefix(_START)
    recipient = _RECIPIENT.search(_TOKEN.sub(" ", rest)) or _RECIPIENT.search(_TOKEN.sub(" ", role))
    if role.strip() and role.split()[0] != "assistant":
        return MessageKind.OTHER, ""
    name = "" if recipient is None else recipient["name"]
    function = name.removeprefix(_NAMESPACE)
    if function and (name != function or name not in _NOBODY):
        return MessageKind.CALL, function
    channel = rest.rpartition(_CHANNEL)[2]
    if has_channel and channel.split("<")[0].split()[:1] == ["analysis"]:
        return MessageKind.ANALYSIS, ""
    return MessageKind.ANSWER, ""
