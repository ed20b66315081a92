"""Sizes of images: their texts, and the size for an image of any shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.images.image_generation.sizes import SIDE_STEP, Size, parse_size, size_near

SIDES = st.integers(1, 30_000)
BOUNDS = st.integers(1, 600).map(lambda steps: steps * SIDE_STEP)


def test_a_size_is_width_and_height() -> None:
    assert parse_size("1024x512") == Size(1024, 512)
    assert str(Size(1024, 512)) == "1024x512"
    assert parse_size("auto") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1024", "size field is not in correct format - WxH"),
        ("", "size field is not in correct format - WxH"),
        ("x", "size field is not in correct format - WxH"),
        ("axb", "size field is not in correct format - WxH"),
        ("64x64x3", "size field is not in correct format - WxH"),
        (" 64x64", "size field is not in correct format - WxH"),
        ("6٤x64", "size field is not in correct format - WxH"),
        ("9" * 30 + "x1", "size field is not in correct format - WxH"),
        ("0x64", "size field values must be greater than 0"),
        ("64x-8", "size field values must be greater than 0"),
    ],
)
def test_other_texts_are_refused_in_the_words_of_openvino_model_server(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        parse_size(text)
    assert str(caught.value) == message


@given(SIDES, SIDES, BOUNDS, BOUNDS)
def test_the_size_for_an_image_is_drawable_and_within_the_bounds(
    width: int, height: int, most_width: int, most_height: int
) -> None:
    largest = Size(most_width, most_height)
    size = size_near(width, height, largest)
    assert size.is_drawable
    assert size.fits(largest)


@pytest.mark.parametrize(
    ("image", "size"),
    [
        ((64, 64), (64, 64)),
        ((61, 50), (64, 48)),
        ((1, 1), (8, 8)),
        ((1000, 500), (512, 256)),
        ((5000, 100), (512, 8)),
    ],
)
def test_an_image_keeps_about_its_shape(image: tuple[int, int], size: tuple[int, int]) -> None:
    assert size_near(*image, Size(512, 512)) == size
