"""Quantized weights as whole-number codes, scales and offsets; GGUF's blocks are unpacked to them.

A quantized matrix is cut into groups: some neighbouring columns of one row. A group has codes,
a scale, and with some types an offset. `Packed` holds them; a weight is

    code * scale - minus        (the file's numbers: the offset is any number)
    (code - zero) * scale       (the same with a whole zero point, which fast kernels want)

Each type of GGUF is a way to write this. Codes are the file's own whole numbers, or small multiples
of them where a table of values says so. A scale of a K-quant is the product of a float16 with a
number of 4, 6 or 8 bits, which float32 holds exactly. So unpacking rounds nothing: in float32
``code * scale - minus`` is the number that ggml itself computes.

=================  ======  =====  ===========================================================
type               codes   group  a block
=================  ======  =====  ===========================================================
Q4_0, Q5_0, Q8_0   4 to 8  32     scale, [fifth bits,] codes around the middle
Q4_1, Q5_1         4, 5    32     scale, lowest weight, [fifth bits,] codes from 0
Q2_K, Q4_K, Q5_K   2 to 5  16/32  256 weights: scales and offsets of groups as small numbers
Q3_K, Q6_K         3, 6    16     the same without offsets
IQ4_NL, IQ4_XS     8       32     4 bits choose one of 16 values
MXFP4, NVFP4       8       32/16  4 bits are a float (E2M1), twice its value is whole
TQ1_0, TQ2_0       2       256    -1, 0 and 1, written with base 3 or in 2 bits
Q1_0, Q2_0         1, 2    64/128 -1 and 1; -1 to 2
IQ1, IQ2, IQ3      8       16/32  an index chooses 4 or 8 values together, from a grid
=================  ======  =====  ===========================================================

``iq_grids.py`` has the grids.

Weights with offsets are computed in one of three forms (`weights.py` says what they are for):
`formed` converts codes, scales and zero points to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.kit.checkpoints import iq_grids
from calculators.kit.checkpoints.gguf import GgufTensor
from graphrt_base.errors import ResourceError


class OffsetForm(StrEnum):
    """How weights with offsets are computed; see ``weights.py``."""

    SCALED = "scaled"
    SPLIT = "split"
    EXACT = "exact"


Codes = Literal["i4", "u4", "i8", "u8"]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Packed:
    """Quantized rows.

    Attributes:
        codes: int8 or uint8, (..., groups, columns of a group).
        kind: the narrowest type that holds the codes.
        scale: (..., groups).
        minus: the offset that is subtracted, (..., groups); None: 0.
        zero: instead of an offset a whole zero point, uint8, (..., groups); None: 0.
    """

    codes: NDArray[Any]
    kind: Codes
    scale: Floats
    minus: Floats | None = None
    zero: Bytes | None = None

    @property
    def group(self) -> int:
        """Columns of a group."""
        return int(self.codes.shape[-1])

    def floats(self) -> Floats:
        """Return the weights in float32, (..., columns)."""
        codes = self.codes.astype(np.float32)
        if self.zero is not None:
            codes -= self.zero[..., np.newaxis]
        codes *= self.scale[..., np.newaxis]
        if self.minus is not None:
            codes -= self.minus[..., np.newaxis]
        return codes.reshape(*codes.shape[:-2], -1)


def floats_of(kind: str, rows: Bytes) -> Floats | NDArray[np.float16] | None:
    """Return rows of an unquantized type; None: the type is quantized.

    BF16 and F64 become float32.
    """
    match kind:
        case "F32":
            return rows.view("<f4")
        case "F16":
            return rows.view("<f2")
        case "BF16":
            return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)
        case "F64":
            return rows.view("<f8").astype(np.float32)
        case _:
            return None


def unpack(kind: str, rows: Bytes) -> Packed:
    """Unpack rows of blocks.

    Raises:
        KeyError: the type is not in `UNPACKED`.
    """
    layout = UNPACKED[kind]
    blocks = np.ascontiguousarray(rows).reshape(-1, layout.size)
    found = layout.unpack(blocks)
    lead = (rows.shape[0], -1)
    return Packed(
        found.codes.reshape(*lead, layout.group),
        found.kind,
        np.asarray(found.scale, np.float32).reshape(lead),
        None if found.minus is None else np.asarray(found.minus, np.float32).reshape(lead),
    )


@dataclass(frozen=True, slots=True)
class _BlockLayout:
    size: int
    group: int
    kind: Codes
    unpack: Callable[[Bytes], Packed]
    has_offset: bool = False


# Parts of blocks. A block is a row of bytes; ``at`` is a place in it.


def _half(blocks: Bytes, at: int) -> Floats:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _words(blocks: Bytes, at: int, count: int, kind: str) -> NDArray[Any]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(blocks[:, at : at + count * size]).view(kind)


def _nibbles(data: Bytes) -> Bytes:
    """Four-bit codes along the last axis: all low halves, then all high halves."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _pairs(data: Bytes) -> Bytes:
    """Four-bit numbers along the last axis: low and high half of each byte in turn."""
    return np.stack([data & 15, data >> 4], axis=-1).reshape(*data.shape[:-1], -1)


