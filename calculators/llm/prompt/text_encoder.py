"""`TextEncoder`: from text to token ids."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]

#: Shorter texts need so little memory that it cannot be what is missing; in characters.
_LONG: Final = 256 * 1024
_MARKER: Final = "~ what comes before a long text ~"


class TextEncoder:
    """openvino-genai's tokenizer, made to say when memory was missing.

    With one thread, so on a machine with one processor, the library (2026.4) answers a text for
    which there is not enough memory with the tokens of the text before, as if nothing had happened.
    That may have been another client's, so a long text gets one of ours before it.
    """

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer``: an ``openvino_genai.Tokenizer``."""
        self._tokenizer = tokenizer

    def encode(self, text: str, *, special: bool) -> Ids:
        """The ids, shape ``[tokens]``. ``special``: with those that begin or end a text.

        Raises:
            MemoryError: there is not enough.
            RuntimeError: the library's; a ``bad_alloc`` in its text means the same.
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
