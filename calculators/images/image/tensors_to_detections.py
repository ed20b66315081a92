"""A detector's tensors as detections."""

from __future__ import annotations

from types import GenericAlias

from calculators.images.image.detector_output import (
    BoxDecoding,
    DetectorOutput,
    DetectorTensors,
    FixedOrderDetector,
    allowed_classes,
    check_detector_options,
)
from calculators.images.image.packet_types import TENSORS, list_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

_OPTIONS = messages.TensorsToDetectionsCalculatorOptions
# TensorsToDetectionsCalculatorOptions.BoxFormat
_FORMATS = {0: "YXHW", 1: "YXHW", 2: "XYWH", 3: "XYXY"}


class TensorsToDetectionsCalculator(Calculator):
    """Makes detections of the tensors of a model of the SSD kind.

    Two tensors are raw boxes (1, num_boxes, num_coords) and scores (1, num_boxes, num_classes); a
    third is the anchors (num_boxes, 4), which are else a side packet. Four are finished boxes
    (1, n, num_coords), classes (1, n), scores (1, n) and how many of them count (1).

    Inputs: TENSORS (list of numpy.ndarray): float32.
    Outputs: DETECTIONS (list of mediapipe.Detection): boxes in fractions of the image; of a raw
        box only the class with the highest score.
    Input side packets:
        ANCHORS (list of mediapipe.Anchor, optional).
        IGNORE_CLASSES (list of int, optional): in place of the option.
    Options (mediapipe.TensorsToDetectionsCalculatorOptions):
        num_classes, num_boxes, num_coords: of the model.
        x_scale, y_scale, w_scale, h_scale: by which raw numbers are divided.
        apply_exponential_on_box_size: raw widths and heights are logarithms.
        box_format: YXHW, the default; XYWH; XYXY. reverse_output_order is the older word for XYWH.
        box_coord_offset, num_keypoints, keypoint_coord_offset: where in a box's numbers they are.
        sigmoid_score, score_clipping_thresh: raw scores become probabilities.
        ignore_classes or allow_classes: which classes count.
        min_score_thresh, max_results: what is left out.
        flip_vertically: the origin of detections is at the bottom left.
        tensor_mapping, box_boundaries_indices, max_classes_per_detection: a model's own order, and
            one that repeats its boxes.

    ::

        node {
          calculator: "TensorsToDetectionsCalculator"
          input_stream: "TENSORS:tensors"
          input_side_packet: "ANCHORS:anchors"
          output_stream: "DETECTIONS:detections"
          node_options {
            [type.googleapis.com/mediapipe.TensorsToDetectionsCalculatorOptions] {
              num_classes: 91
              num_boxes: 1917
              num_coords: 4
              ignore_classes: 0
              sigmoid_score: true
              apply_exponential_on_box_size: true
              x_scale: 10.0
              y_scale: 10.0
              h_scale: 5.0
              w_scale: 5.0
              min_score_thresh: 0.5
            }
          }
        }

    Source: MediaPipe ``calculators/tensor/tensors_to_detections_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["DETECTIONS"].set(list_of("Detection"))
        sides = contract.input_side_packets
        sides["ANCHORS"].set(list_of("Anchor")).optional()
        sides["IGNORE_CLASSES"].set(GenericAlias(list, (int,))).optional()
        options = contract.options(_OPTIONS)
        check_detector_options(contract, options)
        contract.require(
            not (
                options.allow_classes
                and (options.ignore_classes or sides.has_tag("IGNORE_CLASSES"))
            ),
            "allow_classes excludes ignore_classes and the side packet IGNORE_CLASSES",
        )
        contract.require(options.max_results != 0, "max_results is above 0, or -1 for all")
        contract.require(
            options.max_classes_per_detection > 0, "max_classes_per_detection is at least 1"
        )
        contract.require(
            sorted(_corners(options)) == [0, 1, 2, 3],
            "box_boundaries_indices are 0, 1, 2 and 3, each once",
        )
        found = _mapping_problem(options)
        contract.require(found is None, found or "")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options, sides = self.options, cc.input_side_packets
        ignored = options.ignore_classes
        if sides.has_tag("IGNORE_CLASSES"):
            ignored = sides["IGNORE_CLASSES"].value
        reversed_format = 2 if options.reverse_output_order else 1
        box_format = options.box_format if options.HasField("box_format") else reversed_format
        self._output = DetectorOutput(
            options=options,
            decoding=BoxDecoding.of(options, _FORMATS[box_format]),
            allowed=allowed_classes(options.num_classes, ignored, options.allow_classes),
            order=_order(options),
            corners=_corners(options),
            classes_per_box=options.max_classes_per_detection,
            max_results=options.max_results,
            is_filtered=True,
            anchors=sides["ANCHORS"].value if sides.has_tag("ANCHORS") else None,
        )

    def process(self, cc: CalculatorContext) -> None:
        found = self._output.detections(cc.inputs["TENSORS"].value)
        cc.outputs["DETECTIONS"].add(found, cc.time)


def _corners(options: messages.TensorsToDetectionsCalculatorOptions) -> tuple[int, int, int, int]:
    if not options.HasField("box_boundaries_indices"):
        return 0, 1, 2, 3
    indices = options.box_boundaries_indices
    return indices.ymin, indices.xmin, indices.ymax, indices.xmax


def _order(options: messages.TensorsToDetectionsCalculatorOptions) -> DetectorTensors:
    if not options.HasField("tensor_mapping"):
        return DetectorTensors()
    mapping = options.tensor_mapping
    return DetectorTensors(
        boxes=mapping.detections_tensor_index,
        classes=mapping.classes_tensor_index,
        scores=mapping.scores_tensor_index,
        count=mapping.num_detections_tensor_index,
        anchors=mapping.anchors_tensor_index,
    )


def _mapping_problem(options: messages.TensorsToDetectionsCalculatorOptions) -> str | None:
    if not options.HasField("tensor_mapping"):
        return None
    mapping = options.tensor_mapping
    names = [field.name for field, _ in mapping.ListFields()]
    known = {"detections_tensor_index", "scores_tensor_index"}
    more = set(names) - known
    finished = {"classes_tensor_index", "num_detections_tensor_index"}
    if not known <= set(names) or more not in (set(), {"anchors_tensor_index"}, finished):
        return (
            "tensor_mapping needs detections_tensor_index and scores_tensor_index, and may have "
            "anchors_tensor_index, or classes_tensor_index with num_detections_tensor_index"
        )
    indices = sorted(getattr(mapping, name) for name in names)
    if indices != list(range(len(names))):
        return f"tensor_mapping: its {len(names)} indices are 0 to {len(names) - 1}, each once"
    return None


_OPENVINO_OPTIONS = messages.OpenVINOTensorsToDetectionsCalculatorOptions


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

    options = Options(_OPENVINO_OPTIONS)
    is_filtered = False
