"""HasMinSize calculators: whether a list has enough elements."""

from __future__ import annotations

from typing import Final

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.CollectionHasMinSizeCalculatorOptions"


class CollectionHasMinSizeCalculator(Calculator):
    """Sends whether each list has at least this many elements.

    Under the names NormalizedRectVectorHasMinSizeCalculator,
    NormalizedLandmarkListVectorHasMinSizeCalculator, ClassificationListVectorHasMinSizeCalculator
    and DetectionVectorHasMinSizeCalculator.

    Inputs: ITERABLE: a list.
    Outputs: #0 (bool).
    Input side packets: #0 (int, optional): in place of the option.
    Options (mediapipe.CollectionHasMinSizeCalculatorOptions): min_size, default 0.

    ::

        node {
          calculator: "NormalizedRectVectorHasMinSizeCalculator"
          input_stream: "ITERABLE:rects"
          output_stream: "has_enough_rects"
          options { [mediapipe.CollectionHasMinSizeCalculatorOptions.ext] { min_size: 2 } }
        }

    Source: MediaPipe ``calculators/util/collection_has_min_size_calculator.h``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["ITERABLE"].set(list)
        contract.outputs[0].set(bool)
        contract.input_side_packets[0].set(int).optional()
        size = contract.options(_OPTIONS).min_size
        contract.require(size >= 0, f"min_size is at least 0, not {size}")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        side = cc.input_side_packets.get(0)
        self._size: int = self.options.min_size if side is None else side.value

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["ITERABLE"].is_empty():
            cc.outputs[0].add(len(cc.inputs["ITERABLE"].value) >= self._size, cc.time)


_NAMES: Final = (
    "ClassificationListVectorHasMinSizeCalculator",
    "DetectionVectorHasMinSizeCalculator",
    "NormalizedLandmarkListVectorHasMinSizeCalculator",
    "NormalizedRectVectorHasMinSizeCalculator",
)

HAS_MIN_SIZE: tuple[type[Calculator], ...] = tuple(
    type(
        name,
        (CollectionHasMinSizeCalculator,),
        {"__doc__": CollectionHasMinSizeCalculator.__doc__, "__module__": __name__},
    )
    for name in _NAMES
)
