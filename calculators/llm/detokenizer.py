"""Detokenizing: token ids become text as they arrive, at the cost of a table lookup.

`TokenTable` has the bytes of every token. The prompt process makes it once from the tokenizer's
files and compares it with the tokenizer's own decoding; where they agree (byte-level BPE,
SentencePiece), a `TableDetokenizer` decodes without the tokenizer. Otherwise a `WindowDetokenizer`
lets the tokenizer decode the last few tokens again with each new one. Later tokens never change
text that either has returned.

Bytes are read as openvino-tokenizers' ``UTF8Validate`` reads UTF-8. Invalid ones become U+FFFD by a
simpler rule than Python's ``errors="replace"``: a lead byte (0xC2-0xDF, 0xE0-0xEF, 0xF0-0xF7) with
too few continuation bytes becomes one U+FFFD together with them; with enough of them that still
encode no character (0xED 0xA0 0x80), each byte becomes one. Measured against openvino-tokenizers
2026.4.1; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

REPLACEMENT: Final = "\ufffd"


def _length(lead: int) -> int:
    """Return the number of bytes of a character with this first byte; 0 if none begins with it."""
    if lead < 0x80:
        return 1
    if 0xC2 <= lead <= 0xDF:
        return 2
    if 0xE0 <= lead <= 0xEF:
        return 3
    return 4 if 0xF0 <= lead <= 0xF7 else 0


def decode_certain(data: bytes) -> tuple[str, bytes]:
    """Return the text that further bytes cannot change, and an unfinished character's bytes."""
    try:
        return data.decode(), b""
    except UnicodeDecodeError:
        return _walk(data)


def decode_all(data: bytes) -> str:
    """Decode bytes that are complete: an unfinished character becomes U+FFFD."""
    text, rest = decode_certain(data)
    return text + REPLACEMENT if rest else text


def _walk(data: bytes) -> tuple[str, bytes]:
    pieces: list[str] = []
    place, end = 0, len(data)
    while place < end:
        length = _length(data[place])
        stop = place + 1
        while stop < min(place + length, end) and data[stop] & 0xC0 == 0x80:
            stop += 1
        if stop == end and stop - place < length:
            return "".join(pieces), data[place:]
        try:
            pieces.append(data[place:stop].decode())
        except UnicodeDecodeError:
            cut_short = stop - place < length or length == 0
            pieces.append(REPLACEMENT if cut_short else REPLACEMENT * length)
        place = stop
    return "".join(pieces), b""


_BYTE_PIECE: Final = re.compile(rb"<0x([0-9A-Fa-f]{2})>\Z")
_META_SPACE: Final = "\u2581".encode()

#: Decodes token ids: (ids, skip_special_tokens) -> text.
Decode = Callable[[Sequence[int], bool], str]


