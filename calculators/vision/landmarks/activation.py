"""Activations of a model's raw numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def sigmoid(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return 1 / (1 + exp(-x)) in float32; large negative numbers give 0 without a warning."""
    with np.errstate(over="ignore"):
        exponential = np.exp(-values.astype(np.float32, copy=False))
    found: npt.NDArray[np.float32] = np.reciprocal(exponential + np.float32(1))
    return found
