"""The size of a GGUF file's model in OpenVINO's form, and the form of its weights that fits.

`weights.py` explains the forms. A size is known from the header alone, without the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from calculators.llm.model_files.gguf import GgufFile, Tensor


class _Codes(NamedTuple):
    """The codes of a type: bits of each, columns of a group, and whether groups have offsets."""

    bits: int
    group: int
    has_offsets: bool = False


_CODES: Final[Mapping[str, _Codes]] = {
    "Q4_0": _Codes(4, 32),
    "Q4_1": _Codes(4, 32, has_offsets=True),
    "Q5_1": _Codes(8, 32, has_offsets=True),
    "Q2_K": _Codes(4, 16, has_offsets=True),
    "Q3_K": _Codes(4, 16),
    "Q4_K": _Codes(4, 32, has_offsets=True),
    "Q5_K": _Codes(8, 32, has_offsets=True),
    "Q6_K": _Codes(8, 16),
    "TQ1_0": _Codes(4, 256),
    "TQ2_0": _Codes(4, 256),
    "IQ2_XS": _Codes(8, 16),
    "IQ2_S": _Codes(8, 16),
    "IQ1_M": _Codes(8, 16),
    "NVFP4": _Codes(8, 16),
}
#: Of all other quantized types.
_BYTES: Final = _Codes(8, 32)
_PLAIN: Final[Mapping[str, int]] = {"F32": 4, "F16": 2, "BF16": 2, "F64": 4}
_FLOAT_BYTES: Final = 4
#: The part of a machine's memory that the weights may take in their fastest form: the cache and
#: other models need some too.
_MOST: Final = 0.6


def converted_bytes(file: GgufFile, form: str) -> int:
    """Return the bytes of the weights, on the disk and in memory.

    Args:
        form: one of `packed.Form`.
    """
    return sum(_bytes(tensor, form) for tensor in file.tensors.values())


def fitting_form(file: GgufFile, memory: int) -> str:
    """Return the fastest form of which ``memory`` bytes have room."""
    return "scaled" if converted_bytes(file, "scaled") <= memory * _MOST else "split"


def _bytes(tensor: Tensor, form: str) -> int:
    plain = _PLAIN.get(tensor.type.name)
    if plain is not None:
        return tensor.weights * plain
    codes = _CODES.get(tensor.type.name, _BYTES)
    bits, of_group = codes.bits, _FLOAT_BYTES
    if codes.has_offsets:
        bits = 8 if form == "scaled" else bits
        of_group += 1 if form == "scaled" else _FLOAT_BYTES
    return tensor.weights * bits // 8 + tensor.weights // codes.group * of_group
