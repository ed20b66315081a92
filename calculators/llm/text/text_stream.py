"""`TextStream`: decodes the tokens of a sequence as they arrive."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from calculators.llm.text.utf8 import REPLACEMENT, decode_certain


class TextStream(Protocol):
    """The text of one sequence. Later tokens never change text that `feed` has returned."""

    async def feed(self, ids: Sequence[int]) -> str:
        """Return the text that these tokens make certain; maybe none."""

    async def finish(self) -> str:
        """Return the remaining text, after the last token."""


class TableText(Struct, eq=False):
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


class DecodedText:
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
