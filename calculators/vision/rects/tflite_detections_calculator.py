"""TfLiteTensorsToDetectionsCalculator: a detector's tensors as detections, in old graphs."""

from __future__ import annotations

from calculators.image.box_decoding import BoxDecoding
from calculators.image.detector_options import allowed_classes, check_detector_options
from calculators.image.detector_output import DetectorOutput, TensorOrder
from calculators.image.packet_types import TENSORS
from calculators.vision.messages import list_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.TfLiteTensorsToDetectionsCalculatorOptions"


class TfLiteTensorsToDetectionsCalculator(Calculator):
    """Makes detections of the tensors of a model, as `TensorsToDetectionsCalculator`.

    Inputs: TENSORS (list of numpy.ndarray): float32: raw boxes, scores and perhaps anchors; or
        finished boxes, classes, scores and their number.
    Outputs: DETECTIONS (list of mediapipe.Detection).
    Input side packets: ANCHORS (list of mediapipe.Anchor, optional).
    Options (mediapipe.TfLiteTensorsToDetectionsCalculatorOptions): as those of
        TensorsToDetectionsCalculator, without box_format, allow_classes and the orders of tensors.

    ::

        node {
          calculator: "TfLiteTensorsToDetectionsCalculator"
          input_stream: "TENSORS:tensors"
          input_side_packet: "ANCHORS:anchors"
          output_stream: "DETECTIONS:detections"
          options {
            [mediapipe.TfLiteTensorsToDetectionsCalculatorOptions.ext] {
              num_classes: 91
              num_boxes: 2034
              num_coords: 4
              x_scale: 10.0
              y_scale: 10.0
              h_scale: 5.0
              w_scale: 5.0
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_tensors_to_detections_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["DETECTIONS"].set(list_of("Detection"))
        contract.input_side_packets["ANCHORS"].set(list_of("Anchor")).optional()
        check_detector_options(contract, contract.options(_OPTIONS))
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
            is_filtered=True,
            anchors=sides["ANCHORS"].value if sides.has_tag("ANCHORS") else None,
        )

    def process(self, cc: CalculatorContext) -> None:
        shard = cc.inputs["TENSORS"]
        if not shard.is_empty():
            cc.outputs["DETECTIONS"].add(self._output.detections(shard.value), cc.time)
