"""The child's side: the connection to the parent, and dying with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Final

from calculators.child_process.framing import Frame, FrameBuffer, Piece, framed

_PR_SET_PDEATHSIG: Final = 1

#: So that a server that is busy for a moment does not hold up the engine's next step.
_SEND_BUFFER: Final = 4 * 1024 * 1024


class ParentGone(Exception):
    """The parent closed the connection, or died."""


class ParentConnection:
    """Frames from and to the parent, on an inherited descriptor. One thread, blocking writes.

    Only `wake` may be called by other threads.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # A process that this one starts would keep the connection open.
        self._socket.set_inheritable(False)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._buffer = FrameBuffer()
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._poll.register(self._socket, select.POLLIN)

    def wake(self) -> None:
        """Let `receive` return that waits, or the next one that would."""
        with contextlib.suppress(BlockingIOError):  # it is full of signs
            os.write(self._waker, b"!")

    def close(self) -> None:
        """Nobody receives or sends any more; a process that ends need not say so."""
        self._socket.close()
        os.close(self._woken)
        os.close(self._waker)

    def receive(self, *, wait: bool, seconds: float | None = None) -> Iterator[Frame]:
        """The frames that have arrived.

        With ``wait`` it blocks until there are bytes, until `wake`, or for so many seconds.

        Raises:
            ParentGone: there will be no more.
        """
        timeout: float | None = 0.0
        if wait:
            timeout = None if seconds is None else seconds * 1000
        ready = self._poll.poll(timeout)
        if not ready:
            return
        if any(descriptor == self._woken for descriptor, _ in ready):
            os.read(self._woken, 4096)
        try:
            count = self._socket.recv_into(self._buffer.room(), 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as error:
            raise ParentGone from error
        if not count:
            raise ParentGone
        yield from self._buffer.received(count)

    def send(self, *pieces: Piece) -> None:
        """Send one frame, the pieces one after the other.

        Raises:
            ParentGone: nobody reads any more.
        """
        try:
            for piece in framed(*pieces):
                self._socket.sendall(piece)
        except OSError as error:
            raise ParentGone from error


def die_with_parent(parent: int) -> None:
    """See to it that this process ends when ``parent`` (a process id) does, however it ends.

    Linux kills us at that moment; elsewhere the closed connection does, after the current step.
    """
    # Ctrl-C in a terminal reaches the whole group; the parent decides when we stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # a closed terminal tells all of its processes
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise ParentGone
