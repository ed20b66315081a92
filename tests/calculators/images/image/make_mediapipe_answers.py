"""Runs graphs on the real MediaPipe, and writes its answers to ``mediapipe_answers.json``.

Run it in an environment that has MediaPipe's wheel 0.10.21, from the root of the checkout:
``python -m tests.calculators.images.image.make_mediapipe_answers``. The tests need only the file.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("mediapipe_answers.json")

Case = dict[str, Any]


def cases() -> list[Case]:
    """Yield graphs with their inputs: streams and values by kind, see `here.py`."""
    rng = random.Random(20)
    found = [_transformation(rng, *case) for case in _TRANSFORMATIONS]
    found += [_to_tensor(rng, *case) for case in _TENSORS]
    found += [_suppression(rng, options) for options in _SUPPRESSIONS for _ in range(2)]
    found += [_anchors(options) for options in _ANCHORS]
    found += [_classification(rng, options) for options in _CLASSIFICATIONS]
    found += [_labels(rng), _letterbox(rng)]
    found += [_overlay(rng, image_format) for image_format in ("SRGB", "SRGBA", "GRAY8")]
    return found


#: format, width, height, options
_TRANSFORMATIONS = (
    ("SRGB", 8, 6, ""),
    ("SRGB", 8, 6, "rotation_mode: ROTATION_90"),
    ("SRGB", 8, 6, "rotation_mode: ROTATION_180"),
    ("GRAY8", 8, 6, "rotation_mode: ROTATION_270 flip_horizontally: true"),
    ("SRGB", 7, 7, "rotation_mode: ROTATION_90"),
    ("SRGBA", 8, 6, "flip_vertically: true"),
    ("SRGB", 8, 6, "flip_vertically: true flip_horizontally: true"),
    ("SRGB", 8, 6, "output_width: 4 output_height: 3"),
    ("SRGB", 8, 6, "output_width: 5 output_height: 9"),
    ("SRGB", 8, 6, "output_width: 5 output_height: 9 interpolation_mode: NEAREST"),
    ("SRGB", 8, 6, "output_width: 9 output_height: 9 scale_mode: FIT"),
    ("SRGB", 9, 4, "output_width: 6 output_height: 6 scale_mode: FIT constant_padding: false"),
    (
        "SRGB",
        4,
        9,
        "output_width: 7 output_height: 5 scale_mode: FIT "
        "padding_color { red: 9 green: 8 blue: 7 }",
    ),
    ("SRGB", 8, 6, "output_width: 6 output_height: 6 scale_mode: FIT rotation_mode: ROTATION_90"),
    ("SRGB", 8, 6, "output_width: 5 output_height: 5 scale_mode: FILL_AND_CROP"),
    ("GRAY16", 8, 6, "output_width: 4 output_height: 3"),
    ("VEC32F1", 8, 6, "output_width: 11 output_height: 7"),
)

_UNIT = "output_tensor_float_range { min: -1 max: 1 }"
#: format, width, height, options, rect: x and y of the centre, width, height, rotation
_TENSORS: tuple[tuple[str, int, int, str, tuple[float, ...] | None], ...] = (
    ("SRGB", 8, 6, _UNIT, None),
    ("SRGBA", 8, 6, f"{_UNIT} output_tensor_width: 4 output_tensor_height: 4", None),
    ("GRAY8", 8, 6, f"{_UNIT} output_tensor_width: 5 output_tensor_height: 3", None),
    (
        "SRGB",
        8,
        6,
        f"{_UNIT} output_tensor_width: 6 output_tensor_height: 6 keep_aspect_ratio: true",
        None,
    ),
    (
        "SRGB",
        5,
        9,
        "output_tensor_float_range { min: 0 max: 1 } output_tensor_width: 6 "
        "output_tensor_height: 6 keep_aspect_ratio: true border_mode: BORDER_ZERO",
        None,
    ),
    (
        "SRGB",
        9,
        9,
        f"{_UNIT} output_tensor_width: 5 output_tensor_height: 4",
        (0.4, 0.6, 0.5, 0.7, 0.0),
    ),
    (
        "SRGB",
        9,
        7,
        f"{_UNIT} output_tensor_width: 6 output_tensor_height: 6 keep_aspect_ratio: true",
        (0.5, 0.4, 0.8, 0.5, 0.6),
    ),
)

_SUPPRESSIONS = (
    "min_suppression_threshold: 0.3",
    "min_suppression_threshold: 0.3 overlap_type: INTERSECTION_OVER_UNION max_num_detections: 3",
    "min_suppression_threshold: 0.5 overlap_type: MODIFIED_JACCARD min_score_threshold: 0.4",
    "min_suppression_threshold: 0.2 overlap_type: INTERSECTION_OVER_UNION algorithm: WEIGHTED",
    "min_suppression_threshold: 0.2 multiclass_nms: true max_num_detections: 5",
    "",
)

_ANCHORS = (
    "num_layers: 2 min_scale: 0.2 max_scale: 0.5 input_size_height: 32 input_size_width: 48 "
    "strides: 16 strides: 32 aspect_ratios: 1.0",
    "num_layers: 3 min_scale: 0.2 max_scale: 0.95 input_size_height: 64 input_size_width: 64 "
    "strides: 16 strides: 32 strides: 32 aspect_ratios: 1.0 aspect_ratios: 2.0 aspect_ratios: 0.5 "
    "reduce_boxes_in_lowest_layer: true",
    "num_layers: 1 min_scale: 0.2 max_scale: 0.9 input_size_height: 33 input_size_width: 30 "
    "strides: 16 aspect_ratios: 3.0 interpolated_scale_aspect_ratio: 0 anchor_offset_x: 0.25",
    "num_layers: 2 min_scale: 0.1 max_scale: 0.75 input_size_height: 32 input_size_width: 32 "
    "strides: 8 strides: 16 aspect_ratios: 1.0 fixed_anchor_size: true",
    "multiscale_anchor_generation: true min_level: 3 max_level: 5 input_size_height: 40 "
    "input_size_width: 64 strides: 8 strides: 16 strides: 32 aspect_ratios: 1.0 aspect_ratios: 2.0 "
    "anchor_scale: 3.0",
    "fixed_anchors { x_center: 0.5 y_center: 0.25 h: 0.1 w: 0.2 }",
)

_CLASSIFICATIONS = (
    "",
    "top_k: 2",
    "top_k: 9",
    "min_score_threshold: 0.4 sort_by_descending_score: true",
    "ignore_classes: 1",
    "allow_classes: 1 allow_classes: 3 top_k: 1",
    "label_items { key: 0 value { name: 'a' } } label_items { key: 1 value { name: 'b' "
    "display_name: 'B' } } label_items { key: 2 value { name: 'c' } } "
    "label_items { key: 3 value { name: 'd' } }",
)


def _node(name: str, options: str, *streams: str) -> str:
    lines = "\n  ".join(streams)
    return (
        f'node {{\n  calculator: "{name}"\n  {lines}\n'
        f"  options {{ [mediapipe.{name}Options.ext] {{ {options} }} }}\n}}\n"
    )


def _image(rng: random.Random, image_format: str, width: int, height: int) -> dict[str, Any]:
    channels = {"SRGB": 3, "SRGBA": 4}.get(image_format, 1)
    pixels = [
        [[rng.randrange(256) for _ in range(channels)] for _ in range(width)] for _ in range(height)
    ]
    return {"kind": "image", "format": image_format, "pixels": pixels}


def _transformation(
    rng: random.Random, image_format: str, width: int, height: int, options: str
) -> Case:
    text = _node(
        "ImageTransformationCalculator",
        options,
        'input_stream: "IMAGE:in"',
        'output_stream: "IMAGE:out"',
    )
    return {
        "text": text,
        "feeds": {"in": _image(rng, image_format, width, height)},
        "watch": {"out": "image"},
    }


def _to_tensor(
    rng: random.Random,
    image_format: str,
    width: int,
    height: int,
    options: str,
    rect: tuple[float, ...] | None,
) -> Case:
    streams = ['input_stream: "IMAGE:in"', 'output_stream: "TENSORS:out"']
    feeds = {"in": _image(rng, image_format, width, height)}
    if rect is not None:
        streams.append('input_stream: "NORM_RECT:rect"')
        names = ("x_center", "y_center", "width", "height", "rotation")
        feeds["rect"] = {
            "kind": "message",
            "type": "NormalizedRect",
            "fields": dict(zip(names, rect, strict=True)),
        }
    return {
        "text": _node("ImageToTensorCalculator", options, *streams),
        "feeds": feeds,
        "watch": {"out": "tensors"},
    }


def _detection(rng: random.Random, keypoints: int = 0) -> dict[str, Any]:
    x, y, width, height = (round(rng.uniform(0, 0.5), 3) for _ in range(4))
    count = rng.choice((1, 1, 2))
    points = [{"x": rng.random(), "y": rng.random()} for _ in range(keypoints)]
    location: dict[str, Any] = {
        "format": "RELATIVE_BOUNDING_BOX",
        "relative_bounding_box": {
            "xmin": x,
            "ymin": y,
            "width": width + 0.1,
            "height": height + 0.1,
        },
        "relative_keypoints": points,
    }
    return {
        "label_id": [rng.randrange(3) for _ in range(count)],
        "score": [round(rng.random(), 4) for _ in range(count)],
        "location_data": location,
    }


def _detections(
    rng: random.Random, count: int, keypoints: int = 0
) -> tuple[str, dict[str, dict[str, Any]]]:
    """A node that joins them as the stream "all", and what to feed it."""
    feeds = {
        f"d{index}": {
            "kind": "message",
            "type": "Detection",
            "fields": _detection(rng, keypoints),
        }
        for index in range(count)
    }
    inputs = " ".join(f'input_stream: "{name}"' for name in feeds)
    merge = (
        f'node {{ calculator: "MergeDetectionsToVectorCalculator" {inputs} '
        'output_stream: "all" }\n'
    )
    return merge, feeds


def _suppression(rng: random.Random, options: str) -> Case:
    merge, feeds = _detections(rng, 12, keypoints=2)
    node = _node(
        "NonMaxSuppressionCalculator", options, 'input_stream: "all"', 'output_stream: "out"'
    )
    return {"text": merge + node, "feeds": feeds, "watch": {"out": "messages"}}


def _anchors(options: str) -> Case:
    text = _node("SsdAnchorsCalculator", options, 'output_side_packet: "anchors"')
    return {"text": text, "feeds": {}, "watch": {}, "side": "anchors"}


def _classification(rng: random.Random, options: str) -> Case:
    node = _node(
        "TensorsToClassificationCalculator",
        options,
        'input_stream: "TENSORS:in"',
        'output_stream: "CLASSIFICATIONS:out"',
    )
    scores = [round(rng.random(), 4) for _ in range(4)]
    return {
        "text": node,
        "feeds": {"in": {"kind": "tensor", "numbers": scores}},
        "watch": {"out": "message"},
    }


def _labels(rng: random.Random) -> Case:
    merge, feeds = _detections(rng, 4)
    node = _node(
        "DetectionLabelIdToTextCalculator",
        "label: 'cat' label: 'dog'",
        'input_stream: "all"',
        'output_stream: "out"',
    )
    return {"text": merge + node, "feeds": feeds, "watch": {"out": "messages"}}


def _letterbox(rng: random.Random) -> Case:
    merge, feeds = _detections(rng, 3, keypoints=2)
    transformation = _node(
        "ImageTransformationCalculator",
        "output_width: 9 output_height: 5 scale_mode: FIT",
        'input_stream: "IMAGE:in"',
        'output_stream: "IMAGE:fitted"',
        'output_stream: "LETTERBOX_PADDING:padding"',
    )
    removal = (
        'node { calculator: "DetectionLetterboxRemovalCalculator" '
        'input_stream: "DETECTIONS:all" input_stream: "LETTERBOX_PADDING:padding" '
        'output_stream: "DETECTIONS:out" }\n'
    )
    feeds["in"] = _image(rng, "SRGB", 4, 6)
    return {
        "text": merge + transformation + removal,
        "feeds": feeds,
        "watch": {"out": "messages"},
    }


def _overlay(rng: random.Random, image_format: str) -> Case:
    node = (
        'node { calculator: "AnnotationOverlayCalculator" input_stream: "IMAGE:in" '
        'input_stream: "data" output_stream: "IMAGE:out" }\n'
    )
    box = {"left": 0.1, "top": 0.2, "right": 0.8, "bottom": 0.9, "normalized": True}
    small = {"left": 3, "top": 4, "right": 12, "bottom": 9}
    line = {"x_start": 2, "y_start": 3, "x_end": 20, "y_end": 14}
    red, blue = {"r": 200, "g": 10, "b": 20}, {"r": 5, "g": 60, "b": 250}
    shapes = [
        {"rectangle": box, "color": red, "thickness": 2},
        {"rectangle": {**small, "rotation": 0.5}, "color": blue},
        {"filled_rectangle": {"rectangle": small}, "color": blue},
        {"filled_rectangle": {"rectangle": {**small, "rotation": 0.3}}, "color": red},
        # OpenCV draws ovals and round corners slightly differently from version to version.
        {"filled_oval": {"oval": {"rectangle": small}}, "color": red},
        {"point": {"x": 0.5, "y": 0.6, "normalized": True}, "color": blue, "thickness": 2},
        {"line": line, "color": red},
        {"arrow": line, "color": blue},
        {"scribble": {"point": [{"x": 3, "y": 17}, {"x": 9, "y": 15}]}, "color": red},
    ]
    data = {"kind": "message", "type": "RenderData", "fields": {"render_annotations": shapes}}
    feeds = {"in": _image(rng, image_format, 24, 20), "data": data}
    return {"text": node, "feeds": feeds, "watch": {"out": "image"}}


def main() -> None:
    from tests.calculators.images.image.mediapipe_run import answer

    found = cases()
    for case in found:
        case["answer"] = answer(case)
    FILE.write_text(
        "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in found) + "\n]\n"
    )


if __name__ == "__main__":
    main()
