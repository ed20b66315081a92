"""Pictures of coloured shapes on noisy backgrounds, with the true boxes. Needs only numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LABELS = ("circle", "square", "triangle")
SIZE = 96
_MOST_SHAPES = 4
_TRIES = 40


class Truth(NamedTuple):
    """A shape: the index of its label, and its box in fractions of the picture."""

    label: int
    ymin: float
    xmin: float
    ymax: float
    xmax: float


class Picture(NamedTuple):
    """``pixels`` is (height, width, 3), uint8, RGB."""

    pixels: npt.NDArray[np.uint8]
    truths: list[Truth]


def picture(rng: np.random.Generator, width: int = SIZE, height: int = SIZE) -> Picture:
    """Return a new picture with one to four shapes that hardly overlap."""
    pixels = _background(rng, width, height)
    truths: list[Truth] = []
    wanted = int(rng.integers(1, _MOST_SHAPES + 1))
    for _ in range(_TRIES):
        if len(truths) == wanted:
            break
        label = int(rng.integers(len(LABELS)))
        extent = rng.uniform(0.17, 0.55)
        stretch = rng.uniform(0.85, 1.18) if label else 1.0
        box_height = min(0.95, extent / stretch)
        ymin, xmin = rng.uniform(0.01, 0.99 - box_height), rng.uniform(0.01, 0.99 - extent)
        truth = Truth(label, ymin, xmin, ymin + box_height, xmin + extent)
        if any(_touch(truth, other) for other in truths):
            continue
        _draw(pixels, truth, rng)
        truths.append(truth)
    noise = rng.normal(0.0, rng.uniform(3.0, 14.0), pixels.shape)
    return Picture(np.clip(pixels + noise, 0, 255).astype(np.uint8), truths)


def _touch(a: Truth, b: Truth) -> bool:
    gap = -0.02
    return (
        min(a.ymax, b.ymax) - max(a.ymin, b.ymin) > gap
        and min(a.xmax, b.xmax) - max(a.xmin, b.xmin) > gap
    )


def _background(rng: np.random.Generator, width: int, height: int) -> npt.NDArray[np.float64]:
    """Return a colour that changes over the picture, with smooth blots."""
    y, x = _grid(width, height)
    corner, across, down = rng.uniform(0, 255, 3), rng.uniform(-90, 90, 3), rng.uniform(-90, 90, 3)
    found = corner + x[..., None] * across + y[..., None] * down
    for _ in range(int(rng.integers(0, 4))):
        cy, cx, reach = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.1, 0.4)
        blot = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / reach**2)
        found = found + blot[..., None] * rng.uniform(-60, 60, 3)
    return np.clip(found, 0, 255)


def _draw(pixels: npt.NDArray[np.float64], truth: Truth, rng: np.random.Generator) -> None:
    y, x = _grid(pixels.shape[1], pixels.shape[0])
    # Coordinates within the box, from -1 to 1.
    v = 2 * (y - truth.ymin) / (truth.ymax - truth.ymin) - 1
    u = 2 * (x - truth.xmin) / (truth.xmax - truth.xmin) - 1
    if truth.label == 0:
        inside = u**2 + v**2 <= 1
    elif truth.label == 1:
        inside = (abs(u) <= 1) & (abs(v) <= 1)
    else:
        inside = (abs(v) <= 1) & (abs(u) <= (v + 1) / 2)
    around = pixels[inside].mean(axis=0) if inside.any() else np.full(3, 128.0)
    colour: npt.NDArray[Any] = rng.uniform(0, 255, 3)
    while np.linalg.norm(colour - around) < 110:
        colour = rng.uniform(0, 255, 3)
    pixels[inside] = colour


def _grid(width: int, height: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the centre of each pixel, in fractions of the picture: y, x."""
    y, x = np.mgrid[0:height, 0:width]
    return (y + 0.5) / height, (x + 0.5) / width
