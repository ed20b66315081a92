"""gpt-oss: messages in OpenAI's harmony form, whose headers name a channel and a recipient.

`HarmonyReader` splits the text into messages as it grows. The reasoning parser takes analysis out,
and the tool parser messages to ``functions.NAME``; each works without the other, so both know all
kinds of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.parser import ReasoningParser, Tags, TagScanner, ToolParser

_START: Final = "<|start|>"
_CHANNEL: Final = "<|channel|>"
_CONSTRAIN: Final = "<|constrain|>"
_MESSAGE: Final = "<|message|>"
_ENDS: Final = ("<|end|>", "<|return|>", "<|call|>")
HARMONY_TOKENS: Final = frozenset((_START, _CHANNEL, _CONSTRAIN, _MESSAGE, *_ENDS))
_IN_TEXT: Final = Tags(*HARMONY_TOKENS)
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


class GptOssReasoningParser(ReasoningParser):
    """Reads analysis as reasoning, and final answers and preambles of calls as content.

    Both lose their headers. All other messages, such as calls, are content unchanged, for the tool
    parser; without one they lose their headers too. Several messages of one kind are joined by a
    space.
    """

    start_tags = ("<|channel|>analysis<|message|>",)
    end_tag = "<|end|>"
    turn = "<|start|>assistant"
    answer_start = "<|channel|>final<|message|>"
    special_tokens = HARMONY_TOKENS

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._reader = HarmonyReader(MessageKind.ANALYSIS if is_open else None)
        self._analysis = MessageJoiner(" ")
        self._answer = MessageJoiner(" ")

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[HarmonyPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            match part.kind, part.place:
                case MessageKind.ANALYSIS, "text":
                    events.append(Reasoning(self._analysis.add(part.text)))
                case MessageKind.ANALYSIS, "header":
                    self._analysis.begin()
                case MessageKind.ANSWER, "text":
                    events.append(Content(self._answer.add(part.text)))
                case MessageKind.ANSWER, "header":
                    self._answer.begin()
                case (MessageKind.CALL | MessageKind.OTHER, _) if self.feeds_tools:
                    events.append(Content(part.text))
                case MessageKind.CALL, "text" if is_built_in(part.function):
                    events.append(Reasoning(self._analysis.add(part.text)))
                case (MessageKind.CALL | MessageKind.OTHER, "text"):
                    events.append(Content(part.text))
                case _:
                    pass  # headers and ends of messages
        return events


class GptOssToolParser(ToolParser):
    """Passes on the text of a message to a function as the arguments of a call, unchanged.

    Final answers and preambles are content, without headers and joined by a space, unless the
    reasoning parser did that already. A call of one of the model's own tools, which the request
    does not have, is reasoning. All other messages are content, without headers.
    """

    special_tokens = HARMONY_TOKENS
    # A call ends with <|call|>, which also ends the answer.
    calls = CallSyntax(
        call="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json}",
        only_one=True,
    )

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__(tools)
        self._reader = HarmonyReader()
        self._answer = MessageJoiner(" ")
        self._has_arguments = False

    def feed(self, text: str) -> list[OutputEvent]:
        return self._events(self._reader.feed(text))

    def finish(self) -> list[OutputEvent]:
        return self._events(self._reader.finish())

    def _events(self, parts: Sequence[HarmonyPart]) -> list[OutputEvent]:
        events: list[OutputEvent] = []
        for part in parts:
            match part.kind, part.place:
                case MessageKind.CALL, _ if is_built_in(part.function) and (
                    part.function not in self.tools
                ):
                    if part.place == "text":
                        events.append(Reasoning(part.text))
                case MessageKind.CALL, "header":
                    events.append(ToolCall(part.function))
                    self._has_arguments = False
                case MessageKind.CALL, "text":
                    events.append(Arguments(part.text))
                    self._has_arguments = True
                case MessageKind.CALL, "end":
                    if not self._has_arguments:
                        events.append(Arguments("{}"))
                case MessageKind.ANSWER, "header":
                    self._answer.begin()
                case MessageKind.ANSWER, "text":
                    events.append(Content(self._answer.add(part.text)))
                case (MessageKind.ANALYSIS | MessageKind.OTHER, "text"):
                    events.append(Content(part.text))
                case _:
                    pass  # headers and ends of the others
        return events


class MessageKind(Enum):
    """The purpose of a message."""

    ANALYSIS = "reasoning"
    ANSWER = "the answer to the user"
    CALL = "the arguments for a function"
    OTHER = "a message of another role, or text outside of messages"


class HarmonyPart(NamedTuple):
    """A piece of a message.

    Attributes:
        place: the header and the end each come whole; the end may be missing.
        function: the name in a call; else "".
    """

    kind: MessageKind
    text: str
    place: Literal["header", "text", "end"] = "text"
    function: str = ""


class HarmonyReader:
    """Splits text into parts of messages.

    A message is ``[<|start|>role] <|channel|>channel [<|constrain|>type] <|message|>text``, up to
    ``<|end|>``, ``<|return|>``, ``<|call|>`` or the next message. The recipient, ``to=NAME``, is
    after the role or the channel; a text may begin with it, as its prompt ends in the role.
    Outside of messages these ends are left out, and so are tokens that begin nothing.

    ``kind``: of the message that has begun before the text, or None.
    """

    def __init__(self, kind: MessageKind | None = None) -> None:
        self._scanner = TagScanner()
        self._parts: list[HarmonyPart] = []
        self._header: list[str] = []
        self._kind = kind or MessageKind.OTHER
        self._function = ""
        self._state: Callable[[], bool] = self._at_start if kind is None else self._in_message

    def feed(self, text: str) -> list[HarmonyPart]:
        """Return the parts that this text makes certain."""
        self._scanner.feed(text)
        return self._read()

    def finish(self) -> list[HarmonyPart]:
        """Return the parts of the text that was held back."""
        self._scanner.finish()
        parts = self._read()
        if self._header:
            header = "".join(self._header)
            implied = header.removeprefix(_IMPLIED)
            is_text = implied != header and _TOKEN.search(implied) is None
            text = implied if is_text else _bare(header)
            # A header that was cut says nothing to anybody.
            if text and (is_text or not _CUT_HEADER.fullmatch(text)):
                parts.append(HarmonyPart(MessageKind.OTHER, text))
        return parts

    def _read(self) -> list[HarmonyPart]:
        while self._state():
            pass
        parts, self._parts = self._parts, []
        return parts

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
            self._parts.append(HarmonyPart(MessageKind.OTHER, text))
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
                self._begin_message(before, header)
                return True
        self._header = []
        if text := _bare(before):
            self._parts.append(HarmonyPart(MessageKind.OTHER, text))
        self._scanner.place -= len(tag or "")
        self._state = self._outside
        return True

    def _begin_message(self, before: str, header: str) -> None:
        self._kind, self._function = _kind_and_function(before)
        self._parts.append(HarmonyPart(self._kind, header, "header", self._function))
        self._state = self._in_message

    def _in_message(self) -> bool:
        text, tag = self._scanner.take(_IN_TEXT)
        if text:
            self._parts.append(HarmonyPart(self._kind, text, "text", self._function))
        if tag is not None and tag in _ENDS:
            self._parts.append(HarmonyPart(self._kind, tag, "end", self._function))
            self._state = self._at_start
        elif tag in (_START, _CHANNEL):
            self._header = [str(tag)]
            self._state = self._in_header
        return tag is not None


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


class MessageJoiner:
    """Joins the texts of messages with a separator. Messages without text do not count."""

    __slots__ = ("_has_text", "_is_new", "_separator")

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._has_text = False
        self._is_new = False

    def begin(self) -> None:
        """Begin another message."""
        self._is_new = self._has_text

    def add(self, text: str) -> str:
        """Return more text of the message, not empty, after the separator if one is due."""
        self._has_text = True
        if self._is_new:
            self._is_new = False
            return self._separator + text
        return text