class TokenTable(Struct, frozen=True):
    """The bytes that each token adds to the text.

    Attributes:
        pieces: bytes by token id, special tokens included.
        special: ids of special tokens, which text has only on request.
        strips_space: one space at the beginning of a text is dropped (SentencePiece).
        is_exact: the table agreed with the tokenizer's own decoding on all samples.
    """

    pieces: list[bytes]
    special: list[int]
    strips_space: bool = False
    is_exact: bool = True

    def hidden(self, shown: Collection[str] = ()) -> frozenset[int]:
        """Return the ids of the special tokens, except those with the texts ``shown``."""
        exempt = {text.encode() for text in shown}
        return frozenset(each for each in self.special if self.pieces[each] not in exempt)

    def visible(self, hidden: Iterable[int]) -> list[bytes]:
        """Return a copy of the pieces in which the tokens ``hidden`` have no bytes."""
        pieces = list(self.pieces)
        for token_id in hidden:
            pieces[token_id] = b""
        return pieces

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Decode a whole sequence of ids."""
        pieces = self.visible(self.special) if skip_special_tokens else self.pieces
        data = b"".join(pieces[each] for each in ids if 0 <= each < len(pieces))
        if self.strips_space:
            data = data.removeprefix(b" ")
        return decode_all(data)


def pieces_of(vocabulary: dict[bytes, int]) -> list[bytes]:
    """Return the texts of tokens by id, from a vocabulary that has the ids by text."""
    pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for piece, token_id in vocabulary.items():
        pieces[token_id] = piece
    return pieces


def make_token_table(
    raw: Sequence[bytes],
    special: Iterable[int],
    decode: Decode,
    samples: Iterable[Sequence[int]],
) -> TokenTable:
    """Return the first of the known kinds of table that agrees with ``decode`` on every sample.

    The vocabulary of byte-level BPE has the bytes; SentencePiece writes bytes as ``<0x0A>`` and
    spaces as U+2581. If no table agrees, the result is not exact, and text has to be decoded by the
    tokenizer itself.

    Args:
        raw: the tokens by id, as the tokenizer's files write them.
    """
    raw = list(raw)
    hidden = sorted(set(special))
    plain = [_plain(piece) for piece in raw]
    for token_id in hidden:
        if not _BYTE_PIECE.match(raw[token_id]):
            plain[token_id] = raw[token_id]
    candidates = [
        TokenTable(raw, hidden),
        TokenTable(raw, hidden, strips_space=True),
        TokenTable(plain, hidden, strips_space=True),
        TokenTable(plain, hidden),
    ]
    known = [list(sample) for sample in samples]
    for table in candidates:
        if all(_agrees(table, sample, decode) for sample in known):
            return table
    return TokenTable(raw, hidden, is_exact=False)


def _plain(piece: bytes) -> bytes:
    byte = _BYTE_PIECE.match(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_META_SPACE, b" ")


def _agrees(table: TokenTable, ids: Sequence[int], decode: Decode) -> bool:
    for skips in (True, False):
        ours, theirs = table.decode(ids, skip_special_tokens=skips), decode(ids, skips)
        # The tokenizers of GGUF files leave out bytes that are not UTF-8.
        if theirs not in (ours, ours.replace("\ufffd", "")):
            return False
    return True


class Detokenizer(Protocol):
    """The text of one sequence. Later tokens never change text that `feed` has returned."""

    async def feed(self, ids: Sequence[int]) -> str:
        """Return the text that these tokens make certain; maybe none."""

    async def finish(self) -> str:
        """Return the remaining text, after the last token."""


class TableDetokenizer(Struct, eq=False):
    """Decodes by a table. Exact for byte-level BPE and SentencePiece.

    Attributes:
        pieces: `TokenTable.visible`, or `TokenTable.pieces` to see special tokens.
        strips_space: the next text loses a space at its beginning.
        rest: the bytes of a character that is not complete.
    """

    pieces: Sequence[bytes]
    strips_space: bool
    rest: bytes = b""

    async def feed(self, ids: Sequence[int]) -> str:
        pieces = self.pieces
        try:
            data = self.rest + (
                pieces[ids[0]] if len(ids) == 1 else b"".join(map(pieces.__getitem__, ids))
            )
        except IndexError:  # the model's vocabulary is padded beyond the tokenizer's
            known = [pieces[each] for each in ids if each < len(pieces)]
            data = self.rest + b"".join(known)
        if self.strips_space and data:
            self.strips_space = False
            data = data.removeprefix(b" ")
        text, self.rest = decode_certain(data)
        return text

    async def finish(self) -> str:
        rest, self.rest = self.rest, b""
        return REPLACEMENT if rest else ""


#: The number of tokens that are decoded again with each new one, because text may depend on
#: neighbouring tokens.
_CONTEXT: Final = 6
#: An end of text that the next token may change: tokenizers that clean up write "do n't" as "don't"
#: and " ." as ".".
_OPEN_END: Final = re.compile(r" (?:n'?|'[rv]?)?\Z")


class WindowDetokenizer:
    """Decodes a window of tokens with the tokenizer itself, if no table describes it.

    ``decode`` must return the tokenizer's text of all the tokens that it receives.
    """

    __slots__ = ("_decode", "_ids", "_read", "_start")

    def __init__(self, decode: Callable[[Sequence[int]], Awaitable[str]]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._start = 0
        self._read = 0

    async def feed(self, ids: Sequence[int]) -> str:
        self._ids += ids
        text = await self._new_text()
        if not text or text.endswith(REPLACEMENT) or _OPEN_END.search(text):
            return ""
        self._read = len(self._ids)
        self._start = max(0, self._read - _CONTEXT)
        return text

    async def finish(self) -> str:
        text = await self._new_text()
        self._read = len(self._ids)
        return text

    async def _new_text(self) -> str:
        if self._read == len(self._ids):
            return ""
        before = await self._decode(self._ids[self._start : self._read]) if self._read else ""
        while not before and self._start:
            # The window has no text, so the text after it would look like the beginning of a
            # sequence, where tokenizers drop a space.
            self._start = max(0, self._start - _CONTEXT)
            before = await self._decode(self._ids[self._start : self._read])
        after = await self._decode(self._ids[self._start :])
        return after[len(before) :]
