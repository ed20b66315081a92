"""Pictures of coloured shapes on plain backgrounds, with their contents. Needs only numpy."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

SHAPES = ("circle", "square", "triangle")
#: RGB values that people mean by a colour's name.
COLOURS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "red": ((255, 0, 0), (220, 20, 40), (200, 0, 0), (230, 50, 50)),
    "green": ((0, 128, 0), (0, 200, 0), (40, 160, 70), (0, 255, 0), (20, 100, 30)),
    "blue": ((0, 0, 255), (30, 80, 220), (0, 0, 160), (60, 110, 240)),
    "yellow": ((255, 255, 0), (250, 220, 20), (240, 230, 70)),
    "orange": ((255, 165, 0), (255, 130, 0), (245, 140, 40)),
    "purple": ((128, 0, 128), (160, 32, 220), (110, 40, 150)),
    "black": ((0, 0, 0), (20, 20, 20)),
    "white": ((255, 255, 255), (240, 240, 240)),
    "grey": ((128, 128, 128), (160, 160, 160), (105, 105, 105)),
}
_SPREAD = 12  # how far each channel may be from one of these values
_APART = 0.14  # of the picture's width: closer centres have no clear left and right
_TRIES = 60


class Shape(NamedTuple):
    """A shape: its place and extent in fractions of the picture's width and height."""

    colour: str
    kind: str
    x: float
    y: float
    extent: float

    @property
    def name(self) -> str:
        return f"{self.colour} {self.kind}"


class Picture(NamedTuple):
    """``pixels`` is (height, width, 3), RGB; ``shapes`` go from left to right."""

    pixels: Pixels
    background: str
    shapes: tuple[Shape, ...]


def picture(rng: random.Random, width: int, height: int, count: int | None = None) -> Picture:
    """Return a new picture of ``count`` shapes; of zero to three if no count is given."""
    if count is None:
        count = rng.choices((0, 1, 2, 3), (1, 8, 5, 3))[0]
    background = rng.choice(list(COLOURS))
    shapes = _placed(rng, background, count)
    return Picture(draw(shapes, background, width, height, rng), background, shapes)


def _placed(rng: random.Random, background: str, count: int) -> tuple[Shape, ...]:
    colours = [name for name in COLOURS if name != background]
    kinds = rng.sample(SHAPES, count) if rng.random() < 0.85 else rng.choices(SHAPES, k=count)
    while True:
        shapes: list[Shape] = []
        for _ in range(_TRIES):
            if len(shapes) == count:
                return tuple(sorted(shapes, key=lambda shape: shape.x))
            extent = rng.uniform(0.28, 0.85) if count == 1 else rng.uniform(0.24, 0.42)
            place = 0.02 + extent / 2
            new = Shape(
                rng.choice(colours),
                kinds[len(shapes)],
                rng.uniform(place, 1 - place),
                rng.uniform(place, 1 - place),
                extent,
            )
            if not any(_too_close(new, other) for other in shapes):
                shapes.append(new)


def _too_close(a: Shape, b: Shape) -> bool:
    across, down = abs(a.x - b.x), abs(a.y - b.y)
    return across < _APART or max(across, down) < (a.extent + b.extent) / 2 + 0.03


def draw(
    shapes: tuple[Shape, ...],
    background: str,
    width: int,
    height: int,
    rng: random.Random | None = None,
) -> Pixels:
    """Draw (height, width, 3); with ``rng`` the colours vary, and half of the edges are smooth."""
    finer = 2 if rng is None or rng.random() < 0.5 else 1
    y, x = np.mgrid[0 : height * finer, 0 : width * finer]
    y, x = (y + 0.5) / (height * finer), (x + 0.5) / (width * finer)
    pixels = np.empty((height * finer, width * finer, 3))
    pixels[:] = _value(background, rng)
    for shape in shapes:
        pixels[inside(shape, x, y)] = _value(shape.colour, rng)
    whole = pixels.reshape(height, finer, width, finer, 3).mean(axis=(1, 3))
    found: Pixels = np.clip(np.rint(whole), 0, 255).astype(np.uint8)
    return found


def inside(shape: Shape, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which points, in fractions of the picture's width and height, the shape covers."""
    # Coordinates within the shape's box, from -1 to 1.
    u = 2 * (x - shape.x) / shape.extent
    v = 2 * (y - shape.y) / shape.extent
    if shape.kind == "circle":
        return np.asarray(u**2 + v**2 <= 1)
    if shape.kind == "square":
        return np.asarray((abs(u) <= 1) & (abs(v) <= 1))
    return np.asarray((abs(v) <= 1) & (abs(u) <= (v + 1) / 2))


def _value(colour: str, rng: random.Random | None) -> tuple[int, ...]:
    values = COLOURS[colour]
    if rng is None:
        return values[0]
    return tuple(part + rng.randint(-_SPREAD, _SPREAD) for part in rng.choice(values))
