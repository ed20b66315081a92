"""The boxes that a detector of the SSD kind corrects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from calculators.images.image.packet_types import list_of, message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options, Stop
from protos import messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

_OPTIONS = "SsdAnchorsCalculatorOptions"


class _Box(NamedTuple):
    """Height and width in fractions of the image, or with multiscale anchors in pixels."""

    height: float
    width: float


@lru_cache(maxsize=32)
def anchors(serialized: bytes) -> tuple[Any, ...]:
    """mediapipe.Anchor messages from serialized SsdAnchorsCalculatorOptions, which are valid.

    They are made once per set of options: a served graph may open for every request.

    Source: MediaPipe ``calculators/tflite/ssd_anchors_calculator.cc``.
    """
    options = message_type(_OPTIONS).FromString(serialized)
    if options.fixed_anchors:
        return tuple(options.fixed_anchors)
    return tuple(_multiscale(options) if options.multiscale_anchor_generation else _ssd(options))


def problem(options: messages.SsdAnchorsCalculatorOptions) -> str | None:
    """Return the error in the options, in words; None if they are valid."""
    if options.fixed_anchors:
        names = ("input_size_height", "input_size_width", "min_scale", "max_scale", "num_layers")
        message: Message = options
        given = [name for name in names if message.HasField(name)]
        if options.multiscale_anchor_generation:
            given.append("multiscale_anchor_generation")
        return f"fixed_anchors exclude {', '.join(given)}" if given else None
    heights, widths = len(options.feature_map_height), len(options.feature_map_width)
    layers = options.num_layers
    if options.multiscale_anchor_generation:
        layers = options.max_level - options.min_level + 1
    if (heights or widths) and (heights != layers or widths != layers):
        return (
            f"{layers} layers need as many feature_map_height and feature_map_width; there are "
            f"{heights} and {widths}"
        )
    # Multiscale anchors need only the size of a grid; others need strides, as in MediaPipe.
    if not (heights and options.multiscale_anchor_generation) and len(options.strides) != layers:
        return f"{layers} layers need as many strides; there are {len(options.strides)}"
    if any(stride < 1 for stride in options.strides):
        return "strides are numbers of pixels above 0"
    if any(ratio <= 0 for ratio in options.aspect_ratios):
        return "aspect_ratios are width to height, above 0"
    cells = sum(height * width for height, width in _grids(options, layers))
    if cells > 1_000_000:
        return f"the layers have {cells} cells; at most 1000000 are possible"
    return None


def _ssd(options: messages.SsdAnchorsCalculatorOptions) -> Iterator[Any]:
    kind = message_type("Anchor")
    layer = 0
    while layer < options.num_layers:
        boxes: list[_Box] = []
        end = layer
        # Layers of the same stride share a grid.
        while end < len(options.strides) and options.strides[end] == options.strides[layer]:
            boxes += _boxes(options, end)
            end += 1
        height, width = _grid(options, layer)
        for y in range(height):
            for x in range(width):
                for box in boxes:
                    yield kind(
                        x_center=(x + options.anchor_offset_x) / width,
                        y_center=(y + options.anchor_offset_y) / height,
                        w=1.0 if options.fixed_anchor_size else box.width,
                        h=1.0 if options.fixed_anchor_size else box.height,
                    )
        layer = end


def _boxes(options: messages.SsdAnchorsCalculatorOptions, layer: int) -> list[_Box]:
    """Return the boxes of each cell of one layer."""
    scale = _scale(options, layer)
    if layer == 0 and options.reduce_boxes_in_lowest_layer:
        shapes = [(0.1, 1.0), (scale, 2.0), (scale, 0.5)]
    else:
        shapes = [(scale, ratio) for ratio in options.aspect_ratios]
        if options.interpolated_scale_aspect_ratio > 0:
            is_last = layer == len(options.strides) - 1
            following = 1.0 if is_last else _scale(options, layer + 1)
            shapes.append((math.sqrt(scale * following), options.interpolated_scale_aspect_ratio))
    return [_Box(extent / math.sqrt(ratio), extent * math.sqrt(ratio)) for extent, ratio in shapes]


def _scale(options: messages.SsdAnchorsCalculatorOptions, layer: int) -> float:
    """Return the size of a layer's boxes, as a fraction of the image."""
    low, high, count = options.min_scale, options.max_scale, len(options.strides)
    if count == 1:
        return float(low + high) * 0.5
    return float(low + (high - low) * layer / (count - 1))


def _multiscale(options: messages.SsdAnchorsCalculatorOptions) -> Iterator[Any]:
    kind = message_type("Anchor")
    octave = [2 ** (step / options.scales_per_octave) for step in range(options.scales_per_octave)]
    is_normal = options.normalize_coordinates
    by_height = options.input_size_height if is_normal else 1
    by_width = options.input_size_width if is_normal else 1
    for layer, level in enumerate(range(options.min_level, options.max_level + 1)):
        stride = 2**level
        down = _offset(options.input_size_height, stride)
        across = _offset(options.input_size_width, stride)
        boxes = [
            _Box(
                scale * stride * options.anchor_scale / math.sqrt(ratio),
                scale * stride * options.anchor_scale * math.sqrt(ratio),
            )
            for ratio in options.aspect_ratios
            for scale in octave
        ]
        height, width = _grid(options, layer)
        for y in range(height):
            for x in range(width):
                for box in boxes:
                    yield kind(
                        x_center=(x * stride + across) / by_width,
                        y_center=(y * stride + down) / by_height,
                        w=box.width / by_width,
                        h=box.height / by_height,
                    )


def _offset(size: int, stride: int) -> float:
    return stride / 2 if size % stride == 0 or size == 1 else 0.0


def _grids(options: messages.SsdAnchorsCalculatorOptions, layers: int) -> Iterator[tuple[int, int]]:
    return (_grid(options, layer) for layer in range(layers))


def _grid(options: messages.SsdAnchorsCalculatorOptions, layer: int) -> tuple[int, int]:
    """Height and width of a layer, in cells."""
    if options.feature_map_height:
        return options.feature_map_height[layer], options.feature_map_width[layer]
    stride = options.strides[layer]
    return (
        math.ceil(options.input_size_height / stride),
        math.ceil(options.input_size_width / stride),
    )


_NODE_OPTIONS = messages.SsdAnchorsCalculatorOptions


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

    options = Options(_NODE_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.output_side_packets[0].set(list_of("Anchor"))
        found = problem(contract.options(_NODE_OPTIONS))
        contract.require(found is None, found or "")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        cc.output_side_packets[0].set(list(anchors(self.options.SerializeToString())))

    def process(self, cc: CalculatorContext) -> None:
        raise Stop
