"""The transport of an MCP server that is a program: its messages are bounded before they are read.

The one of ``mcp`` collects a line however long it gets (mcp 2.3): a tool that prints a gigabyte
takes that memory and the session with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from calculators.language.server_tools.call_limits import MAX_MESSAGE

_PR_SET_PDEATHSIG: Final = 1
#: Found before the fork: after it nothing may be loaded.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None
#: Seconds that a server has to end after its input is closed.
_END_SECONDS: Final = 2.0
#: Bytes of a server's standard error that are logged in each `_PERIOD` seconds.
_LOGGED: Final = 16 * 1024
_PERIOD: Final = 60.0
_AT_ONCE: Final = 16 * 1024

#: Streams of messages from the server and to it.
Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class StdioServer:
    """One life of a server's program.

    Attributes:
        ended: set when the program can answer no more.
        reason: why it was ended; "" if it ended by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        directory: str,
        log: Callable[[str], None],
    ) -> None:
        self._command = command
        self._env = env
        self._directory = directory
        self._log = log
        self.ended = asyncio.Event()
        self.reason = ""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Streams]:
        """Start the program; when the context is left it is ended, with all that it started.

        Raises:
            OSError: it cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env={**get_default_environment(), **self._env},
            limit=MAX_MESSAGE,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._read(process, received)),
            asyncio.create_task(self._write(process, to_send)),
            asyncio.create_task(self._read_errors(process)),
        ]
        try:
            yield incoming, outgoing
        finally:
            end = _end(process, tasks, at_once=bool(self.reason))
            await asyncio.shield(asyncio.create_task(end))
            for stream in (received, incoming, outgoing, to_send):
                stream.close()

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        received: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdout is not None
        try:
            while True:
                line = await process.stdout.readline()
                if not line:
                    return
                if not line.strip():
                    continue
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    self._log("it wrote a line that is no message; servers log to standard error")
                    await received.send(error)
                    continue
                await received.send(SessionMessage(message))
        except ValueError:  # the line is longer than the limit
            self.reason = "it sent more than 1 MiB in one message"
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        finally:
            self.ended.set()
            received.close()

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        to_send: MemoryObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdin is not None
        try:
            async for message in to_send:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                await process.stdin.drain()
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self.ended.set()

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        """Log the server's standard error, and drop what exceeds the rate."""
        assert process.stderr is not None
        loop = asyncio.get_running_loop()
        until, left = loop.time(), _LOGGED
        while data := await process.stderr.read(_AT_ONCE):
            if loop.time() >= until:
                until, left = loop.time() + _PERIOD, _LOGGED
            if left > 0:
                self._log(data[:left].decode("utf-8", "backslashreplace").rstrip())
                if len(data) >= left:
                    self._log("it writes too much to its standard error; the rest is not logged")
            left -= len(data)


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _end(
    process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]], *, at_once: bool
) -> None:
    """End a program as MCP says: close its input, wait, then kill it with all that it started."""
    assert process.stdin is not None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(OSError):
        process.stdin.close()
    if not at_once:
        await _until_gone(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await _until_gone(process)


async def _until_gone(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a program, or for `_END_SECONDS`: a pipe may outlive it elsewhere."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)
