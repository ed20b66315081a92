"""Landmarks as annotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.vision.landmarks.landmarks import PRESENCE, VISIBILITY, Landmarks, Z
from calculators.vision.messages import message_type
from calculators.vision.rects.rect_ports import SMALLEST

Color = tuple[int, int, int]

#: Depths that differ by less are none.
_SMALLEST_DEPTH: Final = 1e-3


@dataclass(frozen=True)
class LandmarkStyle:
    """The look of landmarks: mediapipe.LandmarksToRenderDataCalculatorOptions as values.

    Attributes:
        landmark_color, connection_color: RGB.
        thickness: of lines, and radius of points, in pixels.
        shows_depth: nearer points are larger, nearer ends of lines darker.
        min_visibility, min_presence: landmarks below are left out; None: all are drawn.
        circles: radius of the farthest and of the nearest point.
        near, far: colors of the nearest and of the farthest end of a line.
        draws_points: draw points too, and not only lines.
    """

    landmark_color: Color = (0, 0, 0)
    connection_color: Color = (0, 0, 0)
    thickness: float = 1.0
    shows_depth: bool = True
    min_visibility: float | None = None
    min_presence: float | None = None
    circles: tuple[float, float] = (0.0, 18.0)
    near: Color = (0, 0, 0)
    far: Color = (255, 255, 255)
    draws_points: bool = True


def annotate(
    render_data: Any,
    landmarks: Landmarks,
    connections: Iterable[Sequence[int]],
    style: LandmarkStyle,
    *,
    scale: float = 1.0,
) -> None:
    """Add landmarks and the lines between them to a mediapipe.RenderData."""
    thickness = style.thickness * scale
    visible = _visible(landmarks, style)
    depth = _depth(landmarks) if style.shows_depth else None
    points = landmarks.values[:, :2].tolist()
    is_normalized = landmarks.is_normalized
    for first, second in connections:
        if max(first, second) >= len(points) or not (visible[first] and visible[second]):
            continue
        annotation = render_data.render_annotations.add(thickness=thickness)
        line = annotation.line if depth is None else annotation.gradient_line
        line.x_start, line.y_start = points[first]
        line.x_end, line.y_end = points[second]
        line.normalized = is_normalized
        if depth is None:
            _set_color(annotation.color, style.connection_color)
        else:
            _set_color(line.color1, _mixed(style.near, style.far, float(depth[first])))
            _set_color(line.color2, _mixed(style.near, style.far, float(depth[second])))
    if style.draws_points:
        _add_points(render_data, landmarks, visible, depth, style, thickness)


def _add_points(
    render_data: Any,
    landmarks: Landmarks,
    visible: npt.NDArray[np.bool_],
    depth: npt.NDArray[np.float64] | None,
    style: LandmarkStyle,
    thickness: float,
) -> None:
    smallest, largest = style.circles
    for place, (x, y) in enumerate(landmarks.values[:, :2].tolist()):
        if not visible[place]:
            continue
        annotation = render_data.render_annotations.add(thickness=thickness)
        point = annotation.point
        point.x, point.y, point.normalized = x, y, landmarks.is_normalized
        if depth is None:
            _set_color(annotation.color, style.landmark_color)
        else:
            part = float(depth[place])
            gray = 255 - int(255 * part)
            annotation.thickness = int(smallest + (1 - part) * (largest - smallest))
            _set_color(annotation.color, (gray, gray, gray))


def _visible(landmarks: Landmarks, style: LandmarkStyle) -> npt.NDArray[np.bool_]:
    found = np.ones(len(landmarks), np.bool_)
    if style.min_visibility is not None and landmarks.has_visibility:
        found &= landmarks.values[:, VISIBILITY] >= style.min_visibility
    if style.min_presence is not None and landmarks.has_presence:
        found &= landmarks.values[:, PRESENCE] >= style.min_presence
    return found


def _depth(landmarks: Landmarks) -> npt.NDArray[np.float64] | None:
    """Return depths (n,) from 0, the nearest, to 1; None if all are equally far."""
    z = landmarks.values[:, Z].astype(np.float64)
    if not len(z):
        return None
    low, high = float(z.min()), max(float(z.max()), SMALLEST)
    if not high - low > _SMALLEST_DEPTH:
        return None
    found: npt.NDArray[np.float64] = (z - low) / (high - low + 1e-6)
    return found


def _mixed(near: Color, far: Color, part: float) -> Color:
    red, green, blue = (int(a * part + b * (1 - part)) for a, b in zip(near, far, strict=True))
    return red, green, blue


def _set_color(color: Any, value: Color) -> None:
    color.r, color.g, color.b = value


def new_render_data() -> Any:
    """Make an empty mediapipe.RenderData."""
    return message_type("RenderData")()
