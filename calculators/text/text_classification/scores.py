"""Conversion of a model's outputs to scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.text.text_classification.options import ScoreFunction

Floats: TypeAlias = NDArray[np.float32]

#: e to the power of this is near the largest 32-bit float.
_LARGEST: Final = 80.0


def apply(function: ScoreFunction, outputs: Floats) -> Floats:
    """Return scores of the same shape, ``[windows, classes]``. ``function``: not AUTO."""
    scores: NDArray[np.floating[Any]] = outputs
    if function is ScoreFunction.SIGMOID:
        scores = 1 / (1 + np.exp(-np.clip(outputs, -_LARGEST, _LARGEST)))
    elif function is ScoreFunction.SOFTMAX:
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
    return np.asarray(scores, np.float32)


def mean_of_windows(scores: Floats, windows: Sequence[int]) -> Floats:
    """Return the mean over the windows of each text, ``[texts, classes]``."""
    starts = _starts(windows)
    total = np.add.reduceat(scores, starts, axis=0)
    return np.asarray(total / np.asarray(windows, np.float32)[:, np.newaxis], np.float32)


def highest_of_windows(scores: Floats, windows: Sequence[int]) -> Floats:
    """Return the highest score over the windows of each text, ``[texts, classes]``."""
    highest: Floats = np.maximum.reduceat(scores, _starts(windows), axis=0)
    return highest


def _starts(windows: Sequence[int]) -> NDArray[np.int64]:
    """Return the first row of each text. Every text has at least one window."""
    return np.concatenate([[0], np.cumsum(windows)[:-1]]).astype(np.int64)
