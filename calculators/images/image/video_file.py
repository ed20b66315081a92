"""Video files, read and written by OpenCV."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.images.image.opencv import opencv
from graph_runtime import Code, GraphError, NotFoundError

_log: Final = logging.getLogger(__name__)
#: The codec of MP4 files that every OpenCV can write.
_OF_ALL: Final = "mp4v"
_MP4: Final = frozenset({".mp4", ".m4v", ".mov"})
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
        ImageError: the file is not a video, or its codec is not known.
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
            raise ImageError(f'"{path}" is not a video that can be read')
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


def _opened(path: str, codec: str, frame_rate: float, size: tuple[int, int]) -> Any:
    """Return OpenCV's writer of a file; None if it cannot be opened."""
    cv2 = opencv()
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*codec), frame_rate, size)
    return writer if writer.isOpened() else None


def _why_not(path: str, codec: str) -> str:
    """Return why a video cannot be written, as the end of a sentence about its path."""
    folder = Path(path).parent
    if not folder.is_dir():
        return f'cannot be written: there is no folder "{folder}"'
    if Path(path).is_dir():
        return "cannot be written: it is a folder"
    if not os.access(folder, os.W_OK):
        return f'cannot be written: the folder "{folder}" is not writable'
    return (
        f"cannot be written as {codec}: this OpenCV does not have the codec, or files that end in "
        f"{Path(path).suffix!r} do not hold it. It can write mp4v into .mp4, and MJPG into .avi"
    )


class VideoWriter:
    """A video file that is being written.

    Args:
        codec: four characters, such as "mp4v". MP4 files of a codec that this OpenCV cannot write,
            as pip's cannot write H.264, are written as mp4v, with a warning.
        frame_rate: frames per second.
        size: width and height of all frames.

    Raises:
        GraphError: the file cannot be made (FAILED_PRECONDITION).
    """

    def __init__(self, path: str, codec: str, frame_rate: float, size: tuple[int, int]) -> None:
        self._size = size
        writer = _opened(path, codec, frame_rate, size)
        if writer is None and codec != _OF_ALL and Path(path).suffix.lower() in _MP4:
            writer = _opened(path, _OF_ALL, frame_rate, size)
            if writer is not None:
                _log.warning(
                    "%s is written as %s: this OpenCV cannot write %s", path, _OF_ALL, codec
                )
        if writer is None:
            raise GraphError(f'"{path}" {_why_not(path, codec)}', code=Code.FAILED_PRECONDITION)
        self._writer = writer

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
