"""`SharedPrefixes`: an estimate of the part of each prompt that the engine need not compute."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

#: Tokens of a block of the key-value cache on a CPU. The engine finds whole blocks, and a part of
#: the next one, which is not counted.
BLOCK: Final = 32
_TOKEN_BYTES: Final = 8
_BLOCK_BYTES: Final = _TOKEN_BYTES * BLOCK


class SharedPrefixes:
    """The blocks of tokens with which earlier prompts and answers began.

    Tokens are 64-bit integers in the machine's byte order.

    openvino-genai 2026.4 does not report how much of a prompt it found in its cache. Until the
    cache has been full, it holds every block; then it drops blocks that were not used for long, and
    so does this, but maybe not the same ones.
    """

    def __init__(self, tokens: int) -> None:
        """``tokens``: the size of the cache."""
        self._most = tokens // BLOCK
        #: The most recently used last.
        self._known: OrderedDict[int, None] = OrderedDict()

    def shared(self, prompt: bytes) -> int:
        """Return the number of a prompt's first tokens, in whole blocks, that are known.

        The last token is always computed.
        """
        count = 0
        for key in _keys(prompt):
            if key not in self._known:
                break
            count += BLOCK
        return min(count, max(0, len(prompt) // _TOKEN_BYTES - 1))

    def note(self, tokens: bytes) -> None:
        """Note the blocks of a prompt, or of a prompt and its answer, which have been computed."""
        # The last block counts as the oldest: it is of use only with those before it.
        for key in reversed(list(_keys(tokens))):
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Forget everything: the engine begins anew."""
        self._known.clear()


def _keys(tokens: bytes) -> Iterator[int]:
    """Yield a key of each whole block, which depends on the blocks before it."""
    key = 0
    for end in range(_BLOCK_BYTES, len(tokens) + 1, _BLOCK_BYTES):
        key = hash((key, tokens[end - _BLOCK_BYTES : end]))
        yield key
