"""`TextEncoder`: tokenizes, and notices when memory is missing."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]

#: Characters of a text; shorter ones need too little memory to fail for it.
_LONG: Final = 256 * 1024
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

    def _encode(self, text: str, *, special: bool) -> Ids:
        encoded = self._tokenizer.encode(text, add_special_tokens=special)
        return np.array(encoded.input_ids.data, dtype=np.int64).reshape(-1)
