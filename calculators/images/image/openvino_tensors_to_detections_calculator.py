"""OpenVINOTensorsToDetectionsCalculator: a detector's tensors as detections, for OpenVINO."""

from __future__ import annotations

from calculators.images.image.fixed_order_detector import FixedOrderDetector
from graph_runtime import Options

_OPTIONS = "mediapipe.OpenVINOTensorsToDetectionsCalculatorOptions"


class OpenVINOTensorsToDetectionsCalculator(FixedOrderDetector):
    """Makes detections of the tensors of a model of the SSD kind.

    It is an older TensorsToDetectionsCalculator: ``ignore_classes`` count for raw boxes only, and
    boxes whose numbers are NaN stay.

    Inputs: TENSORS (list of numpy.ndarray): float32: raw boxes (1, num_boxes, num_coords) and
        scores (1, num_boxes, num_classes), and maybe anchors (num_boxes, 4); or finished boxes
        (1, n, num_coords), classes (1, n), scores (1, n) and how many of them count (1).
    Outputs: DETECTIONS (list of mediapipe.Detection): boxes in fractions of the image; of a raw
        box only the class with the highest score.
    Input side packets: ANCHORS (list of mediapipe.Anchor, optional).
    Options (mediapipe.OpenVINOTensorsToDetectionsCalculatorOptions):
        num_classes, num_boxes, num_coords: of the model.
        x_scale, y_scale, w_scale, h_scale: by which raw numbers are divided.
        apply_exponential_on_box_size: raw widths and heights are logarithms.
        reverse_output_order: raw boxes are x, y, width, height rather than y, x, height, width.
        box_coord_offset, num_keypoints, keypoint_coord_offset: where in a box's numbers they are.
        sigmoid_score, score_clipping_thresh: raw scores become probabilities.
        ignore_classes: classes that do not count.
        min_score_thresh: boxes with a lower score are left out.
        flip_vertically: the origin of detections is at the bottom left.

    ::

        node {
          calculator: "OpenVINOTensorsToDetectionsCalculator"
          input_stream: "TENSORS:tensors"
          input_side_packet: "ANCHORS:anchors"
          output_stream: "DETECTIONS:detections"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOTensorsToDetectionsCalculatorOptions] {
              num_classes: 91
              num_boxes: 2034
              num_coords: 4
              ignore_classes: 0
              apply_exponential_on_box_size: true
              x_scale: 10.0
              y_scale: 10.0
              h_scale: 5.0
              w_scale: 5.0
            }
          }
        }

    Source: OpenVINO's fork of MediaPipe,
    ``calculators/tensors/openvino/openvino_tensors_to_detections_calculator.cc``.
    """

    options = Options(_OPTIONS)
    options_type = _OPTIONS
    is_filtered = False
