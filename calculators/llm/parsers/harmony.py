"""`HarmonyReader`: the messages in text of OpenAI's harmony form, read as it grows."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, Literal, NamedTuple

from calculators.llm.parsers.tag_scanner import Tags, TagScanner

_START: Final = "<|start|>"
_CHANNEL: Final = "<|channel|>"
_CONSTRAIN: Final = "<|constrain|>"
_MESSAGE: Final = "<|message|>"
_ENDS: Final = ("<|end|>", "<|return|>", "<|call|>")

HARMONY_TOKENS: Final = frozenset((_START, _CHANNEL, _CONSTRAIN, _MESSAGE, *_ENDS))

_IN_TEXT: Final = Tags(_START, _CHANNEL, *_ENDS)
_IN_HEADER: Final = Tags(*HARMONY_TOKENS)
_LONGEST_HEADER: Final = 512
_HEADER: Final = re.compile(
    r"(?:<\|start\|>(?P<role>[^<]*))?"
    r"(?:<\|channel\|>(?P<channel>.*?))?"
    r"(?P<constrain><\|constrain\|>.*)?",
    re.DOTALL,
)
_RECIPIENT: Final = re.compile(r"to=functions\.([^\s<]+)")
_ROLE: Final = re.compile(r"\s*assistant(?P<recipient>\s.*)?", re.DOTALL)


class MessageKind(Enum):
    """The purpose of a message."""

    ANALYSIS = "reasoning"
    ANSWER = "the answer to the user"
    CALL = "the arguments for a function"
    OTHER = "a message to an unknown recipient, or text outside of messages"


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
    ``<|end|>``, ``<|return|>``, ``<|call|>`` or the next message. Outside of messages these ends
    are left out; text that only begins like a header is kept. ``kind``: of the message that has
    begun before the text, or None.
    """

    def __init__(self, kind: MessageKind | None = None) -> None:
        self._scanner = TagScanner()
        self._parts: list[HarmonyPart] = []
        self._header: list[str] = []
        self._kind = kind or MessageKind.OTHER
        self._function = ""
        self._state: Callable[[], bool] = self._outside if kind is None else self._in_message

    def feed(self, text: str) -> list[HarmonyPart]:
        """Return the parts that this text makes certain."""
        self._scanner.feed(text)
        return self._read()

    def finish(self) -> list[HarmonyPart]:
        """Return the parts of the text that was held back."""
        self._scanner.finish()
        parts = self._read()
        if self._header:
            parts.append(HarmonyPart(MessageKind.OTHER, "".join(self._header)))
        return parts

    def _read(self) -> list[HarmonyPart]:
        while self._state():
            pass
        parts, self._parts = self._parts, []
        return parts

    def _outside(self) -> bool:
        text, tag = self._scanner.take(_IN_TEXT)
        if text:
            self._parts.append(HarmonyPart(MessageKind.OTHER, text))
        if tag is not None and tag in (_START, _CHANNEL):
            self._header = [tag]
            self._state = self._in_header
        return tag is not None

    def _in_header(self) -> bool:
        text, tag = self._scanner.take(_IN_HEADER)
        before = "".join((*self._header, text))
        header = before + (tag or "")
        if len(header) <= _LONGEST_HEADER:
            if tag is None or tag == _CONSTRAIN or (tag == _CHANNEL and _CHANNEL not in before):
                self._header = [header]
                return tag is not None
            if tag == _MESSAGE:
                self._header = []
                self._begin_message(before, header)
                return True
        self._header = []
        self._parts.append(HarmonyPart(MessageKind.OTHER, before))
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
            self._state = self._outside
        elif tag is not None:
            self._header = [tag]
            self._state = self._in_header
        return tag is not None


def _kind_and_function(header: str) -> tuple[MessageKind, str]:
    """Read a header as OpenVINO Model Server does: names must be exact.

    The recipient may follow the channel or, as in OpenAI's own form, the role.
    """
    found = _HEADER.fullmatch(header)
    if found is None:
        return MessageKind.OTHER, ""
    channel = found["channel"]
    if channel is not None and found["constrain"] is not None:
        channel = channel.rstrip()
    recipient = ""
    if found["role"] is not None:
        role = _ROLE.fullmatch(found["role"])
        if role is None:
            return MessageKind.OTHER, ""
        recipient = (role["recipient"] or "").strip()
    if channel is None or channel.startswith(("commentary", "analysis")):
        function = _RECIPIENT.search(channel or "") or _RECIPIENT.search(recipient)
        if function is not None:
            return MessageKind.CALL, function[1]
    if not recipient:
        if channel in (None, "final", "commentary"):
            return MessageKind.ANSWER, ""
        if channel == "analysis":
            return MessageKind.ANALYSIS, ""
    return MessageKind.OTHER, ""