def _planes(data: Bytes, bits: int) -> Bytes:
    """Codes of 2 bits or 1, plane after plane: byte 0 has the first of each plane."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, np.newaxis]
    found: Bytes = data[..., np.newaxis, :] >> shifts & np.uint8((1 << bits) - 1)
    return found


def _signed(codes: NDArray[Any], middle: int) -> NDArray[np.int8]:
    return codes.view(np.int8) - np.int8(middle)


def _fifth_bits(blocks: Bytes, at: int) -> Bytes:
    bits = np.unpackbits(np.ascontiguousarray(blocks[:, at : at + 4]), axis=-1, bitorder="little")
    return bits << np.uint8(4)


# Blocks of 32 weights.


def _q4_0(blocks: Bytes) -> Packed:
    return Packed(_signed(_nibbles(blocks[:, 2:]), 8), "i4", _half(blocks, 0))


def _q4_1(blocks: Bytes) -> Packed:
    return Packed(_nibbles(blocks[:, 4:]), "u4", _half(blocks, 0), -_half(blocks, 2))


def _q5_0(blocks: Bytes) -> Packed:
    codes = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return Packed(_signed(codes, 16), "i8", _half(blocks, 0))


def _q5_1(blocks: Bytes) -> Packed:
    codes = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return Packed(codes, "u8", _half(blocks, 0), -_half(blocks, 2))


def _q8_0(blocks: Bytes) -> Packed:
    return Packed(_words(blocks, 2, 32, "i1"), "i8", _half(blocks, 0))


# Blocks of 256 weights, whose groups' scales and offsets are small numbers times a float16.


def _six_bits(data: Bytes) -> tuple[Bytes, Bytes]:
    """Scales and offsets of 8 groups, of 6 bits each, out of 12 bytes."""
    # The last four bytes hold the low bits of groups 4 to 7; their high bits are the free ones of
    # the bytes before (ggml ``get_scale_min_k4``).
    low, middle, high = data[:, :4], data[:, 4:8], data[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=-1)
    offsets = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], axis=-1)
    return scales, offsets


def _q2_k(blocks: Bytes) -> Packed:
    codes = _planes(blocks[:, 16:80].reshape(-1, 2, 32), 2)
    scales, offsets = blocks[:, :16] & 15, blocks[:, :16] >> 4
    return Packed(codes, "u4", _half(blocks, 80) * scales, _half(blocks, 82) * offsets)


def _q3_k(blocks: Bytes) -> Packed:
    low = _planes(blocks[:, 32:96].reshape(-1, 2, 32), 2).reshape(-1, 8, 32)
    codes = _signed(low | _planes(blocks[:, :32], 1) << 2, 4)
    data = blocks[:, 96:108]
    scales = _nibbles(data[:, :8]) | _planes(data[:, 8:], 2).reshape(-1, 16) << 4
    return Packed(codes, "i4", _half(blocks, 108) * _signed(scales, 32))


def _q4_k(blocks: Bytes) -> Packed:
    scales, offsets = _six_bits(blocks[:, 4:16])
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, 32))
    return Packed(codes, "u4", _half(blocks, 0) * scales, _half(blocks, 2) * offsets)


def _q5_k(blocks: Bytes) -> Packed:
    scales, offsets = _six_bits(blocks[:, 4:16])
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    codes = low | _planes(blocks[:, 16:48], 1) << 4
    return Packed(codes, "u8", _half(blocks, 0) * scales, _half(blocks, 2) * offsets)


def _q6_k(blocks: Bytes) -> Packed:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    codes = _signed(low | _planes(blocks[:, 128:192].reshape(-1, 2, 32), 2) << 4, 32)
    return Packed(codes, "i8", _half(blocks, 208) * _words(blocks, 192, 16, "i1"))


# Tables of values.

_IQ4: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
#: Twice the values of E2M1.
_E2M1: Final = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def _iq4_nl(blocks: Bytes) -> Packed:
    return Packed(_IQ4[_nibbles(blocks[:, 2:])], "i8", _half(blocks, 0))


def _iq4_xs(blocks: Bytes) -> Packed:
    high = _words(blocks, 2, 1, "<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = _pairs(blocks[:, 4:8]) | high.astype(np.uint8) << 4
    codes = _IQ4[_nibbles(blocks[:, 8:].reshape(-1, 8, 16))]
    return Packed(codes, "i8", _half(blocks, 0) * _signed(scales, 32))


def _mxfp4(blocks: Bytes) -> Packed:
    # A scale of E8M0 is a power of two, and half of it belongs to the doubled values.
    scale = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
    return Packed(_E2M1[_nibbles(blocks[:, 1:])], "i8", scale.astype(np.float32))


def _nvfp4(blocks: Bytes) -> Packed:
    # Scales are unsigned floats with 4 bits of exponent (bias 7) and 3 of mantissa.
    bits = blocks[:, :4].astype(np.int32)
    exponent, mantissa = bits >> 3 & 15, (bits & 7).astype(np.float32)
    scale = np.where(
        exponent == 0, np.ldexp(mantissa, -9), np.ldexp(1 + mantissa / 8, exponent - 7)
    )
    # 0x7F stands for no number, and ggml reads it as 0.
    scale[(bits == 0) | (bits == 0x7F)] = 0
    codes = _E2M1[_nibbles(blocks[:, 4:].reshape(-1, 4, 8))]
    return Packed(codes, "i8", (scale / 2).astype(np.float32))


def _trits(data: Bytes, count: int) -> Bytes:
    """Numbers of base 3 out of bytes: the byte is a fraction of 256, its digits come first."""
    powers = 3 ** np.arange(count, dtype=np.uint8)
    digits = (data[:, np.newaxis, :] * powers[:, np.newaxis]).astype(np.uint16) * 3 >> 8
    return digits.astype(np.uint8).reshape(data.shape[0], -1)


def _tq1_0(blocks: Bytes) -> Packed:
    parts = [_trits(blocks[:, :32], 5), _trits(blocks[:, 32:48], 5), _trits(blocks[:, 48:52], 4)]
    return Packed(_signed(np.concatenate(parts, axis=-1), 1), "i4", _half(blocks, 52))


def _tq2_0(blocks: Bytes) -> Packed:
    codes = _planes(blocks[:, :64].reshape(-1, 2, 32), 2)
    return Packed(_signed(codes, 1), "i4", _half(blocks, 64))


def _of_grid(
    found: Callable[[Bytes], tuple[NDArray[np.int8], Any]],
) -> Callable[[Bytes], Packed]:
    def unpacked(blocks: Bytes) -> Packed:
        codes, scale = found(blocks)
        return Packed(codes, "i8", scale)

    return unpacked


def _q1_0(blocks: Bytes) -> Packed:
    bits = np.unpackbits(np.ascontiguousarray(blocks[:, 2:]), axis=-1, bitorder="little")
    return Packed(_signed(2 * bits, 1), "i4", _half(blocks, 0))


def _q2_0(blocks: Bytes) -> Packed:
    codes = blocks[:, 2:, np.newaxis] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
    return Packed(_signed(codes, 1), "i4", _half(blocks, 0))


#: The types that can be unpacked, by ggml's names.
UNPACKED: Final[Mapping[str, _BlockLayout]] = {
    "Q4_0": _BlockLayout(18, 32, "i4", _q4_0),
    "Q4_1": _BlockLayout(20, 32, "u4", _q4_1, has_offset=True),
    "Q5_0": _BlockLayout(22, 32, "i8", _q5_0),
    "Q5_1": _BlockLayout(24, 32, "u8", _q5_1, has_offset=True),
    "Q8_0": _BlockLayout(34, 32, "i8", _q8_0),
    "Q2_K": _BlockLayout(84, 16, "u4", _q2_k, has_offset=True),
    "Q3_K": _BlockLayout(110, 16, "i4", _q3_k),
    "Q4_K": _BlockLayout(144, 32, "u4", _q4_k, has_offset=True),
    "Q5_K": _BlockLayout(176, 32, "u8", _q5_k, has_offset=True),
    "Q6_K": _BlockLayout(210, 16, "i8", _q6_k),
    "IQ4_NL": _BlockLayout(18, 32, "i8", _iq4_nl),
    "IQ4_XS": _BlockLayout(136, 32, "i8", _iq4_xs),
    "MXFP4": _BlockLayout(17, 32, "i8", _mxfp4),
    "NVFP4": _BlockLayout(36, 16, "i8", _nvfp4),
    "IQ1_S": _BlockLayout(50, 32, "i8", _of_grid(iq_grids.iq1_s)),
    "IQ1_M": _BlockLayout(56, 16, "i8", _of_grid(iq_grids.iq1_m)),
    "IQ2_XXS": _BlockLayout(66, 32, "i8", _of_grid(iq_grids.iq2_xxs)),
    "IQ2_XS": _BlockLayout(74, 16, "i8", _of_grid(iq_grids.iq2_xs)),
    "IQ2_S": _BlockLayout(82, 16, "i8", _of_grid(iq_grids.iq2_s)),
    "IQ3_XXS": _BlockLayout(98, 32, "i8", _of_grid(iq_grids.iq3_xxs)),
    "IQ3_S": _BlockLayout(110, 32, "i8", _of_grid(iq_grids.iq3_s)),
    "Q1_0": _BlockLayout(18, 128, "i4", _q1_0),
    "Q2_0": _BlockLayout(18, 64, "i4", _q2_0),
    "TQ1_0": _BlockLayout(54, 256, "i4", _tq1_0),
    "TQ2_0": _BlockLayout(66, 256, "i4", _tq2_0),
}
_PLAIN: Final[Mapping[str, int]] = {"F32": 4, "F64": 4, "BF16": 2, "F16": 2}


def computable_types() -> list[str]:
    """Return the names of all types that can be unpacked, for errors and documents."""
    return [*_PLAIN, *UNPACKED]


def check_type(file: str, tensor: GgufTensor) -> None:
    """Check that a tensor's weights can be unpacked.

    Raises:
        ResourceError: they cannot; the text names the tensor and its type.
    """
    if tensor.type.name not in UNPACKED and tensor.type.name not in _PLAIN:
        raise ResourceError(
            f'"{file}": the tensor "{tensor.name}" is of the type {tensor.type.name}, which cannot '
            f"be computed; {', '.join(computable_types())} can"
        )


def stored_bytes(kind: str, weights: int, form: OffsetForm, *, is_large: bool = False) -> int:
    """Return the bytes of a matrix in an OpenVINO model.

    Args:
        is_large: it may have the narrow form of *scaled*; its further columns do not count.
    """
    layout = UNPACKED.get(kind)
    if layout is None:
        return _PLAIN[kind] * weights
    is_narrow = layout.kind in ("i4", "u4")
    of_group = 2 if form is OffsetForm.SCALED else 4
    if layout.has_offset and form is OffsetForm.SCALED:
        is_narrow &= is_large
    if layout.has_offset:
        of_group += 1 if form is OffsetForm.SCALED else 4
    return int(weights * (0.5 if is_narrow else 1) + weights // layout.group * of_group)


#: Products of more weights than this have the narrow form of *scaled*.
LARGE: Final = 1 << 19
#: Digits of what the rounding of an offset leaves.
REST_DIGITS: Final = 2


class MatrixForm(NamedTuple):
    """The common form of the parts of a matrix."""

    kind: Codes
    group: int
    zero: str  # "", "u8" or "f32"
    has_correction: bool = False
    has_rest: bool = False


def is_large(tensor: GgufTensor) -> bool:
    """Return True if a tensor has the narrow form of *scaled*, if its type has one.

    Joined parts of a product are large together, so half as much is enough for one of them.
    """
    name = tensor.name
    return name.startswith("blk.") and "_exps." not in name and tensor.weights > LARGE // 2


def rest_groups(groups: int, group: int) -> int:
    """Return how many groups of columns hold what the rounding of offsets leaves."""
    return REST_DIGITS * -(-groups // group)


def formed(packed: Packed, target: MatrixForm, form: OffsetForm) -> tuple[Packed, Any, Any]:
    """Return codes and scales in the target's form, zero points, and corrections."""
    if not target.zero:
        if not target.has_correction:
            return packed, None, None
        return _centred(packed)
    if target.has_rest:
        extended = with_rest(packed)
        return extended, extended.zero, None
    if packed.minus is None:
        # Signed codes beside ones that have offsets.
        middle = 8 if target.kind == "u4" else 128
        codes = (packed.codes.astype(np.int16) + middle).astype(np.uint8)
        factors = np.full(packed.scale.shape, middle)
        return Packed(codes, target.kind, packed.scale), factors, None
    if form is OffsetForm.SCALED:
        scaled = with_whole_zero(packed)
        return scaled, scaled.zero, None
    # A group whose scale is 0 is constant: (0 - 1) * minus.
    flat = packed.scale == 0
    codes = np.where(flat[..., np.newaxis], 0, packed.codes).astype(np.uint8)
    scale = np.where(flat, packed.minus, packed.scale)
    factors = np.where(flat, 1, packed.minus / np.where(flat, 1, packed.scale))
    return Packed(codes, target.kind, scale), factors, None


