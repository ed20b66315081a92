"""The node that puts a solution's results of one image together."""

from __future__ import annotations

from calculators.images.image.image_frame import ImageFrame
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class SolutionResultsCalculator(Calculator):
    """Sends one list per image as soon as every result of it is there or will not come.

    Inputs:
        TICK (ImageFrame): the images.
        #i: results, of any type.
    Outputs: RESULTS (list): per input, the value, or None without a packet.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TICK"].set(ImageFrame)
        for index in range(contract.inputs.num_entries("")):
            contract.inputs[index].set_any()
        contract.outputs["RESULTS"].set(list)

    def process(self, cc: CalculatorContext) -> None:
        shards = cc.inputs.all_of("")
        found = [None if shard.is_empty() else shard.value for shard in shards]
        cc.outputs["RESULTS"].add(found, cc.time)
