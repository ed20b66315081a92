"""ImageTransformationCalculator beyond the recorded answers of MediaPipe; clones and texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from graph_runtime import GraphError, ValidationError
from tests.calculators.images.image.runs import image, node, run

NAME = "ImageTransformationCalculator"


def transform(options: str, streams: dict[str, Any], sides: dict[str, Any] | None = None) -> Any:
    """Return the output image, or None; ``streams`` and ``sides`` by tag."""
    ports = [f'input_stream: "{tag}:{tag.lower()}"' for tag in streams]
    ports += [f'input_side_packet: "{tag}:{tag.lower()}_side"' for tag in sides or {}]
    text = node(NAME, options, *ports, 'output_stream: "IMAGE:out"')
    feeds = {tag.lower(): value for tag, value in streams.items()}
    side_packets = {f"{tag.lower()}_side": value for tag, value in (sides or {}).items()}
    found = run(text, feeds, side_packets=side_packets)["out"]
    return found[0] if found else None


def test_an_image_that_is_not_changed_is_not_copied() -> None:
    frame = image(8, 6)
    found = transform("", {"IMAGE": frame})
    assert found == frame
    assert np.shares_memory(found.pixels, frame.pixels)


def test_streams_set_the_transformation_of_each_image() -> None:
    frame = image(8, 6)
    found = transform("", {"IMAGE": frame, "ROTATION_DEGREES": 90})
    assert np.array_equal(found.pixels, np.rot90(frame.pixels))
    found = transform("", {"IMAGE": frame, "FLIP_HORIZONTALLY": True, "FLIP_VERTICALLY": False})
    assert np.array_equal(found.pixels, frame.pixels[:, ::-1])
    found = transform("", {"IMAGE": frame, "OUTPUT_DIMENSIONS": (4, 3)})
    assert (found.width, found.height) == (4, 3)
    assert transform("", {"IMAGE": frame, "ROTATION_DEGREES": 45}) == frame


def test_side_packets_override_options() -> None:
    frame = image(8, 6)
    sides = {"ROTATION_DEGREES": 270, "FLIP_VERTICALLY": True, "FLIP_HORIZONTALLY": False}
    found = transform("rotation_mode: ROTATION_90", {"IMAGE": frame}, sides)
    assert np.array_equal(found.pixels, np.rot90(frame.pixels, 3)[::-1])
    found = transform("output_width: 2", {"IMAGE": frame}, {"OUTPUT_DIMENSIONS": [3, 5]})
    assert (found.width, found.height) == (3, 5)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (10, 10, (0.0, 0.25, 0.0, 0.25)),
        (10, 40, (0.25, 0.0, 0.25, 0.0)),
        (10, 20, (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_letterbox_padding_is_sent(width: int, height: int, expected: tuple[float, ...]) -> None:
    text = node(
        NAME,
        "output_width: 20 output_height: 40 scale_mode: FIT",
        'input_stream: "IMAGE:in"',
        'output_stream: "IMAGE:out"',
        'output_stream: "LETTERBOX_PADDING:padding"',
    )
    found = run(text, {"in": image(width, height)}, "out padding")
    assert found["padding"] == [pytest.approx(expected)]
    assert (found["out"][0].width, found["out"][0].height) == (20, 40)


def test_without_fit_there_is_no_padding() -> None:
    text = node(
        NAME,
        "output_width: 20 output_height: 40",
        'input_stream: "IMAGE:in"',
        'output_stream: "IMAGE:out"',
        'output_stream: "LETTERBOX_PADDING:padding"',
    )
    assert run(text, {"in": image(10, 10)}, "padding")["padding"] == [(0.0, 0.0, 0.0, 0.0)]


def test_impossible_sizes_are_refused() -> None:
    frame = image(8, 6)
    with pytest.raises(GraphError, match="would be 100000x100000; it can have at most 100000000"):
        transform("output_width: 100000 output_height: 100000", {"IMAGE": frame})
    with pytest.raises(GraphError, match="OUTPUT_DIMENSIONS is two whole numbers"):
        transform("", {"IMAGE": frame, "OUTPUT_DIMENSIONS": ("wide", "high")})
    with pytest.raises(GraphError, match="nothing would be left of its shorter side"):
        transform("output_width: 4 output_height: 4 scale_mode: FIT", {"IMAGE": image(99, 1)})
    assert transform("output_width: -3 output_height: 4", {"IMAGE": frame}) == frame


def test_images_on_a_gpu_are_refused() -> None:
    text = node(NAME, "", 'input_stream: "IMAGE_GPU:in"', 'output_stream: "IMAGE_GPU:out"')
    with pytest.raises(GraphError, match=r"IMAGE_GPU would be on a GPU.* use the tag IMAGE"):
        run(text, {"in": image(2, 2)})


def test_packets_that_are_not_images_are_refused() -> None:
    text = node(NAME, "", 'input_stream: "IMAGE:in"', 'output_stream: "IMAGE:out"')
    with pytest.raises(GraphError, match='"ImageFrame" was requested'):
        run(text, {"in": np.zeros((2, 2, 3), np.uint8)})
    assert isinstance(run(text, {"in": image(2, 2)})["out"][0], ImageFrame)


def test_an_image_can_get_the_size_of_another() -> None:
    text = """
    node { calculator: "ToImageCalculator" input_stream: "IMAGE_CPU:small"
      output_stream: "IMAGE:same" }
    node { calculator: "ImagePropertiesCalculator" input_stream: "IMAGE:same"
      output_stream: "SIZE:size" }
    node { calculator: "ImageTransformationCalculator" input_stream: "IMAGE:in"
      input_stream: "OUTPUT_DIMENSIONS:size" output_stream: "IMAGE:scaled" }
    node { calculator: "FromImageCalculator" input_stream: "IMAGE:scaled"
      output_stream: "IMAGE_CPU:out" output_stream: "SOURCE_ON_GPU:gpu" }
    """
    found = run(text, {"in": image(8, 6), "small": image(4, 3)}, "out size gpu")
    assert (found["size"], found["gpu"]) == ([(4, 3)], [False])
    assert (found["out"][0].width, found["out"][0].height) == (4, 3)


@pytest.mark.parametrize(
    ("name", "streams", "text"),
    [
        ("ToImageCalculator", ("IMAGE_GPU", "IMAGE"), "IMAGE_GPU would be on a GPU"),
        ("FromImageCalculator", ("IMAGE", "IMAGE_GPU"), "use the tag IMAGE_CPU"),
        ("AnnotationOverlayCalculator", ("INPUT_FRAME", "IMAGE"), "INPUT_FRAME .* is called IMAGE"),
        ("AnnotationOverlayCalculator", ("IMAGE", "OUTPUT_FRAME"), "OUTPUT_FRAME .* called IMAGE"),
        ("ImagePropertiesCalculator", ("FRAME", "SIZE"), "exactly one of the input streams IMAGE"),
        ("ToImageCalculator", ("FRAME", "IMAGE"), "exactly one of the input streams IMAGE"),
    ],
)
def test_impossible_streams_are_refused(name: str, streams: tuple[str, str], text: str) -> None:
    graph = (
        f'node {{ calculator: "{name}" input_stream: "{streams[0]}:in" '
        f'output_stream: "{streams[1]}:out" }}'
    )
    with pytest.raises(GraphError, match=text):
        run(graph, {"in": image(2, 2)})


def test_a_tag_for_a_gpu_beside_the_other_is_to_be_removed() -> None:
    streams = ['input_stream: "IMAGE:in"', 'input_stream: "IMAGE_GPU:in"']
    text = node(NAME, "", *streams, 'output_stream: "IMAGE:out"')
    with pytest.raises(GraphError, match=r"IMAGE_GPU .* remove it, the tag IMAGE is there"):
        run(text, {"in": image(2, 2)})


def test_a_clone_has_the_pixels_of_its_image() -> None:
    frame = image(8, 6)
    ports = ('input_stream: "in"', 'output_stream: "out"')
    (found,) = run(node("ImageCloneCalculator", "", *ports), {"in": frame})["out"]
    assert found == frame
    with pytest.raises(ValidationError, match="output_on_gpu: images on a GPU are not supported"):
        run(node("ImageCloneCalculator", "output_on_gpu: true", *ports), {"in": frame})


def written(text: str) -> Any:
    graph = 'node { calculator: "OpenCvPutTextCalculator" input_stream: "in" output_stream: "out" }'
    (found,) = run(graph, {"in": text})["out"]
    return found


def test_a_text_is_drawn_in_yellow_on_nothing() -> None:
    found = written("Hi")
    assert found.image_format is ImageFormat.SRGBA
    assert (found.width, found.height) == (640, 640)
    colors = {tuple(map(int, each)) for each in np.unique(found.pixels.reshape(-1, 4), axis=0)}
    assert colors == {(0, 0, 0, 0), (255, 255, 0, 255)}
    rows, columns = np.nonzero(found.pixels[:, :, 3])
    # The foot of the letters is at (15, 70), and lines are four pixels wide.
    assert 68 <= rows.max() <= 73
    assert rows.min() > 30
    assert 15 <= columns.min() <= 25
    assert columns.max() < 90
    assert not written("").pixels.any()


def test_a_text_beyond_the_image_is_cut() -> None:
    assert written("i" * 1_000_000) == written("i" * 640)
