"""Videos of a few colours, made cheaply; they need PyAV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

RED: Final = (200, 30, 60)
BLUE: Final = (20, 20, 220)


def video(
    colours: Sequence[Any] = (RED, BLUE),
    *,
    form: str = "mp4",
    codec: str = "mpeg4",
    seconds: float = 2,
    rate: int = 10,
    size: tuple[int, int] = (64, 48),
    key_frames: int = 10,
) -> bytes:
    """Return a video file that shows each colour for an equal time.

    Args:
        key_frames: frames from one key frame to the next.
    """
    import av

    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        stream.codec_context.gop_size = key_frames
        count = round(seconds * rate)
        for number in range(count):
            pixels = np.full((size[1], size[0], 3), colours[number * len(colours) // count])
            frame = av.VideoFrame.from_ndarray(pixels.astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()
