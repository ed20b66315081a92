"""The statements of a graph's text with their places, also while the text is being written.

The parser of graphs (`text_parser`) stops at an error; this reader never does. It knows no fields
and no types: only names, values and braces, which is what editors and findings need.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from graph_runtime.language.text_tokens import Kind, Token, tokens_of_draft

#: The fields of a graph and of a node that name streams and side packets.
PORT_FIELDS: Final = ("input_stream", "output_stream", "input_side_packet", "output_side_packet")

_FIELD_GOES_ON: Final = re.compile(r"\s*[:{<]")
_CLOSING: Final = {"{": "}", "<": ">", "[": "]"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One value of a field.

    Attributes:
        path: the fields around it, the outermost first; ``[type.name]`` for extensions and Any.
        name: the field.
        text: the value as written, a string with its quotes; "" for a field without a value yet.
        start, end: offsets of the value.
        name_start: the offset of the field's name.
        node: the index of the top-level node around it; None outside of nodes.
    """

    path: tuple[str, ...]
    name: str
    text: str
    start: int
    end: int
    name_start: int
    node: int | None

    @property
    def value(self) -> str:
        """The value without quotes."""
        is_string = self.text[:1] in ("'", '"')
        if not is_string:
            return self.text
        return self.text[1:-1] if self.text[-1:] == self.text[0] != self.text else self.text[1:]

    @property
    def is_port(self) -> bool:
        """True if the value names a stream or a side packet of the graph or of one of its nodes."""
        return self.name in PORT_FIELDS and self.path in ((), ("node",))


@dataclass(slots=True)
class Block:
    """One message in braces.

    Attributes:
        path: the fields around it, its own last.
        name_start: the offset of its field's name.
        start: the offset after the opening brace.
        end: the offset of the closing brace, or the end of the text.
        node: the index of the top-level node that it is, or is in.
    """

    path: tuple[str, ...]
    name_start: int
    start: int
    end: int
    node: int | None


@dataclass(slots=True)
class DraftText:
    """The statements and blocks of a text, in the order of their beginnings."""

    text: str
    statements: list[Statement] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> DraftText:
        """Read a text; it may be incomplete or wrong."""
        draft = cls(text)
        draft._lines = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
        _Reader(draft).read()
        return draft

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1; a byte order mark does not count."""
        line = bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1] + 1
        return line, column - (line == 1 and self.text.startswith("\ufeff"))

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a place, within the text."""
        if line > len(self._lines):
            return len(self.text)
        shift = line == 1 and self.text.startswith("\ufeff")
        return min(self._lines[max(line, 1) - 1] + column - 1 + shift, len(self.text))

    def word_end(self, offset: int) -> int:
        """Return the end of the token that begins at an offset, at least one character further."""
        if offset >= len(self.text):
            return len(self.text)
        token = next(tokens_of_draft(self.text[offset:].partition("\n")[0]), None)
        return offset + (1 if token is None or token.offset else len(token.text))

    def statement_at(self, offset: int) -> Statement | None:
        """Return the statement whose name or value is at an offset."""
        for each in self.statements:
            if each.name_start <= offset <= each.end:
                return each
        return None

    def block_at(self, offset: int) -> Block | None:
        """Return the innermost block around an offset."""
        found = None
        for each in self.blocks:
            if each.start <= offset <= each.end:
                found = each
        return found

    def of_node(self, node: int) -> Iterator[Statement]:
        """Yield the statements of a top-level node, without the statements of its options."""
        for each in self.statements:
            if each.node == node and len(each.path) == 1:
                yield each

    def in_block(self, block: Block) -> Iterator[Statement]:
        """Yield the statements that stand directly in a block."""
        for each in self.statements:
            if each.path == block.path and block.start <= each.name_start <= block.end:
                yield each

    def ports(self) -> Iterator[Statement]:
        """Yield the statements that name streams and side packets."""
        return (each for each in self.statements if each.is_port)


