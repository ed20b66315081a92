"""NumPy arrays as JSON: ``{"type": "ndarray<float32>", "value": [[1, 2], [3, 4]]}``."""

from __future__ import annotations

from typing import Any, Final

_PREFIX: Final = "ndarray<"
_ELEMENT_TYPES: Final = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)


def is_array(kind: str) -> bool:
    return kind.startswith(_PREFIX) and kind.endswith(">")


def decode_array(kind: str, value: Any) -> Any:
    """Return a `numpy.ndarray` of the element type in ``kind`` and the shape of the nested lists.

    Raises:
        ValueError: the element type is unknown, the lists have different lengths, or an element
            does not fit the type.
    """
    element_type = kind[len(_PREFIX) : -1]
    if element_type not in _ELEMENT_TYPES:
        raise ValueError(f'"{element_type}" is no element type: one of {", ".join(_ELEMENT_TYPES)}')
    import numpy as np  # here: the import is slow, and most graphs have no arrays

    try:
        given = np.array(value)
    except ValueError:
        raise ValueError(f"{kind} needs lists of the same length in each other") from None
    dtype = np.dtype(element_type)
    fits = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[dtype.kind]
    with np.errstate(over="ignore"):
        made = given.astype(dtype) if given.dtype.kind in fits else np.zeros(given.shape, dtype)
    is_exact = dtype.kind == "f" or bool((made == given).all())
    if given.size and not (given.dtype.kind in fits and is_exact):
        raise ValueError(f"{kind} needs values of {element_type} only, in lists")
    return made
