"""Frames on a byte stream: four bytes of length, little-endian, then that many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

HEADER: Final = 4

#: No message of ours comes near it; a length beyond it means the stream is out of step.
MAX_FRAME: Final = 256 * 1024 * 1024


class FramingError(Exception):
    """The bytes are no frames: the other side speaks something else."""


def framed(body: bytes) -> bytes:
    """A message with its length in front."""
    return len(body).to_bytes(HEADER, "little") + body


class FrameBuffer:
    """Cuts what arrives into frames, however it was split on the way."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are now complete.

        Raises:
            FramingError: a frame claims to be longer than `MAX_FRAME`.
        """
        data = self._rest + data if self._rest else data
        place = 0
        while len(data) - place >= HEADER:
            length = int.from_bytes(data[place : place + HEADER], "little")
            if length > MAX_FRAME:
                raise FramingError(f"a frame of {length} bytes; the limit is {MAX_FRAME}")
            end = place + HEADER + length
            if end > len(data):
                break
            yield data[place + HEADER : end]
            place = end
        self._rest = data[place:]
