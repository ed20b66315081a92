"""The child's connection to its parent, and the end of the child with its parent."""

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

#: Large enough that a server that is busy for a moment does not delay the engine's next step.
_SEND_BUFFER: Final = 4 * 1024 * 1024


class ParentGone(Exception):
    """The parent closed the connection, or died."""


class ParentConnection:
    """Frames from and to the parent, on an inherited descriptor. One thread, blocking writes.

    Only `wake` may be called by other threads.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        # Inherited by a child of this process, it would keep the connection open.
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
        """Let a waiting `receive` return, or the next one that would wait."""
        with contextlib.suppress(BlockingIOError):  # full: there are wake-ups enough
            os.write(self._waker, b"!")

    def close(self) -> None:
        """Close the connection. Not needed before the process ends."""
        self._socket.close()
        os.close(self._woken)
        os.close(self._waker)

    def receive(self, *, wait: bool, seconds: float | None = None) -> Iterator[Frame]:
        """The frames that have arrived.

        With ``wait`` it blocks until there are bytes, until `wake`, or for ``seconds``.

        Raises:
            ParentGone: the parent is gone; no frame will follow.
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
        """Send one frame, made of the pieces in order.

        Raises:
            ParentGone: the parent is gone.
        """
        try:
            for piece in framed(*pieces):
                self._socket.sendall(piece)
        except OSError as error:
            raise ParentGone from error


def die_with_parent(parent: int) -> None:
    """Make this process end when ``parent`` (a process id) does, however that ends.

    Linux kills it at that moment; elsewhere the closed connection ends it after the current step.
    """
    # Ctrl-C in a terminal reaches the whole group; the parent decides when the child stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # a closed terminal signals all of its processes
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise ParentGone
