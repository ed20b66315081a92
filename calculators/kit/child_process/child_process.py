"""One life of a child process, from the parent's side, on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

import msgspec

from calculators.kit.child_process.early_start import child_environment, start_module, take_early
from calculators.kit.child_process.framing import Frame, FrameBuffer, FramingError, Piece, framed
from calculators.kit.child_process.messages import StopChild
from calculators.kit.child_process.parent_connection import LISTENER


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
            # uvloop 0.23 makes a call of the system of each write: the frames of one turn leave
            # together (decision 0048).
            asyncio.get_running_loop().call_soon(self._write)
        self._unsent += framed(*pieces)

    def _write(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(unsent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)


_log: Final = logging.getLogger("graphrt.child.output")
_LEVEL: Final = logging.INFO

#: A longer line is logged in pieces.
MAX_LINE: Final = 4096
_AT_ONCE: Final = 64 * 1024
#: Limit of bytes read after the child's end: a process that it has started may go on writing.
_LAST_READS: Final = 16


def is_wanted() -> bool:
    """True if the output would be logged. If not, children share the server's standard error."""
    return _log.isEnabledFor(_LEVEL) and _log.hasHandlers()


class ChildOutput:
    """A pipe whose lines go to the log, on the running event loop."""

    def __init__(self, name: str, reader: int, *, is_logged: bool = True) -> None:
        """Start reading.

        Args:
            name: the child's, printed before each line.
            reader: the reading end of the pipe, which is closed with the output.
            is_logged: if not, the output goes on to this process's standard error.
        """
        self._name = name
        self._reader = reader
        self._is_logged = is_logged
        # The pipe is read on the event loop: a library that prints much must not stop it.
        os.set_blocking(reader, False)
        self._rest = b""
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._loop.add_reader(reader, self._read)

    def finish(self) -> None:
        """Log the rest of the output after the child's end, and close."""
        for _ in range(_LAST_READS):
            if not self._is_open or not self._read():
                break
        self._close()

    def _read(self) -> bool:
        """Log the output that has arrived; False if there was none."""
        try:
            data = os.read(self._reader, _AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close()
            return False
        if not self._is_logged:
            # Children that were started early have a pipe whether their output is logged or not
            # (decision 0065).
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()
            return True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._log_line(line)
        while len(self._rest) >= MAX_LINE:
            self._log_line(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]
        return True

    def _log_line(self, line: bytes) -> None:
        for begin in range(0, len(line), MAX_LINE):
            text = line[begin : begin + MAX_LINE].decode("utf-8", "backslashreplace").rstrip()
            if text:
                _log.log(_LEVEL, "%s: %s", self._name, text)

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._log_line(self._rest)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._reader)
        os.close(self._reader)


#: Seconds that a child may take to end after its connection is closed.
_REAP_SECONDS: Final = 1.0
_REAP_PERIOD: Final = 0.005

#: Signals that a process gets for its own faults. Others come from outside.
_FAULTS: Final = frozenset({
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS,
    signal.SIGTRAP,
})  # fmt: skip


class ChildProcess(FrameProtocol):
    """A running child: frames to it and from it, and its end as one call.

    ``on_frame`` gets the bytes of each message; ``on_end`` gets, once, the reason of its end in
    words. Both are called on the event loop.
    """

    def __init__(
        self,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
        name: str = "a child process",
        *,
        has_log: bool = False,
    ) -> None:
        """``name`` is printed before the child's output in the log; ``has_log``: it writes to the
        log itself, so its standard error is this process's."""
        super().__init__()
        self._name = name
        self._has_log = has_log
        self._output: ChildOutput | None = None
        self._on_frame = on_frame
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        #: The process id, after `start`.
        self.pid = 0
        self._kill_reason = ""
        self._closed_at = 0.0
        self._is_over = asyncio.Event()

    async def start(
        self,
        module: str,
        defaults: Mapping[str, str] = MappingProxyType({}),
        listener: socket.socket | None = None,
        *,
        first: bytes = b"",
    ) -> None:
        """Start ``python -m module DESCRIPTOR PARENT``. Until the first await it has a `pid`.

        ``defaults``: environment variables for it, unless the server's environment has them.
        ``listener``: a Unix socket on which it takes further connections.
        ``first``: the first message to it; one that was started early may have it already.

        Raises:
            OSError: the system has no process or descriptor left; `on_end` is not called then.
        """
        # One that was started early has no further socket, and its output goes to this process.
        is_usual = listener is None and not self._has_log
        # Started before the server's imports, and loading already if its first message was known
        # (decisions 0065, 0077).
        early = take_early(module, defaults, first) if is_usual else None
        if early is not None:
            self._process = early.process
            ours = early.connection
            ours.setblocking(False)
            self._output = ChildOutput(self._name, early.output, is_logged=is_wanted())
        else:
            ours = self._start_process(module, defaults, listener)
        assert self._process is not None
        self.pid = self._process.pid
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            self._process.kill()
            self._process.wait()
            self._finish_output()
            raise
        if first and (early is None or not early.first_message):
            self.send(first)

    def _start_process(
        self, module: str, defaults: Mapping[str, str], listener: socket.socket | None
    ) -> socket.socket:
        """Start the process; return this end of the connection."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        reader = writer = None
        try:
            if is_wanted() and not self._has_log:
                reader, writer = os.pipe()
            environment = child_environment(defaults)
            descriptors = [theirs.fileno()]
            if listener is not None:
                descriptors.append(listener.fileno())
                environment[LISTENER] = str(listener.fileno())
            # Returns as soon as the child has been made: no more than a few milliseconds.
            self._process = start_module(module, descriptors, writer, environment)
        except BaseException:
            ours.close()
            if reader is not None:
                os.close(reader)
            raise
        finally:
            theirs.close()
            if writer is not None:
                os.close(writer)
        if reader is not None:
            self._output = ChildOutput(self._name, reader)
        return ours

    @property
    def is_running(self) -> bool:
        """True from `start` until its end."""
        return self._process is not None and not self._is_over.is_set()

    @property
    def has_crashed(self) -> bool:
        """True if the child ended by its own fault, not by `kill` or a signal from outside."""
        status = None if self._process is None else self._process.returncode
        if status is None or self._kill_reason:
            return False
        # SIGKILL is what the kernel sends when memory ends, and what people send: no request is
        # blamed for it.
        return status >= 0 or -status in _FAULTS

    def stop(self) -> None:
        """Ask the child to end; see `wait`."""
        self.send(msgspec.msgpack.encode(StopChild()))

    def kill(self, reason: str) -> None:
        """Kill the child now; `on_end` gets ``reason``."""
        self._kill_reason = self._kill_reason or reason
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
        if self._transport is not None:
            self._transport.abort()

    async def wait(self) -> None:
        """Return when the process is gone."""
        await self._is_over.wait()

    # FrameProtocol --------------------------------------------------------------------------------

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._buffer.received(nbytes):
                if self._kill_reason:
                    return  # frames after the reason to kill it are ignored
                self._on_frame(frame)
        except FramingError as error:
            self.kill(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closed_at = asyncio.get_running_loop().time()
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        loop = asyncio.get_running_loop()
        if self._process.poll() is None:
            if loop.time() - self._closed_at > _REAP_SECONDS:
                self._process.kill()
            loop.call_later(_REAP_PERIOD, self._reap)
            return
        self._finish_output()
        self._is_over.set()
        self._on_end(self._kill_reason or _ending(self._process.returncode))

    def _finish_output(self) -> None:
        if self._output is not None:
            self._output.finish()
            self._output = None


def _ending(status: int) -> str:
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"it was ended by {name}"
