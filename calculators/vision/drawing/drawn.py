"""`drawn`: the results of a solution on the image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.drawing import Drawing
from calculators.vision.drawing.connections import FACE, HAND, IRISES, POSE, Connections
from calculators.vision.drawing.landmark_annotations import (
    LandmarkStyle,
    annotate,
    new_render_data,
)
from calculators.vision.landmarks.landmarks import Landmarks

Image = npt.NDArray[np.uint8]

_WHITE: Final = (255, 255, 255)
_POINTS: Final = LandmarkStyle(
    landmark_color=(255, 70, 40),
    connection_color=_WHITE,
    thickness=2.0,
    shows_depth=False,
    min_visibility=0.5,
)
_LINES: Final = LandmarkStyle(
    connection_color=(90, 230, 200), thickness=1.0, shows_depth=False, draws_points=False
)
#: By the number of landmarks.
_STYLES: Final[Mapping[int, tuple[Connections, LandmarkStyle]]] = {
    21: (HAND, _POINTS),
    33: (POSE, _POINTS),
    468: (FACE, _LINES),
    478: (FACE + IRISES, _LINES),
}
#: The part of an image's color that stays where no person is.
_BACKGROUND: Final = 0.35


def drawn(image: Image, result: tuple[Any, ...]) -> Image:
    """Return a copy of an image with what a solution has found in it.

    Landmarks are points and lines, faces of `FaceDetection` boxes, and where there is a mask the
    background is dark.

    Args:
        image: (height, width, 3) of uint8, RGB: the one that the solution has processed.
        result: of its ``process``.
    """
    canvas = image.copy()
    mask = getattr(result, "segmentation_mask", None)
    if mask is not None:
        weight = _BACKGROUND + (1 - _BACKGROUND) * mask[:, :, np.newaxis]
        canvas = (canvas * weight).astype(np.uint8)
    found = new_render_data()
    landmarks = [each for each in _parts(result) if isinstance(each, Landmarks)]
    for each in landmarks:
        lines, style = _STYLES.get(len(each), ((), _POINTS))
        if each.is_normalized:
            annotate(found, each, lines, style, scale=max(image.shape[0] / 480, 1))
    if not landmarks:
        for detection in getattr(result, "detections", None) or ():
            _add_detection(found, detection)
    Drawing(canvas, flips_text=False).draw(found)
    return canvas


def _parts(result: Iterable[Any]) -> Iterable[Any]:
    for value in result:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def _add_detection(render_data: Any, detection: Any) -> None:
    location = detection.location_data
    box = location.relative_bounding_box
    annotation = render_data.render_annotations.add(thickness=2)
    rectangle = annotation.rectangle
    rectangle.left, rectangle.top, rectangle.normalized = box.xmin, box.ymin, True
    rectangle.right, rectangle.bottom = box.xmin + box.width, box.ymin + box.height
    _set_white(annotation.color)
    for keypoint in location.relative_keypoints:
        annotation = render_data.render_annotations.add(thickness=2)
        point = annotation.point
        point.x, point.y, point.normalized = keypoint.x, keypoint.y, True
        color = annotation.color
        color.r, color.g, color.b = _POINTS.landmark_color


def _set_white(color: Any) -> None:
    color.r, color.g, color.b = _WHITE