def _centred(packed: Packed) -> tuple[Packed, None, Floats]:
    """Return codes around 0, and what the sum of a group's inputs is multiplied by."""
    if packed.minus is None:
        return packed, None, np.zeros_like(packed.scale)
    middle = 8 if packed.kind == "u4" else 16
    codes = packed.codes.view(np.int8) - np.int8(middle)
    added = packed.scale * np.float32(middle) - packed.minus
    return Packed(codes, "i4" if packed.kind == "u4" else "i8", packed.scale), None, added


def with_rest(packed: Packed) -> Packed:
    """Return rows of 4-bit codes with offsets in the narrow form of *scaled*.

    Codes stay, zero points are whole, and what their rounding leaves of an offset is a number of
    two digits, whose codes are the columns after the others.
    """
    codes, scale = packed.codes, packed.scale
    if packed.minus is None:
        codes = (codes.astype(np.int16) + 8).astype(np.uint8)
        zero, rest = np.full(scale.shape, 8.0), np.zeros_like(scale)
    else:
        flat = scale == 0  # (0 - 1) * minus
        codes = np.where(flat[..., np.newaxis], 0, codes).astype(np.uint8)
        scale = np.where(flat, packed.minus, scale)
        ratio = packed.minus / np.where(scale == 0, 1, scale)
        zero = np.where(flat, 1, np.rint(ratio).clip(0, 255))
        rest = (zero * scale - packed.minus).astype(np.float32)
    rows, groups = rest.shape
    wide = -(-groups // packed.group)
    padded = np.zeros((rows, wide * packed.group), np.float32)
    padded[:, :groups] = rest
    left = padded.reshape(rows, wide, packed.group)
    all_codes, scales, zeros = [codes], [scale], [zero]
    step = np.abs(left).max(-1) / 7
    for _ in range(REST_DIGITS):
        digits = np.rint(left / np.where(step == 0, 1, step)[..., np.newaxis]).clip(-7, 7)
        left = left - digits * step[..., np.newaxis]
        all_codes.append((digits + 8).astype(np.uint8))
        scales.append(step)
        zeros.append(np.full(step.shape, 8.0))
        # A digit leaves half a step at most, and the next one has 7 steps on each side.
        step = step / 14
    return Packed(
        np.concatenate(all_codes, axis=1),
        "u4",
        np.concatenate(scales, axis=1).astype(np.float32),
        None,
        np.concatenate(zeros, axis=1).astype(np.uint8),
    )


def with_whole_zero(packed: Packed) -> Packed:
    """Return rows with offsets in the form *scaled*: 8 bits, and whole zero points.

    A code becomes ``k * code + c``. ``k`` is the multiple, of those that 8 bits have room for, with
    which the offset is nearest to a whole number. A group whose offset lies too far from its
    weights for any multiple has its weights rounded to 8 bits.
    """
    assert packed.minus is not None
    # The largest multiples with which all codes fit into 8 bits: 15 * 17, 31 * 8, 3 * 85.
    most = {"u4": 17, "u8": 8}[packed.kind]
    if packed.group == 16:  # Q2_K has codes of 2 bits
        most = 85
    flat = packed.scale == 0
    offset = packed.minus / np.where(flat, 1, packed.scale)
    low, high = packed.codes.min(-1).astype(np.float32), packed.codes.max(-1).astype(np.float32)
    best = np.full(offset.shape, np.inf, np.float32)
    multiple = np.zeros(offset.shape, np.float32)
    for k in range(most, 0, -1):
        # Twice a multiple is never farther from the offset. The lower half is for groups in which
        # no larger multiple fits.
        if k <= most // 2 and np.isfinite(best).all():
            break
        zero = np.rint(offset * k)
        error = np.abs(offset * k - zero) / k
        reach = np.maximum(high * k, zero) - np.minimum(low * k, zero)
        is_better = (error < best) & (reach <= 255)
        best = np.where(is_better, error, best)
        multiple = np.where(is_better, np.float32(k), multiple)
    zero = np.rint(offset * multiple)
    shift = np.maximum(-np.minimum(low * multiple, zero), 0)
    reach = np.maximum(high * multiple, zero) + shift
    shift = np.where(reach > 255, 255 - reach, shift)
    codes = packed.codes * multiple[..., np.newaxis] + shift[..., np.newaxis]
    zero = zero + shift
    scale = packed.scale / np.where(multiple == 0, 1, multiple)
    if flat.any():  # (0 - 1) * minus
        codes = np.where(flat[..., np.newaxis], 0, codes)
        scale, zero = np.where(flat, packed.minus, scale), np.where(flat, 1, zero)
    far = (multiple == 0) & ~flat
    if far.any():
        weights = packed.floats().reshape(packed.codes.shape)[far]
        lowest, highest = weights.min(-1).clip(max=0), weights.max(-1).clip(min=0)
        step = np.maximum((highest - lowest) / 255, np.finfo(np.float32).tiny)
        scale[far], zero[far] = step, np.rint(-lowest / step)
        codes[far] = np.clip(
            np.rint(weights / step[:, np.newaxis]) + zero[far][:, np.newaxis], 0, 255
        )
    return Packed(
        codes.astype(np.uint8), "u8", scale.astype(np.float32), None, zero.astype(np.uint8)
    )
