"""`FixedOrderDetector`: detections of tensors whose order and coordinates no option changes."""

from __future__ import annotations

from typing import Any, ClassVar

from calculators.images.image.box_decoding import BoxDecoding
from calculators.images.image.detector_options import allowed_classes, check_detector_options
from calculators.images.image.detector_output import DetectorOutput, TensorOrder
from calculators.images.image.packet_types import TENSORS, list_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options


class FixedOrderDetector(Calculator):
    """The older forms of TensorsToDetectionsCalculator; a subclass has `options` and their name.

    Attributes:
        options: a node's options, of the message ``options_type``.
        is_filtered: ``ignore_classes`` count for finished boxes too, and boxes of NaN are left out.
    """

    options: ClassVar[Options[Any]]
    options_type: ClassVar[str]
    is_filtered: ClassVar[bool]

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["DETECTIONS"].set(list_of("Detection"))
        contract.input_side_packets["ANCHORS"].set(list_of("Anchor")).optional()
        check_detector_options(contract, contract.options(cls.options_type))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options, sides = self.options, cc.input_side_packets
        self._output = DetectorOutput(
            options=options,
            decoding=BoxDecoding.of(options, "XYWH" if options.reverse_output_order else "YXHW"),
            allowed=allowed_classes(options.num_classes, options.ignore_classes),
            order=TensorOrder(),
            corners=(0, 1, 2, 3),
            classes_per_box=1,
            max_results=-1,
            is_filtered=self.is_filtered,
            anchors=sides["ANCHORS"].value if sides.has_tag("ANCHORS") else None,
        )

    def process(self, cc: CalculatorContext) -> None:
        shard = cc.inputs["TENSORS"]
        if not shard.is_empty():
            cc.outputs["DETECTIONS"].add(self._output.detections(shard.value), cc.time)
