"""Decoding of video files into frames, with PyAV. Runs in child processes only.

Frames are taken at equal distances. All frames before them have to be decoded, too; for a video in
which that takes long only key frames are, of which there is one every few seconds.
"""

from __future__ import annotations

import errno
import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from calculators.images.media.image import (
    MAX_FRAME_PIXELS,
    MAX_FRAMES,
    MAX_RATIO,
    MAX_VIDEO_BYTES,
    Image,
    VideoSampling,
)

#: The fewest frames of a video that has as many.
LEAST_FRAMES: Final = 4
#: Pixels of all decoded frames, from which on only key frames are decoded.
MAX_DECODED_PIXELS: Final = 600_000_000
#: Processor seconds for one video.
SECONDS: Final = 4.0
_NAMES: Final = "MP4, MOV, WebM, Matroska, AVI or GIF"
_QUICKTIME: Final = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
#: The only decoders that see clients' data, by FFmpeg's names of their codecs.
_CODECS: Final = ("h264", "hevc", "av1", "vp8", "vp9", "mpeg4", "mjpeg", "gif")
_OPTIONS: Final = {"codec_whitelist": ",".join((*_CODECS, "libdav1d", "libvpx", "libvpx-vp9"))}
#: Seconds by which the time of a frame may be rounded.
_ROUNDING: Final = 1e-3

Pixels = npt.NDArray[np.uint8]


class _Frame(NamedTuple):
    time: float
    pixels: Pixels


def decode_video(data: bytes, sampling: VideoSampling, most_pixels: int) -> Image:
    """Return frames of a video, as an image of several.

    Args:
        most_pixels: the most pixels of all frames; larger ones are reduced.

    Raises:
        ValueError: it is not a video that can be read, it is too large, or the part to look at is
            empty. The text is for the client, and leaves out FFmpeg's own.
    """
    if len(data) > MAX_VIDEO_BYTES:
        raise ValueError(f"the video is larger than {MAX_VIDEO_BYTES} bytes")
    container = _container(data)
    try:
        import av
    except ImportError:
        raise ValueError(
            "video files are not read on this server: it needs PyAV (the extra av); send the "
            "frames as pictures"
        ) from None
    with (
        _broken_is_value_error(av.FFmpegError),
        av.open(io.BytesIO(data), format=container, options=_OPTIONS) as opened,
    ):
        if not opened.streams.video:
            raise ValueError("there are no pictures in the file")
        stream = opened.streams.video[0]
        frames = _Sampler(opened, stream, sampling, most_pixels).frames()
    if not frames:
        raise ValueError("there is no frame in the part of the video that is looked at")
    height, width, _ = frames[0].pixels.shape
    pixels = b"".join(frame.pixels.tobytes() for frame in frames)
    seconds = frames[-1].time - frames[0].time
    return Image(height, width, pixels, (len(frames) - 1) / seconds if seconds else sampling.fps)


def _container(data: bytes) -> str:
    """Return FFmpeg's name of a file's form, by its first bytes: nothing else is tried."""
    if data[4:8] in _QUICKTIME:
        return "mov"
    if data.startswith(b"\x1aE\xdf\xa3"):
        return "matroska"
    if data.startswith(b"RIFF") and data[8:12] == b"AVI ":
        return "avi"
    if data.startswith(b"GIF8"):
        return "gif"
    raise ValueError(f"the data is not a video: {_NAMES}")


class _Sampler:
    """The frames of an open file."""

    def __init__(self, container: Any, stream: Any, sampling: VideoSampling, most: int) -> None:
        codec = stream.codec_context
        name = getattr(codec.codec, "canonical_name", codec.name)
        if name not in _CODECS:
            raise ValueError(f"videos of the codec {name} are not read")
        _check_size(codec.width, codec.height)
        codec.thread_count = 1
        self._container, self._stream, self._codec = container, stream, codec
        self._fps, self._begin = sampling.fps, sampling.start
        # What a file says of its length may leave out the time of its last frame.
        self._end = math.inf if sampling.end is None else sampling.end
        whole = _seconds(container, stream)
        length = min(self._end, whole) - self._begin
        if length <= 0:
            raise ValueError(f"the part to look at is empty: the video ends at {whole:.3g} seconds")
        count = min(max(length * self._fps, LEAST_FRAMES), MAX_FRAMES)
        self._distance = 1 / self._fps if math.isinf(length) else length / count
        self._share = most // math.ceil(count)
        expected = length * float(stream.average_rate or 0) * codec.width * codec.height
        if MAX_DECODED_PIXELS < expected < math.inf:
            codec.skip_frame = "NONKEY"
        self._decoded = 0

    def frames(self) -> list[_Frame]:
        """Decode, and return the frames that are taken."""
        taken: list[_Frame] = []
        wanted = self._begin
        for time, frame in self._all():
            if time >= self._end:
                break
            if time < wanted - _ROUNDING:
                continue
            taken.append(_Frame(time, self._pixels(frame)))
            if taken[-1].pixels.shape != taken[0].pixels.shape:
                raise ValueError("the size of the pictures changes within the video")
            if len(taken) > MAX_FRAMES:  # the file does not say how long it is
                taken = taken[::2]
                self._distance *= 2
                wanted = taken[-1].time
            while wanted <= time + _ROUNDING:
                wanted += self._distance
        return taken

    def _all(self) -> Iterator[tuple[float, Any]]:
        """Yield all frames with their times, in seconds from the first one of the file."""
        origin = float((self._stream.start_time or 0) * self._stream.time_base)
        if self._begin > 0:
            # The decoder begins with the last key frame before.
            place = int((origin + self._begin) / self._stream.time_base)
            self._container.seek(place, stream=self._stream)
        until = process_time() + SECONDS
        for number, frame in enumerate(self._container.decode(self._stream)):
            if process_time() > until:
                raise ValueError("the video takes too long to decode; send a part of it")
            _check_size(frame.width, frame.height)
            self._decoded += frame.width * frame.height
            if self._decoded > MAX_DECODED_PIXELS:
                self._codec.skip_frame = "NONKEY"
            time = number / self._fps if frame.time is None else frame.time - origin
            yield time, frame

    def _pixels(self, frame: Any) -> Pixels:
        scale = min(1.0, math.sqrt(self._share / (frame.width * frame.height)))
        width, height = max(1, int(frame.width * scale)), max(1, int(frame.height * scale))
        small = frame.reformat(width=width, height=height, format="rgb24", interpolation="AREA")
        pixels: Pixels = small.to_ndarray()
        # Telephones write pictures as the sensor lies.
        return np.rot90(pixels, round(frame.rotation / 90) % 4)


def _seconds(container: Any, stream: Any) -> float:
    if stream.duration:
        return float(stream.duration * stream.time_base)
    return container.duration / 1e6 if container.duration else math.inf


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_FRAME_PIXELS:
        raise ValueError(
            f"the video has {width} x {height} pixels; {MAX_FRAME_PIXELS} in all are the maximum"
        )
    if min(width, height) < 1 or max(width, height) > MAX_RATIO * min(width, height):
        raise ValueError(
            f"the video of {width} x {height} pixels is too narrow: one side may be {MAX_RATIO} "
            "times the other at most"
        )


@contextmanager
def _broken_is_value_error(broken: type[Exception]) -> Iterator[None]:
    try:
        yield
    except broken as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError from None
        raise ValueError("the video is broken, or a part of it is missing") from None
