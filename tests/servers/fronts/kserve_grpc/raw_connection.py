"""A connection that sends HTTP/2's frames as a test wants them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from servers.fronts.kserve_grpc.front import GrpcFront

_METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _GO_AWAY = 0, 1, 3, 4, 7
_END_HEADERS: Final = 4
_CANCEL: Final = 8


class RawConnection:
    """One connection; calls are of ``ModelInfer``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._stream = -1
        self._writer.write(_PREFACE)
        self._send(_SETTINGS, 0, 0, b"")

    def start_call(self) -> int:
        """Send the headers of a call; return its stream."""
        self._stream += 2
        fields = {":method": "POST", ":scheme": "http", ":path": _METHOD, ":authority": "x",
                  "te": "trailers", "content-type": "application/grpc"}  # fmt: skip
        block = b"".join(_literal(name) + _word(value) for name, value in fields.items())
        self._send(_HEADERS, _END_HEADERS, self._stream, block)
        return self._stream

    def send_data(self, data: bytes) -> None:
        """Send a frame of the last call."""
        self._send(_DATA, 0, self._stream, data)

    def reset(self, stream: int) -> None:
        self._send(_RESET, 0, stream, _CANCEL.to_bytes(4))

    def send_raw(self, data: bytes) -> None:
        """Send bytes that are whole frames."""
        self._writer.write(data)

    async def flush(self) -> None:
        await self._writer.drain()

    async def status(self) -> str:
        """Return the status that the gate gives to a call."""
        while True:
            kind, payload = await self._receive()
            if kind == _HEADERS and b"grpc-status" in payload:
                place = payload.index(b"grpc-status") + len(b"grpc-status")
                return payload[place + 1 : place + 1 + payload[place]].decode()

    async def goaway(self) -> int:
        """Return the code with which the server ends the connection."""
        while True:
            kind, payload = await self._receive()
            if kind == _GO_AWAY:
                return int.from_bytes(payload[4:8])

    def abort(self) -> None:
        self._writer.transport.abort()

    def _send(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)
        self._writer.write(head + payload)

    async def _receive(self) -> tuple[int, bytes]:
        head = await self._reader.readexactly(9)
        return head[3], await self._reader.readexactly(int.from_bytes(head[:3]))


def _literal(name: str) -> bytes:
    """Begin a header that is not indexed (RFC 7541, 6.2.2)."""
    return b"\0" + _word(name)


def _word(text: str) -> bytes:
    return bytes((len(text),)) + text.encode()


@asynccontextmanager
async def raw_connection(front: GrpcFront) -> AsyncIterator[RawConnection]:
    """Connect to a front."""
    reader, writer = await asyncio.open_connection(*front.addresses[0])
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.transport.abort()
