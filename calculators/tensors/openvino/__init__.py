"""Models that OpenVINO runs, as nodes: a session names a model, inference sends tensors through it.

A tensor in a packet is a `numpy.ndarray`. OpenVINO itself is imported when the first model is
loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators to a registry."""
    from calculators.tensors.openvino.demultiplexing import (
        DemultiplyTensorsCalculator,
        GatherTensorsCalculator,
    )
    from calculators.tensors.openvino.openvino_inference_calculator import (
        OpenVINOInferenceCalculator,
    )
    from calculators.tensors.openvino.openvino_model_server_session_calculator import (
        OpenVINOModelServerSessionCalculator,
    )

    registry.register_calculator(OpenVINOInferenceCalculator)
    registry.register_calculator(OpenVINOModelServerSessionCalculator)
    registry.register_calculator(DemultiplyTensorsCalculator)
    registry.register_calculator(GatherTensorsCalculator)
