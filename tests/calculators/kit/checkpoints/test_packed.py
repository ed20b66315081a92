"""Blocks of each type are unpacked to the numbers that ggml computes."""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import pytest

from calculators.kit.checkpoints.gguf import TENSOR_TYPES
from calculators.kit.checkpoints.packed import (
    UNPACKED,
    OffsetForm,
    Packed,
    floats_of,
    stored_bytes,
    unpack,
    with_rest,
    with_whole_zero,
)
from tests.calculators.kit.checkpoints.tiny_models import blocks

#: Beginnings of SHA-256 of the weights in float32 that the package ``gguf`` (0.19) makes of 12 rows
#: of 256 weights, which `raw` makes.
HASHES = {
    "Q4_0": "da80f501069e5f27",
    "Q4_1": "54fad3e71300ac4b",
    "Q5_0": "1f421e28615f274d",
    "Q5_1": "766cfffece32e856",
    "Q8_0": "24e097502f6d4c38",
    "Q2_K": "7607e30e4558d270",
    "Q3_K": "9454cdb95aa8a2a8",
    "Q4_K": "d2c7f578737e6a39",
    "Q5_K": "9d2b461aff77107c",
    "Q6_K": "649b14c5b1073b60",
    "IQ4_NL": "bdbc4f1e23c9c7d2",
    "IQ4_XS": "e3121714a4b71b0f",
    "MXFP4": "af00084b5ee26074",
    "NVFP4": "0b8e50a185e61b3a",
    "IQ1_S": "67a8e43aeebf9c38",
    "IQ1_M": "b25ac708e6577f94",
    "IQ2_XXS": "26acaae3ae0744d1",
    "IQ2_XS": "8809ad2c90b31a56",
    "IQ2_S": "5638e2fe5f005d23",
    "IQ3_XXS": "b0135564b589061a",
    "IQ3_S": "24eac7c592d763cb",
    "TQ1_0": "8435c85b1bd5758e",
    "TQ2_0": "2cbb8668c1654301",
}


def raw(kind: str) -> np.ndarray:
    """Return rows of random blocks."""
    found = blocks(np.random.default_rng(5), kind, (12, 256)).data
    return found.reshape(12, -1)


@pytest.mark.parametrize("kind", HASHES)
def test_weights_are_the_numbers_of_ggml(kind: str) -> None:
    weights = np.ascontiguousarray(unpack(kind, raw(kind)).floats(), "<f4")
    assert np.isfinite(weights).all()
    assert weights.std() > 0
    # Zeros have no sign here.
    assert hashlib.sha256((weights + 0.0).tobytes()).hexdigest()[:16] == HASHES[kind]


def test_every_quantized_type_is_known() -> None:
    names = {each.name for each in TENSOR_TYPES.values() if each.weights > 1}
    # These two are for sums within ggml, and do not occur in files.
    assert names - set(UNPACKED) == {"Q8_1", "Q8_K"}
    assert set(UNPACKED) - set(HASHES) == {"Q1_0", "Q2_0"}


def test_types_of_one_and_two_bits_are_unpacked() -> None:
    block = np.zeros((1, 18), np.uint8)
    block[0, :3] = [*np.array([0.5], "<f2").view(np.uint8), 0b00000110]
    ones = unpack("Q1_0", block).floats()[0]
    assert ones[:4].tolist() == [-0.5, 0.5, 0.5, -0.5]
    assert unpack("Q2_0", block).floats()[0, :4].tolist() == [0.5, 0.0, -0.5, -0.5]


def test_floats_are_as_they_are() -> None:
    numbers = np.array([[1.5, -2.0, 0.25]])
    for kind, dtype in (("F32", "<f4"), ("F16", "<f2"), ("F64", "<f8")):
        found = floats_of(kind, numbers.astype(dtype).view(np.uint8))
        assert found is not None
        assert found.tolist() == numbers.tolist()
    upper = (numbers.astype("<f4").view("<u4") >> 16).astype("<u2").view(np.uint8)
    assert np.array_equal(floats_of("BF16", upper), numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "most"), [("u4", 15), ("u8", 31)])
def test_whole_zero_points_move_weights_by_hundredths_of_a_step(
    kind: Literal["u4", "u8"], most: int
) -> None:
    random = np.random.default_rng(6)
    codes = random.integers(0, most + 1, (64, 8, 32), dtype=np.uint8)
    scale = random.uniform(0.01, 0.02, (64, 8)).astype(np.float32)
    minus = (scale * random.uniform(0, most, (64, 8))).astype(np.float32)
    packed = Packed(codes, kind, scale, minus)
    moved = np.abs(with_whole_zero(packed).floats() - packed.floats()).reshape(codes.shape)
    steps = moved.max(-1) / scale
    assert steps.mean() < 0.02
    assert steps.max() < 0.14


def test_groups_of_one_value_and_far_offsets_stay_near() -> None:
    codes = np.tile(np.arange(16, dtype=np.uint8), (4, 1, 2))
    scale = np.array([[0.0], [1.0], [0.001], [1.0]], np.float32)
    minus = np.array([[-3.0], [1000.0], [-0.02], [-5.0]], np.float32)
    packed = Packed(codes, "u4", scale, minus)
    scaled = with_whole_zero(packed)
    assert scaled.floats()[0].tolist() == [3.0] * 32
    # An offset that is far from all weights costs precision: 255 steps reach from 0 to -1000.
    assert np.abs(scaled.floats()[1] - packed.floats()[1]).max() < 2
    assert np.abs(scaled.floats()[2] - packed.floats()[2]).max() < 1e-5
    assert np.array_equal(scaled.floats()[3], packed.floats()[3])


@pytest.mark.parametrize("groups", [3, 32])
def test_four_bits_with_offsets_are_rounded_by_little(groups: int) -> None:
    random = np.random.default_rng(groups)
    codes = random.integers(0, 16, (8, groups, 32), dtype=np.uint8)
    scale = random.uniform(0.5, 1, (8, groups)).astype(np.float32)
    minus = random.uniform(-3, 18, (8, groups)).astype(np.float32)
    scale[0, 0] = 0
    packed = Packed(codes, "u4", scale, minus)
    wide = with_rest(packed)
    assert wide.codes.max() < 16
    # Further columns are multiplied by the sums of groups.
    lead = groups * 32
    inputs = np.eye(lead, dtype=np.float32)
    sums = np.zeros((lead, -(-groups // 32) * 32), np.float32)
    sums[:, :groups] = inputs.reshape(lead, groups, 32).sum(-1)
    found = wide.floats() @ np.concatenate([inputs, sums, sums], 1).T
    off = np.abs(found - packed.floats())
    assert off.max() < 0.02


def test_bytes_of_forms_are_known_beforehand() -> None:
    assert stored_bytes("Q4_K", 1 << 20, OffsetForm.SCALED) == (1 << 20) + (1 << 15) * 3
    narrow = stored_bytes("Q4_K", 1 << 20, OffsetForm.SCALED, is_large=True)
    assert narrow == (1 << 19) + (1 << 15) * 3
    assert stored_bytes("Q4_K", 1 << 20, OffsetForm.SPLIT) == (1 << 19) + (1 << 15) * 8
    assert stored_bytes("Q6_K", 1 << 20, OffsetForm.SCALED) == (1 << 20) + (1 << 16) * 2
    assert stored_bytes("BF16", 1 << 20, OffsetForm.SPLIT) == 2 << 20
