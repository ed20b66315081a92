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

from calculators.kit.child_process.framing import Frame, FrameBuffer, FramingError, Piece, framed

#: The environment variable with the descriptor of a socket that takes further connections.
LISTENER: Final = "GRAPHRT_CHILD_LISTENER"

_PR_SET_PDEATHSIG: Final = 1

#: Large enough that a server that is busy for a moment does not delay the engine's next step.
_SEND_BUFFER: Final = 4 * 1024 * 1024
#: Unsent bytes at which a worker that shares this process is given up.
MOST_UNSENT: Final = 256 * 1024 * 1024


class ParentGone(Exception):
    """The parent closed the connection, or died."""


class _Link:
    """A further connection of a shared child; its writes do not block.

    Attributes:
        unsent: what its reader has had no room for.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.buffer = FrameBuffer()
        self.unsent = bytearray()

    def write(self, data: Piece) -> None:
        """Send as much as there is room for, and keep the rest.

        Raises:
            OSError: the reader is gone, or reads nothing.
        """
        if not self.unsent:
            data = memoryview(data)
            with contextlib.suppress(BlockingIOError):
                data = data[self.socket.send(data) :]
        self.unsent += data
        if len(self.unsent) > MOST_UNSENT:
            # One worker that stands still must not stop the engine for the others, nor fill its
            # memory.
            raise OSError("it does not read")

    def write_rest(self) -> None:
        with contextlib.suppress(BlockingIOError):
            del self.unsent[: self.socket.send(self.unsent)]


class ParentConnection:
    """Frames from and to the parent, on an inherited descriptor. Writes to the parent block.

    One thread receives. Other threads may call `wake`, and send one at a time.

    A child that several workers share has one connection, a link, to each of them besides. A frame
    is answered on the link that it came by.

    Attributes:
        link: the number of the link of the last frame, 0 for the parent; messages go there.
        gone: numbers of links that have ended, to be taken out by the reader.
    """

    def __init__(self, descriptor: int) -> None:
        self.link = 0
        self.gone: list[int] = []
        self._links: dict[int, _Link] = {}
        self._last_link = 0
        self._listener = _inherited_listener()
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
        # poll and not asyncio: with a small model the engine asks for messages thousands of times a
        # second, between two steps.
        self._poll.register(self._socket, select.POLLIN)
        if self._listener is not None:
            self._poll.register(self._listener, select.POLLIN)

    @property
    def is_shared(self) -> bool:
        """True if there are links besides the parent's."""
        return self._listener is not None

    @property
    def links(self) -> tuple[int, ...]:
        """The numbers of the open links besides the parent's."""
        return tuple(self._links)

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
        ready = dict(self._poll.poll(timeout))
        if not ready:
            return
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._listener is not None:
            yield from self._receive_links(ready)
            self.link = 0
        try:
            # Without waiting: another descriptor may have been the ready one.
            count = self._socket.recv_into(self._buffer.room(), 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as error:
            raise ParentGone from error
        if not count:
            raise ParentGone
        yield from self._buffer.received(count)

    def _receive_links(self, ready: dict[int, int]) -> Iterator[Frame]:
        """Accept, write what there is room for now, and yield the frames of all links."""
        listener = self._listener
        assert listener is not None
        if listener.fileno() in ready:
            with contextlib.suppress(OSError):
                self._accept(listener)
        for number, link in list(self._links.items()):
            events = ready.get(link.socket.fileno(), 0)
            if not events:
                continue
            try:
                if events & select.POLLOUT:
                    link.write_rest()
                    self._watch(link)
                if not events & ~select.POLLOUT:
                    continue
                count = link.socket.recv_into(link.buffer.room())
                frames = link.buffer.received(count) if count else []
            except BlockingIOError:
                continue
            except (OSError, FramingError):
                count, frames = 0, []
            if not count:
                self._drop(number)
            for frame in frames:
                self.link = number
                yield frame

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._last_link += 1
        self._links[self._last_link] = _Link(connection)
        self._poll.register(connection, select.POLLIN)

    def _watch(self, link: _Link) -> None:
        self._poll.modify(link.socket, select.POLLIN | (select.POLLOUT if link.unsent else 0))

    def _drop(self, number: int) -> None:
        link = self._links.pop(number, None)
        if link is not None:
            self._poll.unregister(link.socket)
            link.socket.close()
            self.gone.append(number)

    def send_to(self, number: int, *pieces: Piece) -> None:
        """Send one frame to a link; nothing happens if it has ended.

        Raises:
            ParentGone: the parent is gone.
        """
        if number == 0:
            try:
                for piece in framed(*pieces):
                    self._socket.sendall(piece)
            except OSError as error:
                raise ParentGone from error
            return
        link = self._links.get(number)
        if link is None:
            return
        try:
            for piece in framed(*pieces):
                link.write(piece)
            if link.unsent:
                self._watch(link)
                self.wake()  # the thread that receives waits for the room
        except OSError:
            self._drop(number)

    def send(self, *pieces: Piece) -> None:
        """Send one frame, made of the pieces in order, to the link of the last frame.

        Raises:
            ParentGone: the parent is gone.
        """
        self.send_to(self.link, *pieces)


def _inherited_listener() -> socket.socket | None:
    """Return the socket for further connections, which children of this process do not inherit."""
    descriptor = os.environ.pop(LISTENER, "")
    if not descriptor:
        return None
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    listener.setblocking(False)
    return listener


def die_with_parent(parent: int) -> None:
    """Make this process end when ``parent`` (a process id) does, however that ends.

    Linux kills it at that moment; elsewhere the closed connection ends it after the current step.
    """
    # Ctrl-C in a terminal reaches the whole group; the parent decides when the child stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # a closed terminal signals all of its processes
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.platform == "linux":
        # A step or a compilation holds the interpreter's lock, so the child itself would notice the
        # closed connection late.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before prctl: then no signal comes.
    if os.getppid() != parent:
        raise ParentGone
