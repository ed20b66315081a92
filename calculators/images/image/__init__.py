"""Images as packets, and calculators that turn them into tensors, boxes, labels and back.

Names and behaviour follow MediaPipe's image, tensor and util calculators, and those
that OpenVINO adds, on the CPU. An image in a packet is an `ImageFrame`, tensors are lists of
`numpy.ndarray`, detections are the protobuf messages ``mediapipe.Detection``, and so on.
OpenCV is imported when the first image needs it; the extra ``images`` installs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators to a registry."""
    from calculators.images.image.calculators import CALCULATORS

    for calculator in CALCULATORS:
        registry.register_calculator(calculator)
