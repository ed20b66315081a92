"""A box in space from its nine points in an image.

Source: MediaPipe ``modules/objectron/calculators/epnp.cc`` and ``box.cc``; the method is "EPnP: An
Accurate O(n) Solution to the PnP Problem" (Lepetit, Moreno-Noguer, Fua, 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: The centre of a box, then its corners: the last axis changes quickest.
POINTS: Final = 9
_SIGNS: Final = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
#: Corners as sums of four control points: the centre, and the centres of three faces.
_WEIGHTS: Final = np.column_stack([1 - _SIGNS.sum(axis=1), _SIGNS])


@dataclass(frozen=True)
class BoxInSpace:
    """A box in front of the camera, which looks along -z; y is up.

    Attributes:
        points: (9, 3): its centre and its corners.
        rotation: (3, 3).
        translation: (3,).
        scale: (3,): its lengths.
    """

    points: Floats
    rotation: Floats
    translation: Floats
    scale: Floats


def box_in_space(
    points: Floats, focal: tuple[float, float], center: tuple[float, float]
) -> BoxInSpace:
    """Return the box whose corners are seen at these points. How large it is cannot be seen.

    Args:
        points: (9, 2): centre and corners, x and y in fractions of the image.
        focal: focal lengths along x and y, in halves of the image's sides.
        center: the principal point, from the image's middle, in halves of its sides.
    """
    seen = np.column_stack([points[1:, 0] * 2 - 1, 1 - points[1:, 1] * 2]) + np.array(center)
    rows = np.zeros((2, len(seen), 4, 3))
    for axis in range(2):
        rows[axis, :, :, axis] = focal[axis] * _WEIGHTS
        rows[axis, :, :, 2] = seen[:, axis, np.newaxis] * _WEIGHTS
    system = rows.transpose(1, 0, 2, 3).reshape(-1, 12)
    _, vectors = np.linalg.eigh(system.T @ system)
    control = vectors[:, 0].reshape(4, 3)
    if control[0, 2] > 0:
        control = -control
    return _fitted(np.vstack([control[:1], _WEIGHTS @ control]))


def _fitted(points: Floats) -> BoxInSpace:
    """The box that comes nearest to nine points."""
    corners = points[1:].reshape(2, 2, 2, 3)
    lengths = [np.linalg.norm(np.diff(corners, axis=axis), axis=-1).mean() for axis in range(3)]
    scale = np.array(lengths)
    own = np.vstack([np.zeros(3), _SIGNS * scale / 2])
    solution, *_ = np.linalg.lstsq(np.column_stack([own, np.ones(POINTS)]), points, rcond=None)
    return BoxInSpace(points, solution[:3].T, solution[3], scale)
