"""Writes the example pictures beside the model, as PNG files named after their contents."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from .pictures import Shape, draw

#: Name, background, width and height, and the shapes from left to right.
EXAMPLES: tuple[tuple[str, str, tuple[int, int], tuple[Shape, ...]], ...] = (
    ("red_circle", "white", (128, 128), (Shape("red", "circle", 0.5, 0.5, 0.6),)),
    ("blue_square", "white", (128, 128), (Shape("blue", "square", 0.45, 0.5, 0.5),)),
    ("green_triangle", "black", (160, 120), (Shape("green", "triangle", 0.5, 0.5, 0.7),)),
    (
        "yellow_circle_and_purple_square",
        "grey",
        (160, 120),
        (Shape("yellow", "circle", 0.28, 0.4, 0.38), Shape("purple", "square", 0.72, 0.6, 0.38)),
    ),
)


def write_examples(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, background, (width, height), shapes in EXAMPLES:
        pixels = draw(shapes, background, width, height)
        Image.fromarray(pixels).save(folder / f"{name}.png", optimize=True)
