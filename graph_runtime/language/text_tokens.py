"""The tokens of protobuf's text format, each with its position in the text.

The lexical rules follow https://protobuf.dev/reference/protobuf/textformat-spec/, with what
existing graph files need beyond it: any separator anywhere between fields, and a byte order mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from graph_runtime.errors import GraphSyntaxError

_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"\.?[0-9](?:[eE][+-]|[0-9A-Za-z_.])*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"' r"|'(?:[^'\\\n]|\\[^\n])*'")
_OPEN_STRING = re.compile(r"""["'][^\n]*""")
_BRACKETED = re.compile(r"\[((?:[^\[\]{}<>\"';,#]|#[^\n]*\n)*)\]")


class Kind(Enum):
    """Kind of a token."""

    WORD = auto()
    NUMBER = auto()
    STRING = auto()  # with its quotes
    SYMBOL = auto()  # one character
    END = auto()


class Token(NamedTuple):
    """A token: its ``text`` as in the source, and the offset where it starts."""

    kind: Kind
    text: str
    offset: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind is Kind.END else f"`{self.text}`"


class Tokens:
    """Reads the tokens of a text one after the other, with one token of look-ahead."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self.current = self._read(1 if text.startswith("\ufeff") else 0)

    def advance(self) -> Token:
        """Return the current token and make the next one current."""
        token = self.current
        self.current = self._read(token.offset + len(token.text))
        return token

    def at(self, *symbols: str) -> bool:
        """Return True if the current token is one of these symbols."""
        return self.current.kind is Kind.SYMBOL and self.current.text in symbols

    def skip(self, *symbols: str) -> bool:
        """Step over the current token if it is one of these symbols."""
        if not self.at(*symbols):
            return False
        self.advance()
        return True

    def bracketed(self) -> Token | None:
        """The name in the brackets that open here, without blanks and comments; None without end.

        Steps over both brackets. The name of an Any may hold most characters, so it is read from
        the text and not from tokens.
        """
        match = _BRACKETED.match(self._text, self.current.offset)
        if match is None:
            return None
        opening = self.current
        self.current = self._read(match.end())
        return Token(Kind.WORD, _BLANK.sub("", match[1]), opening.offset + 1)

    def error(self, message: str, token: Token, hint: str | None = None) -> GraphSyntaxError:
        """Return the error to raise for ``token``."""
        line, column = self.place(token.offset)
        return GraphSyntaxError(message, source=self._source, line=line, column=column, hint=hint)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1; the column in characters."""
        line_start = self._text.rfind("\n", 0, offset) + 1
        column = offset - line_start + 1
        if line_start == 0 and self._text.startswith("\ufeff"):
            column -= 1
        return self._text.count("\n", 0, offset) + 1, column

    def _read(self, offset: int) -> Token:
        text = self._text
        blank = _BLANK.match(text, offset)
        if blank is not None:
            offset = blank.end()
        if offset >= len(text):
            return Token(Kind.END, "", len(text))
        for kind, pattern in ((Kind.WORD, _WORD), (Kind.NUMBER, _NUMBER), (Kind.STRING, _STRING)):
            match = pattern.match(text, offset)
            if match is not None:
                return Token(kind, match[0], offset)
        token = Token(Kind.SYMBOL, text[offset], offset)
        if token.text in "\"'":
            raise self.error(
                "this string has no end on its line",
                token,
                f"close it with {token.text}; a line break inside a string is written \\n",
            )
        return token


def tokens_of_draft(text: str) -> Iterator[Token]:
    """Yield the tokens of a text that is being written, and which may break any rule.

    A string without an end reaches to the end of its line. `Kind.END` is not yielded.
    """
    offset = 1 if text.startswith("\ufeff") else 0
    while offset < len(text):
        blank = _BLANK.match(text, offset)
        if blank is not None:
            offset = blank.end()
            continue
        token = Token(Kind.SYMBOL, text[offset], offset)
        for kind, pattern in (
            (Kind.WORD, _WORD),
            (Kind.NUMBER, _NUMBER),
            (Kind.STRING, _STRING),
            (Kind.STRING, _OPEN_STRING),
        ):
            match = pattern.match(text, offset)
            if match is not None:
                token = Token(kind, match[0], offset)
                break
        yield token
        offset += len(token.text)
