"""An image of a request: before it is fetched, before it is decoded, and decoded; its limits.
A video is an image of several frames. The reference of a sound is here, too.

`pixels_of` estimates what decoding will cost, by the sizes in the files' headers, and checks
nothing. It runs in the server, where no decoder sees clients' data: it reads a few bytes at fixed
places, and for JPEG the lengths of its segments.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

#: Images in a request, images of earlier messages included.
MAX_IMAGES: Final = 16
#: Size of one image file, in bytes; OpenVINO Model Server's limit for downloads.
MAX_IMAGE_BYTES: Final = 20_000_000
#: Size of all image files of a request, in bytes: one message to the prompt process holds them.
MAX_REQUEST_BYTES: Final = 64_000_000
#: Pixels of one image; read from the file's header, before anything is decoded.
MAX_PIXELS: Final = 25_000_000
#: Pixels of a JPEG times its scans: a file may have any number of scans of a few bytes, each of
#: which passes over all pixels.
MAX_SCANNED_PIXELS: Final = 1_000_000_000
#: Pixels of all images of a request, counted once for each answer, as the engine gets them.
MAX_REQUEST_PIXELS: Final = 50_000_000
#: Pixels of all images of a request above which the large ones are reduced by whole factors before
#: a model gets them: models make less of them themselves, and their bytes pass three processes.
MAX_SENT_PIXELS: Final = 16_000_000
#: Videos in a request, which count as images too.
MAX_VIDEOS: Final = 4
#: Size of one video file, in bytes.
MAX_VIDEO_BYTES: Final = 50_000_000
#: Frames per second that a request may ask for.
MAX_FPS: Final = 60
#: Frames of one video that a model gets.
MAX_FRAMES: Final = 64
#: Pixels of all frames of a request's videos as a model gets them; larger frames are reduced.
MAX_VIDEO_PIXELS: Final = 12_000_000
#: Pixels of one frame in its file.
MAX_FRAME_PIXELS: Final = 9_000_000
#: Models cut images into squares, and refuse or misread an image that is nearly a line.
MAX_RATIO: Final = 200


class VideoSampling(msgspec.Struct, frozen=True, array_like=True):
    """The frames of a video that a model gets, as its own.

    Attributes:
        fps: frames per second, as long as they are not more than `MAX_FRAMES`. Models take two.
        start, end: of the part that is looked at, in seconds; None is the video's end.
    """

    fps: float = 2.0
    start: float = 0.0
    end: float | None = None


class ImageReference(NamedTuple):
    """The source of an image or a video, and the request's member that names it.

    Attributes:
        url: of a file; "" for a video whose frames are files of their own.
        video: set for videos.
        frames: the pictures of a video, in their order; `VideoSampling.fps` is then their rate.
    """

    url: str
    param: str
    video: VideoSampling | None = None
    frames: tuple[str, ...] = ()


class SoundReference(NamedTuple):
    """A sound file in Base64, maybe as a ``data:`` URL, and the request's member that has it."""

    data: str
    param: str


class EncodedImage(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of an image file, maybe as Base64; ``param``: the request's member, for errors.

    ``video`` and ``frames`` say the same as in an `ImageReference`.
    """

    param: str
    data: bytes
    is_base64: bool = False
    video: VideoSampling | None = None
    frames: tuple[EncodedImage, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return len(self.data) + sum(frame.size for frame in self.frames)


class Image(msgspec.Struct, frozen=True, array_like=True):
    """A decoded image. ``pixels``: RGB, uint8, of the shape (height, width, 3).

    A video has ``fps`` above 0, and ``pixels`` of the shape (frames, height, width, 3).
    """

    height: int
    width: int
    pixels: bytes
    fps: float = 0.0

    @property
    def pixel_count(self) -> int:
        """The number of pixels, of all frames."""
        return len(self.pixels) // 3


#: Bytes in which the size is looked for: JPEGs of cameras have a small picture before it.
_HEADER: Final = 64 * 1024
#: JPEG's markers of frames: C0 to CF except the markers of tables.
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def pixels_of(images: Sequence[EncodedImage]) -> int:
    """Return the number of pixels of all pictures, 0 for those whose header is not understood.

    Video files count nothing.
    """
    return sum(pixels_of(each.frames) if each.video else _pixels(each) for each in images)


def _pixels(image: EncodedImage) -> int:
    data = image.data[: _HEADER * 4 // 3 // 4 * 4 if image.is_base64 else _HEADER]
    try:
        if image.is_base64:
            data = base64.b64decode(data[: len(data) // 4 * 4])
        for begins, size in _READERS:
            if data.startswith(begins):
                width, height = size(data)
                return width * height
    except (binascii.Error, struct.error, IndexError, ValueError):
        pass
    return 0


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _bmp(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<ii", data, 18)
    return abs(width), abs(height)


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return (
            int.from_bytes(data[24:27], "little") + 1,
            int.from_bytes(data[27:30], "little") + 1,
        )
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, place)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + length


_READERS: Final[tuple[tuple[bytes, Callable[[bytes], tuple[int, int]]], ...]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8\xff", _jpeg),
    (b"RIFF", _webp),
    (b"GIF8", _gif),
    (b"BM", _bmp),
)
