"""VectorIndices calculators: the places of a list."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract


class VectorIndicesCalculator(VectorCalculator):
    """Sends, for each list, the list 0, 1, ... of its places: for a loop over them.

    Inputs: VECTOR: list of the variant's element type.
    Outputs: INDICES (list[int]).
    Options: none.

    Variants: IntVectorIndicesCalculator, Uint64tVectorIndicesCalculator,
    NormalizedLandmarkListVectorIndicesCalculator. VectorIndicesCalculator takes lists of anything.

    ::

        node {
          calculator: "IntVectorIndicesCalculator"
          input_stream: "VECTOR:tokens"
          output_stream: "INDICES:places"
        }

    Source: MediaPipe ``calculators/core/vector_indices_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["VECTOR"].set(cls.list_type())
        contract.outputs["INDICES"].set(list[int])
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["VECTOR"].is_empty():
            places = list(range(len(cc.inputs["VECTOR"].value)))
            cc.outputs["INDICES"].add(places, cc.input_timestamp)


VECTOR_INDICES = variants(
    VectorIndicesCalculator,
    {
        "IntVectorIndicesCalculator": int,
        "Uint64tVectorIndicesCalculator": int,
        "NormalizedLandmarkListVectorIndicesCalculator": Any,
    },
)
