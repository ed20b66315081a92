"""Calculators of MediaPipe's other graphs: objects in space, irises, colors, old names."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from calculators.core.headers import VideoHeader
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.vision.iris import image_file_properties
from calculators.vision.landmarks.landmarks import landmarks
from calculators.vision.objectron import box_in_space
from graph_runtime import (
    CalculatorGraph,
    GraphError,
    Packet,
    RunError,
    Timestamp,
    ValidationError,
)
from protos import messages
from protos.pool import message_class
from tests.calculators.vision.test_calculators import registry, run, streams

SIZE = (640, 480)
_SIGNS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


def node(calculator: str, *lines: str, options: str = "") -> str:
    kind = f"[mediapipe.{calculator}Options.ext]"
    written = f"options {{ {kind} {{ {options} }} }}" if options else ""
    return "\n".join([f'node {{ calculator: "{calculator}"', *lines, written, "}"])


def turned(degrees: float) -> Any:
    """Return the rotation of a box around its upright axis, then towards the camera."""
    a, b = math.radians(degrees), math.radians(20)
    around = np.array([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
    down = np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)], [0, math.sin(b), math.cos(b)]])
    return down @ around


def seen(rotation: Any, lengths: Any, place: Any) -> Any:
    """Return the centre and corners of a box as (9, 2) fractions of the image."""
    points = np.vstack([np.zeros(3), _SIGNS * lengths / 2]) @ rotation.T + place
    plane = points[:, :2] / -points[:, 2:]
    return np.column_stack([(plane[:, 0] + 1) / 2, (1 - plane[:, 1]) / 2])


def test_a_box_in_space_is_found_from_its_points_in_the_image() -> None:
    rotation, lengths, place = turned(35), np.array([1.0, 0.6, 2.0]), np.array([0.3, -0.2, -6.0])
    box = box_in_space(seen(rotation, lengths, place), (1.0, 1.0), (0.0, 0.0))
    size = place[2] / box.translation[2]
    assert np.allclose(box.rotation, rotation, atol=1e-6)
    assert np.allclose(box.translation * size, place, atol=1e-5)
    assert np.allclose(box.scale * size, lengths, atol=1e-5)


def test_landmarks_of_objects_become_turned_rectangles() -> None:
    points = seen(turned(35), np.array([1.0, 0.6, 2.0]), np.array([0.3, -0.2, -6.0]))
    text = "\n".join(
        [
            node(
                "LandmarksToFrameAnnotationCalculator",
                'input_stream: "MULTI_LANDMARKS:in"',
                'output_stream: "FRAME_ANNOTATION:flat"',
            ),
            node(
                "Lift2DFrameAnnotationTo3DCalculator",
                'input_stream: "FRAME_ANNOTATION:flat"',
                'output_stream: "LIFTED_FRAME_ANNOTATION:lifted"',
            ),
            node(
                "FrameAnnotationToRectCalculator",
                'input_stream: "FRAME_ANNOTATION:lifted"',
                'output_stream: "NORM_RECTS:out"',
            ),
        ]
    )
    both = [landmarks([(x, y, 0) for x, y in points.tolist()])] * 2
    ((first, second),) = run(text, {"in": both})
    assert first == second
    low, high = points.min(axis=0), points.max(axis=0)
    assert first.x_center == pytest.approx((low[0] + high[0]) / 2, abs=1e-6)
    assert first.height == pytest.approx(high[1] - low[1], abs=1e-6)
    # The box stands upright but for the camera, which looks down.
    assert abs(first.rotation) < 0.2
    with pytest.raises(RunError, match="an object has 9 points"):
        run(text, {"in": [landmarks([(0, 0, 0)])]})


@pytest.mark.parametrize(
    ("labels", "options", "kept"),
    [
        (None, "", [["shoe", "boot"], ["cup"]]),
        ("boot , sho.", "", [["shoe", "boot"]]),
        (None, "min_score: 0.5", [["shoe"]]),
        ("", "", []),
        ("", "empty_allowed_labels_means_allow_everything: true", [["shoe", "boot"], ["cup"]]),
    ],
    ids=["all", "labels", "scores", "none allowed", "an empty list allows all"],
)
def test_detections_keep_the_labels_that_are_allowed(
    labels: str | None, options: str, kept: list[list[str]]
) -> None:
    kind = message_class("mediapipe.Detection")
    given = [kind(label=["boot", "shoe"], score=[0.25, 0.75]), kind(label=["cup"], score=[0.4])]
    side = [] if labels is None else ['input_side_packet: "LABELS_CSV:labels"']
    text = node(
        "FilterDetectionCalculator", *streams("DETECTIONS", "DETECTIONS:"), *side, options=options
    )
    if labels is not None:
        text = 'input_side_packet: "labels"\n' + text
    sides = {} if labels is None else {"labels": labels}
    (found,) = run(text, {"detections": given}, sides=sides)
    assert [list(each.label) for each in found] == kept


def points_of_irises(diameter: float) -> list[tuple[float, float, float]]:
    """Return the points of two irises of that many pixels."""
    r = diameter / 2
    points = [(0, 0), (r, 0), (0, -r), (-r, 0), (0, r)]
    both = [(x + eye, y + 240) for eye in (320, 400) for x, y in points]
    return [(x / SIZE[0], y / SIZE[1], 0) for x, y in both]


def irises(diameter: float) -> Any:
    return landmarks(points_of_irises(diameter))


def test_eyes_are_as_far_as_their_irises_are_small() -> None:
    text = 'input_side_packet: "f"\n' + node(
        "IrisToDepthCalculator",
        'input_stream: "IRIS:iris"',
        'input_stream: "IMAGE_SIZE:size"',
        'input_side_packet: "FOCAL_LENGTH:f"',
        'output_stream: "LEFT_IRIS_DEPTH_MM:out"',
    )
    feeds = [{"iris": irises(d), "size": SIZE} for d in (11.8, 5.9)]
    first, second = run(text, *feeds, sides={"f": 500.0})
    assert first == pytest.approx(500, abs=0.01)
    assert second == pytest.approx(0.9 * 500 + 0.1 * 1000, abs=0.01)


def test_irises_are_drawn_as_circles_with_their_distance() -> None:
    text = node(
        "IrisToRenderDataCalculator",
        'input_stream: "IRIS:iris"',
        'input_stream: "IMAGE_SIZE:size"',
        'input_stream: "LEFT_IRIS_DEPTH_MM:depth"',
        'output_stream: "RENDER_DATA:out"',
        options="oval_color { g: 255 } oval_thickness: 4.0",
    )
    (found,) = run(text, {"iris": irises(20), "size": SIZE, "depth": 499.0})
    kinds = [each.WhichOneof("data") for each in found.render_annotations]
    assert kinds == ["oval", *["point"] * 5] * 2 + ["text"]
    oval = found.render_annotations[0].oval.rectangle
    assert (oval.right - oval.left) * SIZE[0] == pytest.approx(20, abs=1e-3)
    assert found.render_annotations[-1].text.display_text == "Left : :50 cm"


def test_eyes_are_drawn_on_the_image_as_in_the_graph_of_irises() -> None:
    tags = "IMAGE DETECTIONS EYE_LANDMARKS_LEFT EYE_LANDMARKS_RIGHT IRIS_LANDMARKS_LEFT"
    others = "IRIS_LANDMARKS_RIGHT FACE_LANDMARKS NORM_RECT LEFT_EYE_RECT RIGHT_EYE_RECT"
    irises = 'output_stream: "IRIS_LANDMARKS:irises"'
    text = node("IrisRendererCpu", *streams(f"{tags} {others}", "IMAGE:"), irises)
    black = ImageFrame(ImageFormat.SRGB, np.zeros((SIZE[1], SIZE[0], 3), np.uint8))

    def eye(x: float) -> Any:
        return landmarks([(x, 0.5, 0)] * 8 + [(x, 0.25, 0)] * 63)

    both = points_of_irises(40)
    given = {
        "image": black,
        "detections": [],
        "eye_landmarks_left": eye(0.1),
        "eye_landmarks_right": eye(0.9),
        "iris_landmarks_left": landmarks(both[:5]),
        "iris_landmarks_right": landmarks(both[5:]),
        "face_landmarks": landmarks([(0.5, 0.125, 0)] * 468),
    }
    (drawn,) = run(text, given)
    pixels = drawn.pixels
    # Boundaries from a quarter of the height to its half, in red; nothing of others.
    for x in (64, 576):
        assert pixels[180, x].tolist() == [255, 0, 0]
        assert pixels[300, x].tolist() == [0, 0, 0]
    # A face's landmarks, in dark red.
    assert pixels[60, 320].tolist() == [150, 0, 0]
    blue = (pixels == [0, 0, 255]).all(axis=2)
    assert blue.any()
    assert black.pixels.any() == np.False_


def test_the_focal_length_is_read_from_a_file() -> None:
    exif = Pillow.Exif()
    exif.get_ifd(0x8769).update({0x920A: 4.0, 0xA405: 26})
    file = io.BytesIO()
    Pillow.new("RGB", (400, 300)).save(file, "JPEG", exif=exif)
    found = image_file_properties(file.getvalue())
    assert (found.image_width, found.image_height) == (400, 300)
    # The diagonal of 500 pixels stands for that of a film of 35 mm, 43.27 mm.
    assert found.focal_length_pixels == pytest.approx(500 * 26 / math.hypot(36, 24))
    plain = io.BytesIO()
    Pillow.new("RGB", (4, 3)).save(plain, "JPEG")
    with pytest.raises(GraphError, match="does not say the focal length"):
        image_file_properties(plain.getvalue())
    with pytest.raises(GraphError, match="not an image file"):
        image_file_properties(b"nothing")


def test_the_properties_of_a_streamed_file_become_a_side_packet() -> None:
    exif = Pillow.Exif()
    exif.get_ifd(0x8769).update({0x920A: 4.0, 0xA405: 26})
    file = io.BytesIO()
    Pillow.new("RGB", (400, 300)).save(file, "JPEG", exif=exif)
    text = (
        'node { calculator: "ImageFilePropertiesCalculator" input_stream: "file" '
        'output_side_packet: "properties" }\n'
    ) + node(
        "IrisToDepthCalculator",
        'input_stream: "IRIS:iris"',
        'input_stream: "IMAGE_SIZE:size"',
        'input_side_packet: "IMAGE_FILE_PROPERTIES:properties"',
        'output_stream: "LEFT_IRIS_DEPTH_MM:out"',
    )
    (depth,) = run(text, {"file": file.getvalue(), "iris": irises(11.8), "size": SIZE})
    assert depth == pytest.approx(500 * 26 / math.hypot(36, 24), rel=1e-3)


def frame(format_: ImageFormat, value: Any, size: tuple[int, int] = (4, 3)) -> ImageFrame:
    shape = (size[1], size[0], format_.channels)
    return ImageFrame(format_, np.full(shape, value, format_.dtype))


def test_an_image_gets_the_alpha_of_another() -> None:
    text = node("SetAlphaCalculator", *streams("IMAGE ALPHA", "IMAGE:"))
    image, gray = frame(ImageFormat.SRGB, 7), frame(ImageFormat.GRAY8, 200)
    soft = frame(ImageFormat.VEC32F1, 0.5)
    found = run(text, *({"image": image, "alpha": each} for each in (gray, soft)), {"image": image})
    assert [each.pixels[0, 0].tolist() for each in found] == [
        [7, 7, 7, 200],
        [7, 7, 7, 128],
        [7, 7, 7, 0],
    ]
    with pytest.raises(RunError, match="equally large"):
        run(text, {"image": image, "alpha": frame(ImageFormat.GRAY8, 1, (2, 2))})


def test_images_are_converted() -> None:
    text = node(
        "ColorConvertCalculator", 'input_stream: "RGB_IN:in"', 'output_stream: "GRAY_OUT:out"'
    )
    (found,) = run(text, {"in": frame(ImageFormat.SRGB, 90)})
    assert (found.image_format, found.pixels.mean()) == (ImageFormat.GRAY8, 90)
    with pytest.raises(RunError, match="takes images of the format SRGB") as caught:
        run(text, {"in": frame(ImageFormat.GRAY8, 90)})
    assert isinstance(caught.value.errors[0].__cause__, ImageError)
    with pytest.raises(GraphError, match="the conversions are"):
        run(text.replace("RGB_IN", "GRAY_IN"), {"in": frame(ImageFormat.GRAY8, 90)})


def test_a_mask_is_mixed_with_the_last_one_where_it_is_not_sure() -> None:
    scores = np.zeros((1, 2, 2, 2), np.float32)
    scores[0, 0, :, 1], scores[0, 1, :, 1] = 20, 0
    text = node(
        "TfLiteTensorsToSegmentationCalculator",
        *streams("TENSORS PREV_MASK", "MASK:"),
        options="tensor_width: 2 tensor_height: 2 tensor_channels: 2",
    )
    last = frame(ImageFormat.GRAY8, 255, (2, 2))
    alone, mixed = run(text, {"tensors": [scores]}, {"tensors": [scores], "prev_mask": last})
    assert alone.pixels[:, 0, 0].tolist() == [255, 127]
    assert alone.pixels[:, 0, 3].tolist() == [255, 127]
    assert mixed.pixels[0, 0, 0] == 255
    assert mixed.pixels[1, 0, 0] > 250


def test_the_old_name_makes_the_same_detections() -> None:
    boxes = np.array([[[0.5, 0.5, 0.2, 0.2], [0.1, 0.1, 0.2, 0.2]]], np.float32)
    scores = np.array([[[0.9], [0.1]]], np.float32)
    anchor = message_class("mediapipe.Anchor")(x_center=0, y_center=0, w=1, h=1)
    options = (
        "num_classes: 1 num_boxes: 2 num_coords: 4 min_score_thresh: 0.5 "
        "x_scale: 1 y_scale: 1 w_scale: 1 h_scale: 1"
    )
    found = [
        run(
            'input_side_packet: "a"\n'
            + node(
                name,
                *streams("TENSORS", "DETECTIONS:"),
                'input_side_packet: "ANCHORS:a"',
                options=options,
            ),
            {"tensors": [boxes, scores]},
            sides={"a": [anchor, anchor]},
        )
        for name in ("TfLiteTensorsToDetectionsCalculator", "TensorsToDetectionsCalculator")
    ]
    assert found[0] == found[1]
    assert len(found[0][0]) == 1


@pytest.mark.parametrize(
    ("name", "present"),
    [
        ("FaceDetectionFrontCpu", "FaceDetectionShortRangeCpu"),
        ("FaceDetectionBackCpu", "FaceDetectionFullRangeCpu"),
    ],
)
def test_a_former_name_is_answered_with_the_present_one(name: str, present: str) -> None:
    with pytest.raises(GraphError, match=f'It is called "{present}" now'):
        run(node(name, *streams("IMAGE", "DETECTIONS:")), {"image": 1})


def floats_of(outputs: str, *tensors: Any) -> list[Any]:
    text = node(
        "TfLiteTensorsToFloatsCalculator",
        'input_stream: "TENSORS:tensors"',
        *(f'output_stream: "{each}"' for each in outputs.split()),
    )
    return run(text, {"tensors": list(tensors)})


def test_numbers_of_the_first_tensor_are_sent() -> None:
    tensor, other = np.array([[1.5, 2]], np.float32), np.array([3], np.float32)
    assert floats_of("FLOATS:out", tensor, other) == [[1.5, 2.0]]
    assert floats_of("FLOAT:out", other, tensor) == [3.0]
    assert floats_of("FLOAT:one FLOATS:out", other) == [[3.0]]
    for outputs, wrong, text in (
        ("FLOAT:out", tensor, "needs a tensor of one number; this one has 2"),
        ("FLOATS:out", np.zeros((1, 0), np.float32), r"has the shape \(1, 0\)"),
        ("FLOATS:out", np.zeros(2, np.uint8), "a tensor of float32 is needed"),
    ):
        with pytest.raises(RunError, match=text):
            floats_of(outputs, wrong)
    with pytest.raises(ValidationError, match="one of the output streams FLOAT and FLOATS"):
        floats_of("")


def test_lists_of_tensors_are_joined_and_collected_under_old_names() -> None:
    one, two = np.array([1], np.float32), np.array([2], np.float32)
    joined = node(
        "ConcatenateTfLiteTensorVectorCalculator",
        'input_stream: "a"',
        'input_stream: "b"',
        'output_stream: "out"',
    )
    assert run(joined, {"a": [one, two], "b": one}) == [[one, two, one]]
    loop = node(
        "BeginLoopTensorCalculator",
        'input_stream: "ITERABLE:list"',
        'output_stream: "ITEM:item"',
        'output_stream: "BATCH_END:end"',
    ) + node(
        "EndLoopTfLiteTensorCalculator",
        'input_stream: "ITEM:item"',
        'input_stream: "BATCH_END:end"',
        'output_stream: "ITERABLE:out"',
    )
    assert run(loop, {"list": [one, two]}) == [[one, two]]


def header_of(options: str, *feeds: tuple[str, Any, Any], names: str = "in") -> Any:
    """Return the header that a node makes of packets: (stream, time, value)."""
    inputs = {"in": "in"} if names == "in" else {each: each.lower() for each in names.split()}
    entries = [f'input_stream: "{tag + ":" if tag != "in" else ""}{inputs[tag]}"' for tag in inputs]
    text = "".join(f'input_stream: "{name}"\n' for name in inputs.values()) + node(
        "VideoPreStreamCalculator", *entries, 'output_stream: "out"', options=options
    )
    graph = CalculatorGraph(text_config=text, registry=registry())
    seen: list[Packet] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet))
    graph.start_run({})
    for name, time, value in feeds:
        graph.add_packet_to_input_stream(name, Packet(value, time))
    graph.close()
    (header,) = seen
    assert header.time == Timestamp.PRESTREAM
    return header.value


FRAME = ImageFrame(ImageFormat.SRGB, np.zeros((6, 8, 3), np.uint8))


def test_the_header_of_a_video_comes_from_its_first_frame() -> None:
    small = ImageFrame(ImageFormat.GRAY8, np.zeros((2, 2, 1), np.uint8))
    frames = ("in", 0, FRAME), ("in", 1, small)
    expected = VideoHeader(ImageFormat.SRGB.value, 8, 6, 0.0, 30.0)
    assert header_of("fps { value: 30 }", *frames) == expected
    assert header_of("fps { ratio { numerator: 60 denominator: 2 } }", *frames) == expected
    given = VideoHeader(ImageFormat.GRAY8.value, 2, 2, 12.0, 30.0)
    both = ("video_prestream", Timestamp.PRESTREAM, given), ("frame", 0, FRAME)
    assert header_of("", *both, names="FRAME VIDEO_PRESTREAM") == replace(expected, duration=12.0)


@pytest.mark.parametrize(
    ("feeds", "names", "text"),
    [
        ([("in", 0, FRAME)], "in", "the frame rate is not known"),
        (
            [("video_prestream", Timestamp.PRESTREAM, VideoHeader())],
            "FRAME VIDEO_PRESTREAM",
            "the frame rate is not known",
        ),
        (
            [("video_prestream", 1, VideoHeader(frame_rate=1.0)), ("frame", 1, FRAME)],
            "FRAME VIDEO_PRESTREAM",
            "VIDEO_PRESTREAM has one packet, at PRESTREAM",
        ),
    ],
)
def test_a_header_needs_a_frame_rate(feeds: list[Any], names: str, text: str) -> None:
    with pytest.raises(RunError, match=text):
        header_of("", *feeds, names=names)


POINTS = [(0.05 + 0.1 * i, 0.1 + 0.2 * i, -0.3 * i, 0.5 + 0.1 * i, 0.9 - 0.1 * i) for i in range(3)]


def tensor_of(tags: str, options: str, **feeds: Any) -> Any:
    text = node("LandmarksToTensorCalculator", *streams(tags, "TENSORS:"), options=options)
    ((tensor,),) = run(text, feeds)
    return tensor


def test_landmarks_become_a_tensor() -> None:
    tags = "NORM_LANDMARKS IMAGE_SIZE"
    order = "attributes: [Z, Y, X, PRESENCE, VISIBILITY]"
    feeds = {"norm_landmarks": landmarks(POINTS), "image_size": (8, 6)}
    found = tensor_of(tags, f"{order} flatten: true", **feeds)
    # The answer of MediaPipe 0.10.21 with TensorsToFloatsCalculator after it.
    expected = [0, 0.6, 0.4, 0.9, 0.5, -2.4, 1.8, 1.2, 0.8, 0.6, -4.8, 3, 2, 0.7, 0.7]
    assert found.shape == (1, 15)
    assert found.dtype == np.float32
    assert found[0] == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(tensor_of(tags, order, **feeds), found.reshape(1, 3, 5))
    points = landmarks(POINTS, is_normalized=False)
    assert np.array_equal(
        tensor_of("LANDMARKS", "attributes: [X, Z]", landmarks=points)[0], points.values[:, [0, 2]]
    )


@pytest.mark.parametrize(
    ("tags", "options", "text"),
    [
        ("LANDMARKS", "flatten: true", "attributes: at least one is needed"),
        ("LANDMARKS NORM_LANDMARKS", "attributes: [X]", "exactly one of the input streams"),
        ("NORM_LANDMARKS", "attributes: [X]", "IMAGE_SIZE goes with NORM_LANDMARKS"),
        ("LANDMARKS IMAGE_SIZE", "attributes: [X]", "IMAGE_SIZE goes with NORM_LANDMARKS"),
    ],
)
def test_a_tensor_of_landmarks_needs_attributes_and_a_size(
    tags: str, options: str, text: str
) -> None:
    with pytest.raises(ValidationError, match=text):
        tensor_of(tags, options, **{tag.lower(): None for tag in tags.split()})


def test_keypoints_of_a_detection_are_landmarks() -> None:
    detection = messages.Detection()
    for x, y in ((0.25, 0.5), (1.0, -0.5)):
        detection.location_data.relative_keypoints.add(x=x, y=y)
    text = node("DetectionToLandmarksCalculator", *streams("DETECTION", "LANDMARKS:"))
    (found,) = run(text, {"detection": detection})
    assert found.values.tolist() == [[0.25, 0.5, 0, 0, 0], [1.0, -0.5, 0, 0, 0]]
    assert found.is_normalized
    assert not found.has_visibility
