"""Codes, scales and zero points of the forms in which weights with offsets are computed.

``weights.py`` says what the forms are for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from calculators.kit.checkpoints.gguf import Tensor
from calculators.kit.checkpoints.packed import Codes, Floats, Form, Packed

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


def is_large(tensor: Tensor) -> bool:
    """True if a tensor has the narrow form of *scaled*, if its type has one.

    Joined parts of a product are large together, so half as much is enough for one of them.
    """
    name = tensor.name
    return name.startswith("blk.") and "_exps." not in name and tensor.weights > LARGE // 2


def rest_groups(groups: int, group: int) -> int:
    """Return how many groups of columns hold what the rounding of offsets leaves."""
    return REST_DIGITS * -(-groups // group)


def formed(packed: Packed, target: MatrixForm, form: Form) -> tuple[Packed, Any, Any]:
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
    if form is Form.SCALED:
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
    two digits, whose codes are the columns behind the others.
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
    most = {"u4": 17, "u8": 8}[packed.kind]
    if packed.group == 16:  # Q2_K has codes of 2 bits
        most = 85
    flat = packed.scale == 0
    offset = packed.minus / np.where(flat, 1, packed.scale)
    low, high = packed.codes.min(-1).astype(np.float32), packed.codes.max(-1).astype(np.float32)
    best = np.full(offset.shape, np.inf, np.float32)
    multiple = np.zeros(offset.shape, np.float32)
    for k in range(most, 0, -1):
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
