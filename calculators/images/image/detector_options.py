"""Options that both calculators that turn tensors into detections share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from graph_runtime import CalculatorContract


def check_detector_options(contract: CalculatorContract, options: Any) -> None:
    """Refuse the options that MediaPipe refuses, and offsets beyond a box's numbers."""
    for name in ("num_classes", "num_coords"):
        contract.require(
            getattr(options, name) > 0, f"{name} is required: a number above 0, as of the model"
        )
    contract.require(
        options.num_values_per_keypoint == 2,
        f"num_values_per_keypoint can only be 2, not {options.num_values_per_keypoint}",
    )
    numbers = 4 + 2 * options.num_keypoints
    contract.require(
        numbers == options.num_coords,
        f"num_coords is 4 and 2 for each of num_keypoints, {numbers}, not {options.num_coords}",
    )
    ends = {"box_coord_offset": 4, "keypoint_coord_offset": 2 * options.num_keypoints}
    for name, length in ends.items():
        start = getattr(options, name)
        contract.require(
            0 <= start <= options.num_coords - length,
            f"{name} is {start}; it has to leave room for {length} of {options.num_coords} numbers",
        )


def allowed_classes(
    count: int, ignored: Collection[int], only: Collection[int] = ()
) -> npt.NDArray[np.bool_]:
    """Return (count,) truth values: classes in ``only`` or, if it is empty, not in ``ignored``."""
    classes = np.arange(count)
    if only:
        return np.isin(classes, list(only))
    return ~np.isin(classes, list(ignored))
