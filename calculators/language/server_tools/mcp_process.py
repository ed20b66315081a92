"""``python -m calculators.language.server_tools.mcp_process``: the sessions with MCP servers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from calculators.kit.child_process.framing import HEADER, Frame, framed
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild, plain
from calculators.kit.child_process.parent_connection import ParentGone, die_with_parent
from calculators.language.server_tools.mcp_session import CallFailed, McpSession, StartFailed
from calculators.language.server_tools.messages import (
    Abandon,
    CallTool,
    LoadServers,
    Result,
    ToolsReady,
    cut_error,
    cut_output,
    decode_question,
    encode,
)
from calculators.language.server_tools.path_rules import PathRefused

_LOGGER: Final = "graphrt.tools"


class McpProcess:
    """Starts the sessions, then makes the calls that the server requests, many at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sessions: dict[str, McpSession] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._max_output_bytes = 0

    async def run(self) -> None:
        """Answer until the server sends `StopChild`, or is gone."""
        try:
            async for frame in self._frames():
                match decode_question(frame):
                    case LoadServers() as load:
                        if not await self._load(load):
                            return
                    case CallTool() as call:
                        self._begin(call)
                    case Abandon(number):
                        if (task := self._calls.get(number)) is not None:
                            task.cancel()
                    case StopChild():
                        return
                    case _:
                        pass
        finally:
            await asyncio.gather(*(each.close() for each in self._sessions.values()))

    async def _frames(self) -> AsyncIterator[Frame]:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = int.from_bytes(await self._reader.readexactly(HEADER), "little")
                yield await self._reader.readexactly(length)

    async def _load(self, load: LoadServers) -> bool:
        self._max_output_bytes = load.max_output_bytes
        self._send(LoadingPhase("starting tool servers", 0.0, 1.0))
        for server in load.servers:
            self._sessions[server.label] = McpSession(
                server, load.directory, self._logger(server.label)
            )
        try:
            lists = await asyncio.gather(*(each.start() for each in self._sessions.values()))
        except StartFailed as error:
            self._send(LoadFailed(plain(str(error))))
            await self._writer.drain()
            return False
        self._send(ToolsReady([tool for tools in lists for tool in tools]))
        return True

    def _logger(self, label: str) -> Callable[[str], None]:
        return lambda text: self._send(
            Log(logging.WARNING, _LOGGER, plain(f'tool server "{label}": {text}'))
        )

    def _begin(self, call: CallTool) -> None:
        task = asyncio.create_task(self._make(call))
        self._calls[call.number] = task
        task.add_done_callback(lambda _: self._calls.pop(call.number, None))

    async def _make(self, call: CallTool) -> None:
        try:
            text = await self._sessions[call.server].call(call.tool, call.arguments, call.seconds)
            result = Result(call.number, cut_output(text, self._max_output_bytes), None)
        except (CallFailed, PathRefused) as failed:
            result = Result(call.number, "", cut_error(str(failed)))
        except Exception as error:
            result = Result(call.number, "", cut_error(library_reason(error)))
        self._send(result)

    def _send(self, message: msgspec.Struct) -> None:
        if not self._writer.is_closing():
            self._writer.writelines(framed(encode(message)))


async def _run(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    connection.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=connection)
    await McpProcess(reader, writer).run()
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:3])
    # The library logs messages of servers, and its own tracebacks.
    logging.basicConfig(level=logging.CRITICAL)
    with contextlib.suppress(ParentGone):
        die_with_parent(parent)
        asyncio.run(_run(descriptor))


if __name__ == "__main__":
    main()
