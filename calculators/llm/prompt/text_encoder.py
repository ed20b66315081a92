"""`TextEncoder`: tokenizes, and notices when memory is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]

#: Characters of a text; shorter ones need too little memory to fail for it.
_LONG: Final = 256 * 1024
#: Texts of so many characters are tokenized together, so many at a time: one takes the room of the
#: longest.
_SHORT: Final = 256
_BATCH: Final = 512
_MARKER: Final = "~ what comes before a long text ~"


class TextEncoder:
    """openvino-genai's tokenizer, with an error when memory is missing.

    With one thread, as on a machine with one processor, the library (2026.4) answers a text for
    which there is not enough memory with the tokens of the previous text, without an error. That
    may have been another client's, so before each long text a marker is tokenized.
    """

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer``: an ``openvino_genai.Tokenizer``."""
        self._tokenizer = tokenizer

    def encode(self, text: str, *, special: bool) -> Ids:
        """Return the ids of a text, shape ``[tokens]``.

        Args:
            special: add the special tokens that begin or end a text.

        Raises:
            MemoryError: there is not enough memory.
            RuntimeError: the library failed; ``bad_alloc`` in its text also means missing memory.
        """
        if len(text) < _LONG:
            return self._encode(text, special=special)
        marker = self._encode(_MARKER, special=special)
        ids = self._encode(text, special=special)
        if np.array_equal(ids, marker):
            raise MemoryError
        return ids

    def encode_many(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text, without added tokens.

        Many short texts take far less time together than one by one.

        Raises:
            MemoryError, RuntimeError: as `encode`.
        """
        found: dict[str, Ids] = {}
        short: list[str] = []
        for text in dict.fromkeys(texts):
            if len(text) > _SHORT:
                found[text] = self.encode(text, special=False)
            else:
                short.append(text)
        for start in range(0, len(short), _BATCH):
            batch = short[start : start + _BATCH]
            encoded = self._tokenizer.encode(batch, add_special_tokens=False)
            rows = np.array(encoded.input_ids.data, dtype=np.int64)
            masks = np.array(encoded.attention_mask.data)
            for text, row, mask in zip(batch, rows, masks, strict=True):
                found[text] = row[mask != 0]
        return [found[text] for text in texts]

    def _encode(self, text: str, *, special: bool) -> Ids:
        encoded = self._tokenizer.encode(text, add_special_tokens=special)
        return np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)
