"""SsdAnchorsCalculator: the boxes that a detector corrects, as a side packet."""

from __future__ import annotations

from calculators.images.image.anchors import anchors, problem
from calculators.images.image.packet_types import list_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options, Stop

_OPTIONS = "mediapipe.SsdAnchorsCalculatorOptions"


class SsdAnchorsCalculator(Calculator):
    """Makes the anchors of a detector of the SSD kind, layer by layer and row by row.

    Inputs, outputs: none.
    Output side packets: #0: list of mediapipe.Anchor.
    Options (mediapipe.SsdAnchorsCalculatorOptions):
        num_layers, and of each layer the ``strides``, in pixels.
        feature_map_height, feature_map_width: of each layer, in cells, unless the strides say it.
        input_size_width, input_size_height: of the model's images, in pixels.
        min_scale, max_scale: of the first and last layer's boxes, as fractions of the image.
        aspect_ratios: width to height; one box for each per cell.
        interpolated_scale_aspect_ratio: of one more box, of a size up to the next layer; default 1,
            0 for none.
        anchor_offset_x, anchor_offset_y: where in its cell a box has its centre; default 0.5.
        reduce_boxes_in_lowest_layer: the first layer has three boxes per cell.
        fixed_anchor_size: all boxes have width and height 1.
        multiscale_anchor_generation, with min_level, max_level, anchor_scale, scales_per_octave and
            normalize_coordinates: boxes as in "Focal Loss for Dense Object Detection".
        fixed_anchors: the anchors themselves.

    ::

        node {
          calculator: "SsdAnchorsCalculator"
          output_side_packet: "anchors"
          node_options {
            [type.googleapis.com/mediapipe.SsdAnchorsCalculatorOptions] {
              num_layers: 2
              min_scale: 0.2
              max_scale: 0.5
              input_size_height: 96
              input_size_width: 96
              strides: [8, 16]
              aspect_ratios: 1.0
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/ssd_anchors_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.output_side_packets[0].set(list_of("Anchor"))
        found = problem(contract.options(_OPTIONS))
        contract.require(found is None, found or "")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        cc.output_side_packets[0].set(list(anchors(self.options.SerializeToString())))

    def process(self, cc: CalculatorContext) -> None:
        raise Stop
