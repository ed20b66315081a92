"""MediaPipe's solutions: faces, hands, poses, segmentation, as graphs and as Python classes.

The names and behaviour of the calculators are MediaPipe's; its TFLite models run on OpenVINO.
Landmarks in packets are `calculators.vision.landmarks.landmarks.Landmarks`, arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators and subgraphs to a registry."""
    from calculators.vision.calculators import CALCULATORS
    from calculators.vision.subgraphs import register_subgraphs

    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
    register_subgraphs(registry)
