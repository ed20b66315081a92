"""TfLiteTensorsToDetectionsCalculator: a detector's tensors as detections, in old graphs."""

from __future__ import annotations

from calculators.images.image.fixed_order_detector import FixedOrderDetector
from graph_runtime import Options

_OPTIONS = "mediapipe.TfLiteTensorsToDetectionsCalculatorOptions"


class TfLiteTensorsToDetectionsCalculator(FixedOrderDetector):
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
    options_type = _OPTIONS
    is_filtered = True
