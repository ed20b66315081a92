"""Registration of the family's calculators and subgraphs."""

from __future__ import annotations

from typing import Final

from calculators.vision.calculators import CALCULATORS
from calculators.vision.subgraphs import register_subgraphs
from graph_runtime import Registry

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
