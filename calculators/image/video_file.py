"""Video files, read and written by OpenCV."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.image.image_error import ImageError
from calculators.image.image_format import ImageFormat
from calculators.image.image_frame import ImageFrame
from calculators.image.opencv import opencv
from graph_runtime import Code, GraphError, NotFoundError

#: Tries of a frame that cannot be read, as in MediaPipe.
_TRIES: Final = 2


class VideoReader:
    """The frames of a video file, one after the other.

    Attributes:
        width, height: in pixels.
        frame_rate: frames per second.
        count: the number of frames, as the file says.
        frames: the number of frames that have been read.

    Raises:
        NotFoundError: there is no such file.
        ImageError: the file is no video, or its codec is not known.
    """

    def __init__(self, path: str) -> None:
        cv2 = opencv()
        if not os.path.isfile(path):
            raise NotFoundError(f'there is no video file "{path}"')
        self._video = cv2.VideoCapture(path)
        read = self._video.get
        self.width = int(read(cv2.CAP_PROP_FRAME_WIDTH))
        self.height = int(read(cv2.CAP_PROP_FRAME_HEIGHT))
        self.frame_rate = float(read(cv2.CAP_PROP_FPS))
        self.count = int(read(cv2.CAP_PROP_FRAME_COUNT))
        self.frames = 0
        if not self._video.isOpened() or min(self.width, self.height, self.frame_rate) <= 0:
            self.close()
            raise ImageError(f'"{path}" is no video that can be read')
        self._position = cv2.CAP_PROP_POS_MSEC
        self._last = -1

    def __iter__(self) -> Iterator[tuple[int, ImageFrame]]:
        """Yield the time of each frame in microseconds, rising, and the frame (SRGB).

        A file that is broken off ends where it breaks: `frames` is then less than `count`.
        """
        while (pixels := self._read()) is not None:
            # As MediaPipe: the position after the read; frames whose time does not rise are left
            # out.
            time = int(self._video.get(self._position) * 1000)
            self.frames += 1
            if time > self._last:
                self._last = time
                yield time, ImageFrame.owning(ImageFormat.SRGB, pixels)

    def _read(self) -> npt.NDArray[np.uint8] | None:
        for _ in range(_TRIES):
            is_read, pixels = self._video.read()
            if is_read and pixels is not None and pixels.size:
                cv2 = opencv()
                found: Any = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
                return np.asarray(found, np.uint8)
        return None

    def close(self) -> None:
        """Close the file."""
        self._video.release()


class VideoWriter:
    """A video file that is being written.

    Args:
        codec: four characters, such as "mp4v".
        frame_rate: frames per second.
        size: width and height of all frames.

    Raises:
        GraphError: the file cannot be made (FAILED_PRECONDITION).
    """

    def __init__(self, path: str, codec: str, frame_rate: float, size: tuple[int, int]) -> None:
        cv2 = opencv()
        self._size = size
        self._writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*codec), frame_rate, size)
        if not self._writer.isOpened():
            raise GraphError(
                f'"{path}" cannot be written as {codec}; its directory must exist, and its ending '
                f"{Path(path).suffix!r} must be one of a format that can hold {codec}",
                code=Code.FAILED_PRECONDITION,
            )

    def write(self, frame: ImageFrame) -> None:
        """Write a frame, SRGB, SRGBA or GRAY8.

        Raises:
            ImageError: it has another size or format.
        """
        if (frame.width, frame.height) != self._size:
            raise ImageError(
                f"the frames of a video have one size; the first was {self._size[0]}x"
                f"{self._size[1]}, this is {frame.width}x{frame.height}"
            )
        cv2 = opencv()
        codes = {
            ImageFormat.SRGB: cv2.COLOR_RGB2BGR,
            ImageFormat.SRGBA: cv2.COLOR_RGBA2BGR,
            ImageFormat.GRAY8: cv2.COLOR_GRAY2BGR,
        }
        if frame.image_format not in codes:
            raise ImageError(
                f"frames of the format {frame.image_format.name} cannot be written; the formats "
                f"are {', '.join(known.name for known in codes)}"
            )
        self._writer.write(cv2.cvtColor(frame.numpy_view(), codes[frame.image_format]))

    def close(self) -> None:
        """Finish the file."""
        self._writer.release()
