"""Registration of the family's calculators and subgraphs.

MediaPipe's library registers its subgraphs under the names of their texts, and so do these: each is
a text below ``graphs/``, named as the subgraph: ``graphs/pose/PoseLandmarkCpu.pbtxt``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from calculators.vision.drawing import RENDER_DATA_CALCULATORS
from calculators.vision.inference.inference_calculator import INFERENCE_CALCULATORS
from calculators.vision.inference.model_calculators import MODEL_CALCULATORS
from calculators.vision.iris import IRISES, ImageFilePropertiesCalculator
from calculators.vision.landmarks.projection_calculators import PROJECTIONS
from calculators.vision.landmarks.refinement_calculators import (
    REFINEMENTS,
    UpdateFaceLandmarksCalculator,
)
from calculators.vision.landmarks.scores_calculators import SCORE_CALCULATORS
from calculators.vision.landmarks.tensors_to_landmarks_calculator import TENSORS_TO_LANDMARKS
from calculators.vision.objectron import FRAME_ANNOTATIONS, FilterDetectionCalculator
from calculators.vision.pictures import PICTURE_CALCULATORS
from calculators.vision.region_tracking import (
    ASSOCIATIONS,
    HAS_MIN_SIZE,
    DetectionProjectionCalculator,
    RoiTrackingCalculator,
)
from calculators.vision.regions import (
    DETECTIONS_TO_RECTS,
    LANDMARKS_TO_RECTS,
    RectTransformationCalculator,
)
from calculators.vision.segmentation import SEGMENTATION
from calculators.vision.smoothing import LandmarksSmoothingCalculator, VisibilitySmoothingCalculator
from calculators.vision.tflite_calculators import TFLITE_CALCULATORS
from calculators.vision.video import VIDEOS
from graph_runtime import Calculator, Registry, SubgraphContext, parse_graph_text

CALCULATORS: Final[tuple[type[Calculator], ...]] = (
    *ASSOCIATIONS,
    DetectionProjectionCalculator,
    *DETECTIONS_TO_RECTS,
    FilterDetectionCalculator,
    *FRAME_ANNOTATIONS,
    *HAS_MIN_SIZE,
    ImageFilePropertiesCalculator,
    *INFERENCE_CALCULATORS,
    *IRISES,
    *LANDMARKS_TO_RECTS,
    LandmarksSmoothingCalculator,
    *MODEL_CALCULATORS,
    *PICTURE_CALCULATORS,
    *PROJECTIONS,
    RectTransformationCalculator,
    *REFINEMENTS,
    *RENDER_DATA_CALCULATORS,
    RoiTrackingCalculator,
    *SCORE_CALCULATORS,
    *SEGMENTATION,
    *TENSORS_TO_LANDMARKS,
    *TFLITE_CALCULATORS,
    UpdateFaceLandmarksCalculator,
    *VIDEOS,
    VisibilitySmoothingCalculator,
)


_FOLDER: Final = Path(__file__).parent / "graphs"


def register_subgraphs(registry: Registry) -> None:
    """Add the subgraphs to a registry. A text is read when a graph names it."""
    for name, make in _subgraphs().items():
        registry.register_subgraph(make, name)


@cache
def _subgraphs() -> dict[str, Callable[[SubgraphContext], Any]]:
    return {file.stem: _subgraph(file) for file in sorted(_FOLDER.glob("*/*.pbtxt"))}


def _subgraph(file: Path) -> Callable[[SubgraphContext], Any]:
    """A function that makes the graph in a file, which is parsed once."""

    @cache
    def parsed() -> Any:
        return parse_graph_text(file.read_text(), source=file.name)

    def make(context: SubgraphContext) -> Any:
        config = type(parsed())()
        config.CopyFrom(parsed())
        return config

    make.__doc__ = f"MediaPipe's subgraph {file.stem}."
    return make


#: Names in graphs of older versions of MediaPipe.
_FORMER_NAMES: Final = {
    "FaceDetectionFront": "FaceDetectionShortRange",
    "FaceDetectionFrontCpu": "FaceDetectionShortRangeCpu",
    "FaceDetectionFrontImage": "FaceDetectionShortRangeImage",
    "FaceDetectionBack": "FaceDetectionFullRange",
    "FaceDetectionBackCpu": "FaceDetectionFullRangeCpu",
    "FaceDetectionBackImage": "FaceDetectionFullRangeImage",
}


def register_all(registry: Registry) -> None:
    """Add all calculators and subgraphs to a registry."""
    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
    register_subgraphs(registry)
    for name, present in _FORMER_NAMES.items():
        registry.register_former_name(name, present)
