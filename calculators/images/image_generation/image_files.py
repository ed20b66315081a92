"""Files of images, read for the library and written for clients; in the process that draws."""

from __future__ import annotations

import base64
import io
from typing import Any, Final

import numpy as np
from PIL import Image as Pillow

from calculators.images.image_generation.pipelines import Pixels
from calculators.images.image_generation.sizes import Size
from calculators.images.media.decoding import open_picture, rgb_of

_WHITE: Final = 255


def read_image(data: bytes) -> Any:
    """Return the picture of a file, RGB, on white where it is transparent.

    Raises:
        ValueError: it is no picture, is broken, or too large; the text is for the client.
    """
    return rgb_of(open_picture(data))


def read_mask(data: bytes) -> Any:
    """Return the mask of a file: white where the image is to be drawn anew.

    A picture with transparent pixels is a mask as OpenAI's API has it: those pixels are drawn anew.
    Any other is a mask as the library has it: white pixels are.

    Raises:
        ValueError: as `read_image`.
    """
    picture = open_picture(data)
    if picture.has_transparency_data:
        alpha = np.asarray(picture.convert("RGBA").getchannel("A"))
        if alpha.min() < _WHITE:
            return Pillow.fromarray(_WHITE - alpha)
    return rgb_of(picture).convert("L")


def pixels_of(picture: Any, size: Size, *, is_mask: bool = False) -> Pixels:
    """Return a picture as the library takes it: [1, height, width, 3], scaled to ``size``."""
    if picture.size != tuple(size):
        how = Pillow.Resampling.NEAREST if is_mask else Pillow.Resampling.LANCZOS
        picture = picture.resize(tuple(size), how)
    return np.asarray(picture.convert("RGB"), np.uint8)[np.newaxis].copy()


def write_image(pixels: Pixels, output_format: str, quality: int) -> bytes:
    """Return a file in base64.

    Args:
        pixels: [height, width, 3]
        output_format: "png", "jpeg" or "webp"; "raw" returns the bytes of the pixels.
        quality: 0 to 100, for JPEG and WebP.
    """
    if output_format == "raw":
        return pixels.tobytes()
    file = io.BytesIO()
    picture = Pillow.fromarray(pixels)
    match output_format:
        case "jpeg":
            # Pillow takes 0 for its default.
            picture.save(file, "JPEG", quality=max(quality, 1))
        case "webp":
            picture.save(file, "WEBP", quality=quality)
        case _:
            picture.save(file, "PNG")
    return base64.b64encode(file.getbuffer())
