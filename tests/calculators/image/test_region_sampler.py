"""Regions of images that come again."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from calculators.image.region import Region
from calculators.image.region_sampler import RegionSampler

IMAGE = np.random.default_rng(7).integers(0, 256, (480, 640, 3), np.uint8)


@pytest.mark.parametrize(
    "region",
    [
        Region(320, 240, 640, 640),
        Region(300, 200, 180, 180, 0.3),
        Region(-40, 500, 700, 350, 2.0),
        Region(5e4, 5e4, 9e4, 9e4),
    ],
    ids=["whole", "turned", "half outside", "far outside"],
)
@pytest.mark.parametrize("border", [cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE])
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
