"""Pictures as the vision tower reads them, in Qwen2-VL's order, and the shapes in each token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .pictures import COLOURS, SHAPES, Picture, Pixels, inside

PATCH = 8  # pixels, each way
MERGE = 2  # patches, each way, that become one token
FRAMES = 2  # an image counts as a video of two equal frames
UNIT = PATCH * MERGE
LEAST, MOST = 64 * 48, 64 * 64  # pixels of a picture after it was resized
#: Sizes (width, height) that pictures of usual proportions are resized to.
SIZES = ((64, 64), (64, 48), (48, 64), (80, 48), (48, 80))


def patches(pixels: Pixels) -> npt.NDArray[np.float32]:
    """Patches (height / PATCH * width / PATCH, 3 * FRAMES * PATCH * PATCH), from -1 to 1."""
    height, width, channels = pixels.shape
    planes = (pixels.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)
    cells = planes.reshape(
        channels, height // UNIT, MERGE, PATCH, width // UNIT, MERGE, PATCH
    ).transpose(1, 4, 2, 5, 0, 3, 6)
    flat = cells.reshape(-1, channels, 1, PATCH * PATCH)
    return np.ascontiguousarray(np.repeat(flat, FRAMES, axis=2).reshape(len(flat), -1))


def tokens(pixels: Pixels) -> int:
    height, width, _ = pixels.shape
    return int(height // UNIT * (width // UNIT))


def truth(picture: Picture) -> npt.NDArray[np.int64]:
    """Shape in the middle of each token, len(SHAPES) for none, and colour: (tokens, 2)."""
    down, across = (size // UNIT for size in picture.pixels.shape[:2])
    y, x = np.mgrid[0:down, 0:across]
    y, x = (y + 0.5) / down, (x + 0.5) / across
    kinds = np.full(y.shape, len(SHAPES))
    colours = np.full(y.shape, list(COLOURS).index(picture.background))
    for shape in picture.shapes:
        there = inside(shape, x, y)
        kinds[there] = SHAPES.index(shape.kind)
        colours[there] = list(COLOURS).index(shape.colour)
    return np.stack([kinds.ravel(), colours.ravel()], axis=1)
