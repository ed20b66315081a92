"""`TokenTable`: the bytes of every token, for decoding without a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from calculators.llm.text.utf8 import decode_all

_BYTE_PIECE: Final = re.compile(rb"<0x([0-9A-Fa-f]{2})>\Z")
_META_SPACE: Final = "\u2581".encode()

#: Decodes token ids: (ids, skip_special_tokens) -> text.
Decode = Callable[[Sequence[int], bool], str]


class TokenTable(msgspec.Struct, frozen=True):
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
