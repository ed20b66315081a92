"""Regions of images that come again."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from calculators.images.image.image_tensors import Region, RegionSampler

IMAGE = np.random.default_rng(7).integers(0, 256, (480, 640, 3), np.uint8)


REGIONS = pytest.mark.parametrize(
    "region",
    [
        Region(320, 240, 640, 640),
        Region(300, 200, 180, 180, 0.3),
        Region(-40, 500, 700, 350, 2.0),
        Region(-500, 900, 200, 300, -0.5),
        Region(5e4, 5e4, 9e4, 9e4),
    ],
    ids=["whole", "turned", "half outside", "outside", "far outside"],
)
BORDERS = pytest.mark.parametrize("border", [cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE])


@REGIONS
@BORDERS
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_are_those_of_a_perspective_transformation(
    region: Region, border: int, channels: int
) -> None:
    image = np.random.default_rng(8).integers(0, 256, (480, 640, channels), np.uint8)
    corners = np.array([[0, 192], [0, 0], [224, 0], [224, 192]], np.float32)
    matrix = cv2.getPerspectiveTransform(region.corners(), corners)
    expected = cv2.warpPerspective(
        image, matrix, (224, 192), flags=cv2.INTER_LINEAR, borderMode=border
    )
    found = RegionSampler(224, 192, border).sample(image, region)
    assert np.array_equal(found, expected)


@REGIONS
@BORDERS
def test_a_region_that_comes_again_has_the_same_pixels(region: Region, border: int) -> None:
    sampler = RegionSampler(224, 192, border)
    first, *others = (sampler.sample(IMAGE, region) for _ in range(4))
    assert first.shape == (192, 224, 3)
    for other in others:
        assert np.array_equal(first, other)


def test_another_region_and_another_image_are_seen() -> None:
    sampler = RegionSampler(64, 64, cv2.BORDER_CONSTANT)
    here, there = Region(100, 100, 64, 64), Region(300, 100, 64, 64)
    for region in (here, here, here, there, here):
        left = int(region.center_x) - 32
        assert np.array_equal(sampler.sample(IMAGE, region), IMAGE[68:132, left : left + 64])
    assert np.array_equal(sampler.sample(IMAGE[::-1].copy(), here), IMAGE[::-1][68:132, 68:132])


def test_an_image_of_another_size_is_seen() -> None:
    sampler = RegionSampler(64, 64, cv2.BORDER_REPLICATE)
    region = Region(620, 460, 64, 64)
    for image in (IMAGE, IMAGE, IMAGE, IMAGE[:470, :610], IMAGE[:470, :610], IMAGE):
        image = np.ascontiguousarray(image)
        alone = RegionSampler(64, 64, cv2.BORDER_REPLICATE).sample(image, region)
        assert np.array_equal(sampler.sample(image, region), alone)
