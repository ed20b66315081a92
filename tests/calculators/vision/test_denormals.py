"""Denormal numbers while a model computes."""

from __future__ import annotations

import platform
import sys

import numpy as np
import pytest

from calculators.vision.inference.compiled_model import denormals_are_zeros


def half_of_the_smallest() -> float:
    return float(np.full(64, np.finfo(np.float32).tiny, np.float32)[0] * np.float32(0.5))


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the processor's mode is set on x86-64 only",
)
def test_denormals_are_zeros_inside_only_also_after_an_error() -> None:
    found = []

    def fail() -> None:
        with denormals_are_zeros():
            found.append(half_of_the_smallest())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert found == [0]
    assert half_of_the_smallest() > 0
