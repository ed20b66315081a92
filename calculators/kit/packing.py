"""MessagePack of options: dataclasses with paths and element types, as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeVar, get_origin

import msgspec
import numpy as np

T = TypeVar("T")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.dtype):
        return value.str
    raise NotImplementedError(f"{type(value).__name__} has no form in MessagePack")


def _make(annotated: Any, value: Any) -> Any:
    kind = get_origin(annotated) or annotated
    if issubclass(kind, Path):
        return Path(value)
    if issubclass(kind, np.dtype):
        return np.dtype(value)
    raise NotImplementedError(f"{kind.__name__} has no form in MessagePack")


#: Packs what `unpack` reads.
pack: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def unpack(packed: bytes, kind: type[T]) -> T:
    """Return the value that was packed, of its type."""
    return msgspec.msgpack.decode(packed, type=kind, dec_hook=_make)
