"""BeginLoop calculators: the items of a list as packets of a loop."""

from __future__ import annotations

from typing import Any

from calculators.core.element_types import VectorCalculator, variants
from graph_runtime import CalculatorContext, CalculatorContract, Timestamp


class BeginLoopCalculator(VectorCalculator):
    """Sends the elements of each list one by one, for an EndLoop calculator to collect again.

    Inside the loop time is the loop's own: 0, 1, 2 ..., one tick per element. A timestamp without
    a list, or with an empty one, takes one tick too, in which no element comes.

    Inputs:
        ITERABLE: list of the variant's element type.
        CLONE:i (optional): of any type; repeated at each element of the same timestamp.
        TICK (optional): of any type; wakes the node up. Timestamp bounds do that by themselves.
    Outputs:
        ITEM: the elements, at loop time.
        CLONE:i: one per CLONE input.
        BATCH_END (Timestamp): at the last element's tick, the timestamp of the list.
    Options: none.

    Variants check the element type: BeginLoopIntCalculator, BeginLoopFloatCalculator,
    BeginLoopStringCalculator and so on. BeginLoopCalculator takes lists of anything.

    ::

        node {
          calculator: "BeginLoopStringCalculator"
          input_stream: "ITERABLE:words"
          input_stream: "CLONE:language"
          output_stream: "ITEM:word"
          output_stream: "CLONE:language_of_word"
          output_stream: "BATCH_END:words_end"
        }

    Source: MediaPipe ``calculators/core/begin_loop_calculator.h``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        inputs["TICK"].set_any().optional()
        inputs["ITERABLE"].set(cls.list_type())
        outputs["ITEM"].set(cls.element_type)
        outputs["BATCH_END"].set(Timestamp)
        count = inputs.num_entries("CLONE")
        contract.require(
            outputs.num_entries("CLONE") == count,
            f"there are {count} CLONE inputs and {outputs.num_entries('CLONE')} CLONE outputs; "
            "their numbers must match",
        )
        for index in range(count):
            outputs["CLONE", index].set_same_as(inputs["CLONE", index].set_any())
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self._clock = 0

    def process(self, cc: CalculatorContext) -> None:
        iterable = cc.inputs["ITERABLE"]
        items: list[Any] = [] if iterable.is_empty() else iterable.value
        clones = [
            (shard.packet, cc.outputs["CLONE", index])
            for index, shard in enumerate(cc.inputs.all_of("CLONE"))
            if not shard.is_empty()
        ]
        for item in items:
            cc.outputs["ITEM"].add(item, self._clock)
            for packet, output in clones:
                output.add_packet(packet.at(self._clock))
            self._clock += 1
        if not items:
            self._clock += 1
            for output in cc.output_list:
                output.set_next_timestamp_bound(self._clock)
        cc.outputs["BATCH_END"].add(cc.input_timestamp, self._clock - 1)


BEGIN_LOOPS = variants(
    BeginLoopCalculator,
    {
        "BeginLoopIntCalculator": int,
        "BeginLoopUint64tCalculator": int,
        "BeginLoopFloatCalculator": float,
        "BeginLoopStringCalculator": str,
        "BeginLoopDetectionCalculator": Any,
        "BeginLoopImageCalculator": Any,
        "BeginLoopImageFrameCalculator": Any,
        "BeginLoopMatrixCalculator": Any,
        "BeginLoopMatrixVectorCalculator": list[Any],
        "BeginLoopNormalizedLandmarkListVectorCalculator": Any,
        "BeginLoopNormalizedRectCalculator": Any,
        "BeginLoopTensorCalculator": Any,
    },
)
