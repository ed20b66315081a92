"""MediaPipe's solutions: faces, hands, poses, segmentation, as graphs and as Python classes.

The names and behaviour of the calculators are MediaPipe's; its TFLite models run on OpenVINO.
Landmarks in packets are `calculators.vision.landmarks.landmarks.Landmarks`, arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calculators.vision.drawing import drawn
    from calculators.vision.solutions import (
        FaceDetection,
        FaceMesh,
        Hands,
        Holistic,
        Pose,
        SelfieSegmentation,
    )
    from graph_runtime import Registry

__all__ = ["FaceDetection", "FaceMesh", "Hands", "Holistic", "Pose", "SelfieSegmentation", "drawn"]


def register(registry: Registry) -> None:
    """Add the family's calculators and subgraphs to a registry."""
    from calculators.vision.registration import register_all

    register_all(registry)


def __getattr__(name: str) -> object:
    """Return a class, or `drawn`. They are imported when the first one is named."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "drawn":
        from calculators.vision.drawing import drawn

        return drawn
    from calculators.vision import solutions

    return getattr(solutions, name)
