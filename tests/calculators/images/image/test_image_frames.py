"""`ImageFrame`: made from arrays, and compatible with MediaPipe's class of that name."""

from __future__ import annotations

import numpy as np
import pytest

from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame, format_of
from graph_runtime import Code


def test_attributes_are_those_of_mediapipe() -> None:
    frame = ImageFrame(image_format=ImageFormat.SRGB48, data=np.zeros((4, 6, 3), np.uint16))
    assert (frame.width, frame.height, frame.channels, frame.byte_depth) == (6, 4, 3, 2)
    assert frame.image_format == ImageFormat.SRGB48
    assert frame.numpy_view().shape == (4, 6, 3)
    assert frame.is_contiguous()
    assert not frame.is_empty()
    assert repr(frame) == "<ImageFrame SRGB48 6x4>"


def test_an_image_of_one_channel_has_no_channel_axis() -> None:
    for shape in ((4, 6), (4, 6, 1)):
        frame = ImageFrame(ImageFormat.GRAY8, np.zeros(shape, np.uint8))
        assert frame.numpy_view().shape == (4, 6)
        assert frame.pixels.shape == (4, 6, 1)


def test_an_image_frame_is_read_only() -> None:
    data = np.zeros((2, 2, 3), np.uint8)
    frame = ImageFrame(ImageFormat.SRGB, data)
    data[:] = 9
    assert frame.numpy_view().max() == 0
    with pytest.raises(ValueError, match="read-only"):
        frame.numpy_view()[0, 0, 0] = 1


def test_read_only_arrays_are_not_copied() -> None:
    data = np.frombuffer(bytes(12), np.uint8).reshape(2, 2, 3)
    assert np.shares_memory(ImageFrame(ImageFormat.SRGB, data).pixels, data)
    own = np.zeros((2, 2, 3), np.uint8)
    assert np.shares_memory(ImageFrame.owning(ImageFormat.SRGB, own).pixels, own)


def test_equal_pixels_of_one_format_are_equal() -> None:
    data = np.zeros((2, 2, 4), np.uint8)
    assert ImageFrame(ImageFormat.SRGBA, data) == ImageFrame(ImageFormat.SRGBA, data.copy())
    assert ImageFrame(ImageFormat.SRGBA, data) != ImageFrame(ImageFormat.SBGRA, data)


@pytest.mark.parametrize(
    ("dtype", "channels", "expected"),
    [
        ("uint8", 1, "GRAY8"),
        ("uint8", 3, "SRGB"),
        ("int8", 4, "SRGBA"),
        ("uint16", 1, "GRAY16"),
        ("int16", 3, "SRGB48"),
        ("float16", 4, "SRGBA64"),
        ("float32", 1, "VEC32F1"),
        ("float32", 2, "VEC32F2"),
        ("float32", 4, "VEC32F4"),
    ],
)
def test_the_format_follows_from_the_tensor(dtype: str, channels: int, expected: str) -> None:
    frame = ImageFrame.of_tensor(np.zeros((2, 3, channels), dtype))
    assert frame.image_format.name == expected
    assert frame.numpy_view().dtype == frame.image_format.dtype


@pytest.mark.parametrize(
    ("dtype", "shape", "text"),
    [
        ("uint8", (2, 3), "an image has 3 dimensions, height, width and channels, not 2"),
        ("uint8", (2, 3, 2), "type uint8 has 2 channels; it has 1, 3 or 4"),
        (
            "float32",
            (2, 3, 3),
            "type float32 has 3 channels; it has 1, 2 or 4; an RGB image is UINT8",
        ),
        ("float64", (2, 3, 3), "no image has elements of type float64"),
        ("uint8", (0, 3, 3), "an image has at least one pixel; this one is 3x0"),
        ("uint8", (2, 0, 3), "an image has at least one pixel; this one is 0x2"),
    ],
)
def test_tensors_that_are_not_images_are_refused(
    dtype: str, shape: tuple[int, ...], text: str
) -> None:
    with pytest.raises(ImageError, match=text) as caught:
        ImageFrame.of_tensor(np.zeros(shape, dtype))
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_data_that_contradicts_the_format_is_refused() -> None:
    with pytest.raises(ImageError, match=r"SRGB has the shape \(height, width, 3\).* \(2, 3, 4\)"):
        ImageFrame(ImageFormat.SRGB, np.zeros((2, 3, 4), np.uint8))
    with pytest.raises(ImageError, match="GRAY16 has elements of type uint16; this one has uint8"):
        ImageFrame(ImageFormat.GRAY16, np.zeros((2, 3), np.uint8))


def test_the_formats_have_mediapipes_numbers() -> None:
    assert {each.name: each.value for each in ImageFormat} == {
        "SRGB": 1,
        "SRGBA": 2,
        "GRAY8": 3,
        "GRAY16": 4,
        "SRGB48": 7,
        "SRGBA64": 8,
        "VEC32F1": 9,
        "LAB8": 10,
        "SBGRA": 11,
        "VEC32F2": 12,
        "VEC32F4": 13,
    }
    assert format_of(np.dtype(np.uint8), 3) is ImageFormat.SRGB