class _Reader:
    """The state of reading one text."""

    def __init__(self, draft: DraftText) -> None:
        self._draft = draft
        #: Open brackets: the bracket, the field before it, and its block.
        self._open: list[tuple[str, Token, Block | None]] = []
        self._field: Token | None = None
        self._has_colon = False
        self._nodes = 0

    def read(self) -> None:
        tokens = tokens_of_draft(self._draft.text)
        for token in tokens:
            if token.kind is Kind.SYMBOL:
                self._take_symbol(token, tokens)
            elif token.kind is Kind.WORD and not (self._is_value() and not self._begins(token)):
                self._leave_empty()
                self._field = token
            elif self._field is not None:
                self._add(token)
        self._leave_empty()
        for _, _, block in self._open:
            if block is not None:
                block.end = len(self._draft.text)

    def _begins(self, token: Token) -> bool:
        """True if a word after a colon is the next field, because the value is still missing."""
        if self._field is None or self._in_list():
            return False
        text = self._draft.text
        is_later = "\n" in text[self._field.offset : token.offset]
        return is_later and _FIELD_GOES_ON.match(text, token.offset + len(token.text)) is not None

    def _is_value(self) -> bool:
        return self._has_colon or self._in_list()

    def _in_list(self) -> bool:
        return bool(self._open) and self._open[-1][0] == "["

    def _path(self) -> tuple[str, ...]:
        block = next((block for _, _, block in reversed(self._open) if block is not None), None)
        return () if block is None else block.path

    def _node(self) -> int | None:
        return next((block.node for _, _, block in self._open if block is not None), None)

    def _take_symbol(self, token: Token, tokens: Iterator[Token]) -> None:
        match token.text:
            case ":":
                self._has_colon = self._field is not None
            case "[" if self._field is not None:
                self._open.append(("[", self._field, None))
                self._has_colon = False
            case "[":
                self._field = _extension(token, tokens)
            case "{" | "<":
                self._begin_block(token)
            case "}" | ">" | "]":
                self._close(token)
            case "-":
                pass  # the number follows
            case _:
                if not self._in_list():
                    self._leave_empty()

    def _begin_block(self, token: Token) -> None:
        name = self._field or Token(Kind.WORD, "", token.offset)
        path = (*self._path(), name.text)
        node = self._node()
        if path == ("node",):
            node = self._nodes
            self._nodes += 1
        start = token.offset + 1
        name_start = token.offset if self._in_list() else name.offset
        block = Block(path, name_start, start, start, node)
        self._draft.blocks.append(block)
        self._open.append((token.text, name, block))
        self._field, self._has_colon = None, False

    def _close(self, token: Token) -> None:
        if not self._in_list():
            self._leave_empty()
        kinds = [_CLOSING[opening] for opening, _, _ in self._open]
        if token.text not in kinds:
            return
        while self._open:
            opening, _, block = self._open.pop()
            if block is not None:
                block.end = token.offset
            if _CLOSING[opening] == token.text:
                break
        # In a list, the next block belongs to the same field.
        self._field = self._open[-1][1] if self._in_list() else None
        self._has_colon = False

    def _add(self, token: Token) -> None:
        assert self._field is not None
        self._statement(token.text, token.offset)
        self._has_colon = False
        if not self._in_list():
            self._field = None

    def _leave_empty(self) -> None:
        """Note a field that has a colon but no value, which is where people are writing."""
        if self._field is not None and self._has_colon:
            after = self._draft.text.index(":", self._field.offset) + 1
            self._statement("", after)
        self._field, self._has_colon = None, False

    def _statement(self, text: str, start: int) -> None:
        assert self._field is not None
        self._draft.statements.append(
            Statement(
                self._path(),
                self._field.text,
                text,
                start,
                start + len(text),
                self._field.offset,
                self._node(),
            )
        )


def _extension(opening: Token, tokens: Iterator[Token]) -> Token:
    """Return the name in brackets, ``[type.name]``, as one word."""
    parts = []
    for token in tokens:
        if token.text in ("]", "{", "}"):
            break
        parts.append(token.text)
    return Token(Kind.WORD, f"[{''.join(parts)}]", opening.offset)
