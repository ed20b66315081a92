"""`McpSession`: one MCP server, and the task that owns the session with it.

A server is reached by HTTP (`connect_http`), or it is a program (`StdioServer`). Messages of both
are bounded before they are read. The transport of ``mcp`` for programs collects a line however long
it gets (mcp 2.3): a tool that prints a gigabyte takes that memory, and the session with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import anyio
import httpx2
import mcp_types as types
import pydantic
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from calculators.kit.child_process.back_off import BackOff
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import plain
from calculators.kit.requests.json_depth import nests_deeper
from calculators.language.server_tools.messages import (
    ANSWER_SECONDS,
    MAX_AT_ONCE,
    MAX_MESSAGE,
    MAX_TOOLS,
    McpServerSettings,
    ToolSpec,
)
from calculators.language.server_tools.path_rules import PathRules

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
            # Decision 0058: a tool that prints a gigabyte must not take that memory.
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
            end = _end_program(process, tasks, at_once=bool(self.reason))
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
                    self._log(
                        "it wrote a line that is not a message; servers log to standard error"
                    )
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


async def _end_program(
    process: asyncio.subprocess.Process, tasks: Sequence[asyncio.Task[None]], *, at_once: bool
) -> None:
    """End a program as MCP says: close its input, wait, then kill it with all that it started."""
    assert process.stdin is not None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(OSError):
        process.stdin.close()
    if not at_once:
        await _until_gone(process)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await _until_gone(process)


async def _until_gone(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a program, or for `_END_SECONDS`: a pipe may outlive it elsewhere."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)


_CONNECT_SECONDS: Final = 10.0


class MessageTooLong(httpx2.StreamError):
    """The answer is longer than `MAX_MESSAGE`, or packed so that its length is unknown."""


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, up to `MAX_MESSAGE` bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_packed: bool) -> None:
        self._stream = stream
        self._is_packed = is_packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise MessageTooLong("the server packed its answer, though it was asked not to")
        length = 0
        async for part in self._stream:
            length += len(part)
            if length > MAX_MESSAGE:
                raise MessageTooLong("the tool gave more than 1 MiB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Limit the body of an answer; events are limited one by one, by ``mcp`` itself."""
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    if packed or not is_stream:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, is_packed=packed)


@asynccontextmanager
async def connect_http(url: str, bearer_token: str, seconds: float) -> AsyncIterator[Transport]:
    """Make the transport to a url; ``seconds``: limit of a silence within an answer."""
    headers = {"accept-encoding": "identity"}
    if bearer_token:
        headers["authorization"] = f"Bearer {bearer_token}"
    async with httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=seconds),
        event_hooks={"response": [_bound]},
    ) as client:
        yield streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)


