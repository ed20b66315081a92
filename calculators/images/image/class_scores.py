"""mediapipe.ClassificationList messages from a tensor of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_error import ImageError
from calculators.images.image.label_map import Label
from calculators.images.image.packet_types import message

Floats = npt.NDArray[np.float32]


def only_tensor(tensors: list[Any]) -> Floats:
    """The one tensor of a classifier.

    Raises:
        ImageError: there is not exactly one, or its elements are not float32.
    """
    if len(tensors) != 1:
        raise ImageError(f"a classifier has one tensor, the scores; there are {len(tensors)}")
    tensor: npt.NDArray[Any] = tensors[0]
    if tensor.dtype != np.float32:
        raise ImageError(
            f"the tensor with the scores has elements of type {tensor.dtype}; float32 is expected"
        )
    return tensor


def classification_list(
    scores: Floats,
    labels: Mapping[int, Label],
    *,
    is_binary: bool,
    threshold: float | None,
    is_allowed: Callable[[int], bool],
    top_k: int,
    is_sorted: bool,
) -> Any:
    """The classes with their scores.

    Args:
        scores: one per class, or with ``is_binary`` the probability of the first of two.
        labels: by class; empty for none.
        threshold: classes with a lower score are left out, unless ``is_binary``.
        is_allowed: one truth value per class, ignored with ``is_binary``.
        top_k: keep only that many classes with the highest scores, sorted; 0 or less keeps all.
        is_sorted: sort by score, the highest first.

    Raises:
        ImageError: the number of scores is not that of the labels, or not 1 with ``is_binary``.
    """
    if is_binary:
        if len(scores) != 1:
            raise ImageError(f"binary_classification needs a tensor of 1 score, not {len(scores)}")
        scores = np.array([scores[0], 1 - scores[0]], np.float32)
    if labels and sorted(labels) != list(range(len(scores))):
        raise ImageError(
            f"the model has {len(scores)} classes, and there are {len(labels)} labels; each class "
            f"needs one, with ids from 0 on"
        )
    kept = [
        number
        for number, score in enumerate(scores)
        if is_binary
        or (is_allowed(number) and not (threshold is not None and score < np.float32(threshold)))
    ]
    if is_sorted or top_k > 0:
        kept.sort(key=lambda number: -scores[number])
    found = message("ClassificationList")()
    for number in kept[: top_k if top_k > 0 else None]:
        entry = found.classification.add(index=number, score=float(scores[number]))
        if labels:
            label = labels[number]
            entry.label = label.name
            if label.display_name is not None:
                entry.display_name = label.display_name
    return found
