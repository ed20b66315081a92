"""A client that sends given bytes and returns the whole answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.http import HttpFront, HttpSettings, start_front
from servers.operations.request_log import RequestJournal


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """Return OpenAI's error object, after checking its four members."""
        error = self.json["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        return error


def request_bytes(
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    version: str = "1.1",
) -> bytes:
    fields = {"Host": "localhost", "Content-Length": str(len(body)), **(headers or {})}
    lines = [f"{method} {path} HTTP/{version}", *(f"{k}: {v}" for k, v in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def chat_bytes(
    model: object = "echo",
    *,
    path: str = "/v3/chat/completions",
    headers: Mapping[str, str] | None = None,
    version: str = "1.1",
    **fields: Any,
) -> bytes:
    body = json.dumps({"model": model, **fields}).encode()
    headers = {"Content-Type": "application/json", **(headers or {})}
    return request_bytes("POST", path, body, headers, version)


class HttpClient:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, front: HttpFront, *, receive_buffer: int = 0, place: int = 0) -> Self:
        """``place``: of the address among the addresses of the front."""
        peer = socket.socket()
        if receive_buffer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(peer, front.addresses[place])
        except OSError:
            peer.close()
            raise
        limit = 2**12 if receive_buffer else 2**16
        return cls(*await asyncio.open_connection(sock=peer, limit=limit))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the next status and headers, the names in lower case."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.rstrip("\r\n").split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        return int(status_line.split(" ")[1]), {name.lower(): value for name, value in pairs}

    async def chunk(self) -> bytes:
        """Read the next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def reply(self, *, has_body: bool = True) -> Reply:
        status, headers = await self.head()
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while piece := await self.chunk():
                body += piece
        elif has_body and "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif has_body and status not in (204, 304):
            body = await self.reader.read()
        return Reply(status, headers, body)

    async def ask(self, data: bytes) -> Reply:
        self.send(data)
        return await self.reply()

    async def wait_closed_by_server(self) -> bytes:
        """Read until the server closes the connection; return the bytes."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def abort(self) -> None:
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


@asynccontextmanager
async def serving(plane: DataPlane, **settings: Any) -> AsyncIterator[HttpFront]:
    room: BodyRoom | None = settings.pop("room", None)
    journal: RequestJournal | None = settings.pop("journal", None)
    front = await start_front(
        plane, HttpSettings(**{"port": 0, **settings}), journal=journal, room=room
    )
    try:
        yield front
    finally:
        await front.close()


@asynccontextmanager
async def connected(
    front: HttpFront, *, receive_buffer: int = 0, place: int = 0
) -> AsyncIterator[HttpClient]:
    client = await HttpClient.connect(front, receive_buffer=receive_buffer, place=place)
    try:
        yield client
    finally:
        await client.close()


async def ask(front: HttpFront, data: bytes) -> Reply:
    """Send one request on a connection of its own."""
    async with connected(front) as client:
        return await client.ask(data)