def text_of_result(result: types.CallToolResult) -> tuple[str, bool]:
    """Return the text for the model, and True if it is an error.

    Images, sounds and other bytes are named, not shown: models get a tool's result as text.
    """
    parts = [_text(part) for part in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(parts), result.is_error


def _text(
    part: types.TextContent
    | types.ImageContent
    | types.AudioContent
    | types.ResourceLink
    | types.EmbeddedResource,
) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.EmbeddedResource(resource=resource):
            return f"[{resource.uri}: {resource.mime_type or 'bytes'}, not shown]"
        case types.ResourceLink():
            return f"[{part.name}]({part.uri})"
        case _:
            return f"[{part.type}: {part.mime_type}, not shown]"


#: Pages of a server's list of tools.
_MAX_PAGES: Final = 64
_TIMED_OUT: Final = frozenset({types.REQUEST_TIMEOUT})


class CallFailed(Exception):
    """A call gave no result; the text is for the model."""


class StartFailed(Exception):
    """A server did not start; the text names it and says why."""


class _WaitingCall:
    """A call that waits for the owner task."""

    __slots__ = ("arguments", "done", "seconds", "tool")

    def __init__(self, tool: str, arguments: dict[str, Any], seconds: float) -> None:
        self.tool = tool
        self.arguments = arguments
        self.seconds = seconds
        self.done: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class _Over(Exception):
    """The session is over; the text says why."""


class McpSession:
    """Keeps the session with one server alive, and makes calls.

    One task enters and leaves the session, because ``mcp`` needs that; others ask by a queue. When
    the server dies, hangs or sends too long a message, its current calls fail and it is started
    again.
    """

    def __init__(
        self, settings: McpServerSettings, directory: str, log: Callable[[str], None]
    ) -> None:
        """``log`` gets lines for the server's log."""
        self._settings = settings
        self._directory = directory
        self._log = log
        self._rules = PathRules(directory, settings.allow_paths, settings.path_arguments)
        self._asked: asyncio.Queue[_WaitingCall] = asyncio.Queue()
        self._schemas: Mapping[str, dict[str, Any]] = {}
        self._listed: asyncio.Future[list[ToolSpec]] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)
        self._running = 0

    async def start(self) -> list[ToolSpec]:
        """Start the session; returns the tools that may be called.

        Raises:
            StartFailed: the server does not start or list its tools in time, or lists none that is
                allowed.
        """
        self._listed = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own())
        seconds = self._settings.start_seconds
        label = self._settings.label
        try:
            return await asyncio.wait_for(asyncio.shield(self._listed), seconds)
        except TimeoutError:
            raise StartFailed(
                f'server "{label}": it did not list its tools within {seconds:g} s'
            ) from None

    async def close(self) -> None:
        """End the session and the server's program."""
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)
        if self._listed is not None and self._listed.done() and not self._listed.cancelled():
            self._listed.exception()

    async def call(self, tool: str, arguments: str, seconds: float) -> str:
        """Make a call; returns the text of the result, of any length up to 1 MiB.

        Raises:
            CallFailed: there is no result.
            PathRefused: an argument is a path that is not allowed.
        """
        if tool not in self._schemas:
            raise CallFailed(f'there is no tool "{tool[:64]}"')
        values = _object(arguments)
        self._rules.check(values, self._schemas[tool])
        try:
            async with asyncio.timeout(seconds + ANSWER_SECONDS), self._at_once:
                asked = _WaitingCall(tool, values, seconds)
                self._asked.put_nowait(asked)
                try:
                    return await asked.done
                finally:
                    asked.done.cancel()
        except TimeoutError:
            raise CallFailed(
                f'the tool server "{self._settings.label}" was not ready within {seconds:g} s'
            ) from None

    # The owner ------------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Keep a session open, and open another when it ends. Returns if the first one fails."""
        back_off = BackOff()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._live()
            except Exception as error:
                reason = _reason(error)
            else:
                reason = "it ended"
            assert self._listed is not None
            if not self._listed.done():
                self._listed.set_exception(
                    StartFailed(f'server "{self._settings.label}": {reason}')
                )
                return
            back_off.note_life(loop.time() - began)
            delay = back_off.next_pause()
            self._log(f"{reason}; starting it again in {delay:.1f} s")
            await asyncio.sleep(delay)

    async def _live(self) -> None:
        """Open a session and make the calls that are asked, until it is over."""
        seconds = self._settings.start_seconds
        async with AsyncExitStack() as stack:
            server: StdioServer | None = None
            try:
                try:
                    async with asyncio.timeout(seconds):
                        client, server = await stack.enter_async_context(self._session())
                        await self._list(client)
                except TimeoutError:
                    if server is not None:
                        server.reason = "it hangs"
                    raise _Over(f"it did not list its tools within {seconds:g} s") from None
                await self._serve(client, server)
            except MCPError:
                if server is not None and server.reason:
                    raise _Over(server.reason) from None
                raise

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[tuple[Client, StdioServer | None]]:
        settings = self._settings
        if settings.command:
            server = StdioServer(settings.command, settings.env, self._directory, self._log)
            async with Client(server.connect(), cache=None) as client:
                yield client, server
        else:
            async with (
                connect_http(settings.url, settings.bearer_token, 300.0) as transport,
                Client(transport, cache=None) as client,
            ):
                yield client, None

    async def _list(self, client: Client) -> None:
        """List the tools. At the first time this answers `start`; later it checks the session."""
        found: dict[str, types.Tool] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found.update((tool.name, tool) for tool in page.tools)
            cursor = page.next_cursor
            if not cursor or len(found) > MAX_TOOLS:
                break
        assert self._listed is not None
        if self._listed.done():
            return
        allow = self._settings.allow
        specs = [
            ToolSpec(
                self._settings.label,
                plain(tool.name),
                plain(tool.description or ""),
                tool.input_schema,
            )
            for tool in found.values()
            if any(fnmatchcase(tool.name, pattern) for pattern in allow)
        ]
        missing = [
            pattern for pattern in allow if not any(fnmatchcase(name, pattern) for name in found)
        ]
        if missing:
            names = ", ".join(sorted(found)[:20]) or "none"
            raise _Over(f'allow: "{missing[0]}" matches none of its tools: {names}')
        self._schemas = {spec.name: spec.parameters for spec in specs}
        self._listed.set_result(specs)

    async def _serve(self, client: Client, server: StdioServer | None) -> None:
        ended = asyncio.ensure_future(_never() if server is None else server.ended.wait())
        over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        calls: set[asyncio.Task[None]] = set()
        try:
            while True:
                asking = asyncio.ensure_future(self._asked.get())
                try:
                    waited: list[asyncio.Future[Any]] = [asking, ended, over]
                    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not asking.done():
                        asking.cancel()
                if asking.done() and not asking.cancelled():
                    asked = asking.result()
                    if ended.done() or over.done():
                        self._asked.put_nowait(asked)  # for the next session
                    elif not asked.done.done():
                        call = asyncio.create_task(self._make(client, server, asked, over))
                        calls.add(call)
                        call.add_done_callback(calls.discard)
                if over.done():
                    if server is not None:
                        server.reason = server.reason or over.result()
                        server.ended.set()
                    raise _Over(over.result())
                if ended.done():
                    assert server is not None
                    raise _Over(server.reason or "it ended")
        finally:
            ended.cancel()
            reason = "" if server is None else server.reason
            if calls and not reason:
                # They fail by themselves as soon as they notice the end.
                await asyncio.wait(calls, timeout=0.5)
            for call in list(calls):
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    async def _make(
        self,
        client: Client,
        server: StdioServer | None,
        asked: _WaitingCall,
        over: asyncio.Future[str],
    ) -> None:
        """Make one call; ``over`` gets the reason if the session cannot go on."""
        waiter = asyncio.current_task()
        assert waiter is not None
        asked.done.add_done_callback(lambda done: waiter.cancel() if done.cancelled() else None)
        try:
            result = await client.call_tool(
                asked.tool, asked.arguments, read_timeout_seconds=asked.seconds
            )
            text, is_error = text_of_result(result)
            if is_error:
                raise CallFailed(text or "the tool failed without a reason")
            _settle(asked, text)
        except CallFailed as failed:
            _refuse(asked, failed)
        except MCPError as error:
            if error.error.code in _TIMED_OUT:
                _refuse(asked, CallFailed(f"the tool took longer than {asked.seconds:g} s"))
                await self._check(client, over)
            elif error.error.code == types.CONNECTION_CLOSED:
                _end(over, "the connection was closed")
            else:
                _refuse(asked, CallFailed(error.error.message))
                if "Session terminated" in error.error.message:
                    _end(over, "it ended the session")
        except (httpx2.HTTPError, OSError) as error:
            _refuse(asked, CallFailed("the tool server cannot be reached"))
            _end(over, _reason(error))
        except Exception as error:  # a result that is none, by its own schema
            _refuse(asked, CallFailed(library_reason(error)))
        finally:
            reason = "it ended before it answered"
            if server is not None and server.reason:
                reason = server.reason
            _refuse(asked, CallFailed(f"the tool server was restarted: {reason}"))

    async def _check(self, client: Client, over: asyncio.Future[str]) -> None:
        """End the session if the server does not answer after a call that took too long."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await client.list_tools()
        except TimeoutError:
            _end(over, "it hangs")
        except MCPError:
            pass  # an answer


def _object(arguments: str) -> dict[str, Any]:
    try:
        is_too_deep = nests_deeper(arguments)
        values = None if is_too_deep else json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise CallFailed("the arguments are not JSON object")
    return values


def _settle(asked: _WaitingCall, text: str) -> None:
    if not asked.done.done():
        asked.done.set_result(text)


def _refuse(asked: _WaitingCall, error: CallFailed) -> None:
    if not asked.done.done():
        asked.done.set_exception(error)
        asked.done.exception()


def _end(over: asyncio.Future[str], reason: str) -> None:
    if not over.done():
        over.set_result(reason)


async def _never() -> bool:
    await asyncio.Event().wait()
    return True


def _reason(error: BaseException) -> str:
    """One line about why a session did not start or ended."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case _Over():
            return str(error)
        case FileNotFoundError():
            return "its command was not found"
        case OSError() if error.strerror:
            return f"it cannot be started or reached: {error.strerror}"
        case MCPError() if error.error.code == types.CONNECTION_CLOSED:
            return "it ended before it answered"
        case pydantic.ValidationError():
            return "it sent what MCP does not allow"
        case _:
            return f"{type(error).__name__}: {library_reason(error)}"
