"""`FrameProtocol`: one end of a connection by which frames travel, on an event loop."""

from __future__ import annotations

import asyncio
from typing import cast

from calculators.kit.child_process.framing import FrameBuffer, Piece, framed


class FrameProtocol(asyncio.BufferedProtocol):
    """Writes frames, and receives bytes into ``_buffer``. A subclass takes frames out of it.

    It implements ``buffer_updated``, and ``connection_lost``, which sets ``_transport`` to None.
    """

    def __init__(self) -> None:
        self._buffer = FrameBuffer()
        # Asked for each arrival of bytes, so it is the method itself.
        self.get_buffer = self._buffer.room  # type: ignore[method-assign]
        #: Frames of this turn of the event loop, in buffers.
        self._unsent: list[Piece] = []
        self._transport: asyncio.Transport | None = None

    def send(self, *pieces: Piece) -> None:
        """Send one frame, made of the pieces in order. The pieces must not change afterwards.

        All frames of one turn of the event loop are written at its end, by one call of the system.
        Does nothing if the other end is gone.
        """
        if self._transport is None or self._transport.is_closing():
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._write)
        self._unsent += framed(*pieces)

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(unsent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
