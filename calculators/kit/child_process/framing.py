"""Frames on a byte stream: four bytes of length, little-endian, then that many bytes."""

from __future__ import annotations

from typing import Final, TypeAlias

HEADER: Final = 4

#: Far beyond any message; a greater length means that the stream is out of step.
MAX_FRAME: Final = 256 * 1024 * 1024

#: Pieces shorter than this are joined before they are sent: a copy is cheaper than a call.
SHORT: Final = 64 * 1024

_STAGE: Final = 256 * 1024

Frame: TypeAlias = bytes | bytearray
#: Anything whose length is its number of bytes.
Piece: TypeAlias = bytes | bytearray | memoryview


class FramingError(Exception):
    """The bytes are not frames: the other side speaks another protocol."""


def framed(*pieces: Piece) -> list[Piece]:
    """Return the buffers to send for a message in pieces, its length first.

    Long pieces are not copied.
    """
    length = sum(map(len, pieces))
    made: list[Piece] = []
    short: list[Piece] = [length.to_bytes(HEADER, "little")]
    for piece in pieces:
        if len(piece) < SHORT:
            short.append(piece)
            continue
        if short:
            made.append(b"".join(short))
            short = []
        made.append(piece)
    if short:
        made.append(b"".join(short))
    return made


class FrameBuffer:
    """Cuts received bytes into frames, however they were split on the way.

    Bytes are received into `room`. A long frame gets memory of its own there, so that it is not
    copied again.
    """

    def __init__(self) -> None:
        self._stage = bytearray(_STAGE)
        # The received bytes of the stage that are in no frame yet.
        self._begin = self._end = 0
        self._long: bytearray | None = None
        self._filled = 0

    def room(self, sizehint: int = -1) -> memoryview:
        """Return the buffer for the next bytes; never empty. Report their number to `received`.

        ``sizehint``: as in `asyncio.BufferedProtocol.get_buffer`; it has no effect.
        """
        if self._long is not None:
            return memoryview(self._long)[self._filled :]
        return memoryview(self._stage)[self._end :]

    def received(self, count: int) -> list[Frame]:
        """The frames that are complete now that ``count`` more bytes are in `room`.

        Raises:
            FramingError: a frame claims to be longer than `MAX_FRAME`.
        """
        if self._long is not None:
            self._filled += count
            if self._filled == len(self._long):
                frame, self._long = self._long, None
                return [frame]
            return []
        frames: list[Frame] = []
        self._end += count
        while self._end - self._begin >= HEADER:
            begin = self._begin + HEADER
            length = int.from_bytes(self._stage[self._begin : begin], "little")
            if length > MAX_FRAME:
                raise FramingError(f"a frame of {length} bytes; the limit is {MAX_FRAME}")
            if begin + length > self._end:
                if length >= SHORT:
                    self._begin_long(begin, length)
                break
            self._begin = begin + length
            # A list and not a generator: resuming it for each frame was one more call on the way of
            # every token (decision 0048).
            frames.append(bytes(memoryview(self._stage)[begin : self._begin]))
        rest = self._end - self._begin
        self._stage[:rest] = self._stage[self._begin : self._end]
        self._begin, self._end = 0, rest
        return frames

    def _begin_long(self, begin: int, length: int) -> None:
        """Begin a frame of which only the beginning is in the stage."""
        # Images and sounds of many MiB are received into their own memory, without the copy out of
        # the stage.
        self._long = bytearray(length)
        self._filled = self._end - begin
        self._long[: self._filled] = memoryview(self._stage)[begin : self._end]
        self._begin = self._end
