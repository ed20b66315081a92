"""The gate in front of gRPC's library: connections, and large messages by their size.

grpcio delivers whole messages only. Once a handler waits for one, the library lets the client send
all of it, so that the messages in reception have no bound, and their sizes are not known before
they lie in memory. The gate accepts the connections, passes their bytes on to grpcio over a local
socket, and reads the frames of HTTP/2 (RFC 9113) that go by. The beginning of a message says how
long it is, and a client may send 64 KiB of a stream (`WINDOW`) before grpcio announces more with
WINDOW_UPDATE. For a message above `SMALL` the gate keeps that frame back until the `BodyRoom` has
room for the message. So large messages wait at their clients, each stream for itself, and small
ones pass whatever others send. grpcio leaves compressed messages as they are; their content counts
while `Call.content` makes it.

The gate also ends what HTTP/2 allows without bound: a connection whose client resets the streams
that it opens is closed. TLS ends here, because frames can only be read without it.

Two parsers walk over the frames, one for each direction. They know three kinds: DATA from the
client, WINDOW_UPDATE from grpcio, and what ends a stream. Frames are added at boundaries of others.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from msgspec import Struct

from calculators.kit.child_process.owned_folder import OwnedFolder
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.access import Handshakes, identity_of_peer
from servers.fronts.body_room import SLOW_SECONDS, SMALL, BodyHold, BodyRoom
from servers.fronts.kserve_grpc.settings import GrpcSettings

_log: Final = logging.getLogger(__name__)

#: Bytes that a client may send of a stream before grpcio announces more.
WINDOW: Final = 64 * 1024 - 1
#: A reset costs its client some bytes, and the server a whole call (decision 0087).
#: A client that has reset so many streams within `_RESET_SECONDS`, and more than were answered, is
#: disconnected.
MOST_RESETS: Final = 500
_RESET_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 1.0
#: Bytes that wait for a slow side, above which the other side is not read.
# Bounded on both sides, so that a slow client or a busy grpcio slows the other side down instead of
# filling memory.
_BUFFER_BYTES: Final = 256 * 1024
#: Frames and messages that a side of a connection reads in one turn of the loop, and the bytes of a
#: frame in which messages are looked for at once. A reading of the socket has up to 29,000 frames
#: or 52,000 messages, which take 25 ms.
_MOST_READ: Final = 200
_STEP_BYTES: Final = 4096
_BACKLOG: Final = 1024
#: Seconds after which the memory of streams that were reset goes back to the system.
_TRIM_SECONDS: Final = 2.0

_PREFACE_BYTES: Final = 24  # of a client's connection: no frame
_HEAD_BYTES: Final = 9
_DATA, _HEADERS, _RESET, _GO_AWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 7, 8, 9
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_NO_ERROR, _CANCEL, _CALM = 0, 8, 11
#: A message's own head: whether it is compressed, and four bytes with its size.
_PREFIX_BYTES: Final = 5
#: The numbers of gRPC's statuses.
_NUMBERS: Final = {Code.RESOURCE_EXHAUSTED: 8, Code.UNAVAILABLE: 14}
# HPACK (RFC 7541): ":status: 200" of the static table, "content-type" by its name there; literals
# that are not indexed, so that they leave grpcio's table alone.
_ANSWER_HEAD: Final = b"\x88\x0f\x10\x10application/grpc"


class _Message(Struct, eq=False):
    """The message of a stream that is arriving.

    Attributes:
        prefix: the part of its head that is there.
        left: bytes of its content that are still to come.
        hold: its room, if it is large.
        withheld: bytes that grpcio has announced and the client was not told of.
        waiting: the task that waits for room.
    """

    prefix: bytes = b""
    size: int = 0
    left: int = 0
    hold: BodyHold | None = None
    withheld: int = 0
    waiting: asyncio.Task[None] | None = None


class Gate:
    """The listening sockets and connections of one front."""

    def __init__(self, settings: GrpcSettings, room: BodyRoom) -> None:
        self._settings = settings
        self.most_bytes = int(
            settings.channel_arguments.get(
                "grpc.max_receive_message_length", settings.max_message_bytes
            )
        )
        self.room = room
        self._owned = OwnedFolder("grpc")
        self._folder = Path(self._owned.path)
        #: Where grpcio listens. Others of this machine cannot enter the folder.
        self.path = self._folder / "grpc"
        self._numbers = itertools.count(1)
        self._connections: dict[str, _Connection] = {}
        self._listeners: list[asyncio.Server] = []
        self._handshakes: Handshakes | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: Connections to grpcio that are being made.
        self.opening: set[asyncio.Task[None]] = set()

    async def bind(self, hosts: tuple[str, ...], port: int) -> list[tuple[str, int]]:
        """Bind the sockets. Return host and port of each.

        Raises:
            OSError: an address cannot be bound; none is then.
        """
        loop = asyncio.get_running_loop()
        addresses: list[tuple[str, int]] = []
        settings = self._settings
        make: Callable[[], asyncio.Protocol] = lambda: _Connection(self)  # noqa: E731
        if settings.tls is not None:
            # TLS ends here: the gate reads the heads of frames, which it cannot do in encrypted
            # bytes (decision 0087).
            self._handshakes = Handshakes(
                make,
                settings.tls.grpc_context,
                seconds=settings.handshake_seconds,
                closing_seconds=settings.handshake_seconds,
            )
            make = self._handshakes.begin
        for host in hosts:
            listener = await loop.create_server(
                make,
                host,
                port,
                backlog=_BACKLOG,
                reuse_address=True,
                # Workers share the port (decision 0071). grpcio's own `grpc.so_reuseport` has no
                # effect, since grpcio does not listen on the port any more (decision 0087).
                reuse_port=settings.shares_port or None,
                start_serving=False,
            )
            self._listeners.append(listener)
            port = listener.sockets[0].getsockname()[1]
            addresses.append((host, port))
        return addresses

    async def listen(self) -> None:
        """Accept connections: grpcio listens at `path`."""
        for listener in self._listeners:
            await listener.start_serving()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WATCH_SECONDS, self._watch)

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay."""
        for listener in self._listeners:
            listener.close()

    async def close(self) -> None:
        """Close everything."""
        self.stop_accepting()
        if self._timer is not None:
            self._timer.cancel()
        if self._handshakes is not None:
            self._handshakes.abort()
        while self._connections:
            for connection in list(self._connections.values()):
                connection.abort()
            await asyncio.sleep(0)
        # uvloop leaves the socket of a connection open that is cancelled while it is made.
        await asyncio.gather(*self.opening)
        self._owned.remove()

    def identity(self, peer: str) -> ClientIdentity:
        """Return the client of a peer of grpcio: to grpcio its name is the gate's local socket."""
        connection = self._connections.get(peer.rpartition("/")[2])
        return UNKNOWN_CLIENT if connection is None else connection.client

    async def admit(self, peer: str, size: int) -> BodyHold:
        """Return the room of a message of this size that has arrived from ``peer``.

        Raises:
            RequestError: as `BodyRoom.admit`, if its stream has ended meanwhile.
        """
        connection = self._connections.get(peer.rpartition("/")[2])
        hold = None if connection is None else connection.claim(size)
        return hold or await self.room.admit(size)

    def open_socket(self) -> tuple[str, socket.socket]:
        """Connect to grpcio with a socket that has a name. Return both."""
        name = str(next(self._numbers))
        connected = socket.socket(socket.AF_UNIX)
        path = self._folder / name
        try:
            connected.setblocking(False)
            connected.bind(str(path))
            connected.connect(str(self.path))
        except BaseException:
            connected.close()
            raise
        finally:
            # The name is needed only until grpcio has accepted the connection; a folder of names
            # would grow with the connections.
            path.unlink(missing_ok=True)
        return name, connected

    def add(self, name: str, connection: _Connection) -> bool:
        """Count a connection; return False if there are too many."""
        if len(self._connections) >= self._settings.max_connections:
            return False
        self._connections[name] = connection
        return True

    def discard(self, name: str) -> None:
        self._connections.pop(name, None)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WATCH_SECONDS, self._watch)
        if self.room.is_wanted:
            for connection in list(self._connections.values()):
                connection.give_way(loop.time())


class _Side(asyncio.Protocol):
    """One side of a connection. While it cannot send, the other side does not read."""

    _other: _Side
    _wire: asyncio.Transport | None = None
    _is_held = False
    #: What has arrived, and is read in the next turns.
    _unread = b""

    def data_received(self, data: bytes) -> None:
        if self._unread:
            self._unread += data  # received before the transport paused
            return
        self._unread = self._read(data)
        if self._unread and self._wire is not None:
            self._wire.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        data, self._unread = self._unread, b""
        if self._wire is None:
            return
        self.data_received(data)
        if not self._unread and not self._is_held:
            self._wire.resume_reading()

    def _read(self, data: bytes) -> bytes:
        """Read some frames and pass them on. Return the rest."""
        raise NotImplementedError

    def pause_writing(self) -> None:
        self._other.pause_reading()

    def resume_writing(self) -> None:
        self._other.resume_reading()

    def pause_reading(self) -> None:
        self._is_held = True
        if self._wire is not None:
            self._wire.pause_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        if self._wire is not None and not self._unread:
            self._wire.resume_reading()


class _Connection(_Side):
    """The client's side of a connection.

    Attributes:
        client: its address.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._other = self._upstream = _Upstream(self)
        self._name = ""
        self.client = UNKNOWN_CLIENT
        #: The beginning of a frame whose head is not whole.
        self._tail = b""
        #: Bytes of the current frame that are still to come: first of the preface.
        self._left = _PREFACE_BYTES
        #: Of the current frame, if it is DATA: its stream, or 0; the bytes that are no padding; and
        #: whether its first byte is the length of the padding.
        self._stream = 0
        self._content = 0
        self._is_padded = False
        self._in_headers = False
        #: Frames for grpcio that the gate adds between two of the client's.
        self._added: list[bytes] = []
        self._messages: dict[int, _Message] = {}
        #: Large messages that have arrived, and that no handler has claimed.
        self._arrived: deque[tuple[int, int, BodyHold]] = deque()
        self._resets = self._answers = 0
        self._counted_since = self._loop.time()

    # The transport --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = wire = cast(asyncio.Transport, transport)
        wire.set_write_buffer_limits(high=_BUFFER_BYTES)
        peer = wire.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client = identity_of_peer(str(peer[0]), str(peer[1]))
        try:
            name, connected = self._gate.open_socket()
        except OSError as error:
            _log.error("a connection of gRPC was closed: %s", error.strerror or error)
            wire.abort()
            return
        if not self._gate.add(name, self):
            connected.close()
            wire.abort()
            return
        self._name = name
        opening = self._loop.create_task(self._open(connected))
        self._gate.opening.add(opening)
        opening.add_done_callback(self._gate.opening.discard)

    async def _open(self, connected: socket.socket) -> None:
        if self._wire is None or self._upstream.is_closed:
            connected.close()
            return
        try:
            await self._loop.create_unix_connection(lambda: self._upstream, sock=connected)
        except OSError:
            connected.close()
            self.abort()
            return

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire = None
        self._gate.discard(self._name)
        self._upstream.close()
        for stream in list(self._messages):
            self._forget(stream)
        while self._arrived:
            self._arrived.popleft()[2].release()

    def write(self, data: bytes) -> None:
        """Send to the client."""
        if self._wire is not None:
            self._wire.write(data)

    def end(self) -> None:
        """Close the connection once all is sent: grpcio has closed its side."""
        if self._wire is not None:
            self._wire.close()

    def abort(self) -> None:
        """Close the connection now."""
        if self._wire is not None:
            self._wire.abort()

    # Frames of the client -------------------------------------------------------------------------

    def _read(self, data: bytes) -> bytes:
        if self._upstream.is_closed:
            return b""
        if self._tail:
            data, self._tail = self._tail + data, b""
        kept: list[bytes] = []
        kept_from = at = read = 0
        end = len(data)
        rest = b""
        while at < end:
            if read > _MOST_READ:
                rest, end = data[at:], at
                break
            if self._left:
                until = min(at + self._left, end)
                if self._stream:
                    until = min(until, at + _STEP_BYTES)
                    read += self._take(data, at, until)
                self._left -= until - at
                at = until
                continue
            if self._added and not self._in_headers:
                kept += (data[kept_from:at], *self._added)
                self._added.clear()
                kept_from = at
            if end - at < _HEAD_BYTES:
                self._tail, end = data[at:], at
                break
            read += 1
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            kind, flags = data[at + 3], data[at + 4]
            # The highest bit is reserved, and ignored (RFC 9113, 4.1).
            stream = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
            begin = at
            at += _HEAD_BYTES
            self._stream = 0
            # Nothing may be sent between a header block's frames (RFC 9113, 4.3).
            self._in_headers = kind in (_HEADERS, _CONTINUATION) and not flags & _END_HEADERS
            if kind == _DATA:
                message = self._messages.get(stream)
                if message is None:
                    # The message's own head decides if its stream must be followed, so it is waited
                    # for.
                    if end - at < min(length, 1 + _PREFIX_BYTES):
                        self._tail, end = data[begin:], begin
                        break
                    if length and self._begin(stream, data, at, length, flags):
                        message = self._messages[stream]
                if message is not None:
                    self._stream, self._content = stream, length
                    self._is_padded = bool(flags & _PADDED)
            elif kind == _RESET and self._note_reset(stream):
                return b""
            self._left = length
        if kept or end != len(data) or kept_from:
            kept.append(data[kept_from:end])
            data = b"".join(kept)
        if data:
            self._upstream.write(data)
        self._add_now()
        return rest

    def _begin(self, stream: int, data: bytes, at: int, length: int, flags: int) -> bool:
        """Begin to follow a message with a frame's payload at ``at``, unless all of it is here."""
        padded = 1 if flags & _PADDED else 0
        start = at + padded
        if length < padded + _PREFIX_BYTES:
            self._messages[stream] = _Message()
            return True
        size = int.from_bytes(data[start + 1 : start + _PREFIX_BYTES])
        # The common case: a small message in one frame needs no record of its stream.
        if size + _PREFIX_BYTES == length and not padded:
            return False
        self._messages[stream] = _Message()
        return True

    def _take(self, data: bytes, at: int, end: int) -> int:
        """Follow the messages in a part of a frame's payload. Return how many heads it has."""
        if self._is_padded:
            # The first byte of padded data is the length of the padding at their end (RFC 9113,
            # 6.1).
            self._is_padded = False
            self._content -= 1 + data[at]
            at += 1
        end = min(end, at + max(0, self._content))
        self._content -= end - at
        stream = self._stream
        message = self._messages.get(stream)
        if message is None:
            message = self._messages[stream] = _Message()
        heads = 0
        while at < end:
            if not message.left:
                heads += 1
                begin = at
                at = min(end, at + _PREFIX_BYTES - len(message.prefix))
                message.prefix += data[begin:at]
                if len(message.prefix) < _PREFIX_BYTES:
                    return heads
                message.left = message.size = int.from_bytes(message.prefix[1:])
                message.prefix = b""
                if message.hold is None and message.size > SMALL:
                    self._admit(stream, message)
            else:
                taken = min(message.left, end - at)
                message.left -= taken
                at += taken
            if not message.left and not message.prefix and message.hold is not None:
                if message.waiting is not None:
                    return heads
                self._arrive(stream, message)
        if not message.left and not message.prefix and message.waiting is None:
            self._messages.pop(stream, None)
        return heads

    def _arrive(self, stream: int, message: _Message) -> None:
        """Let the handler of a message that has arrived claim its room."""
        assert message.hold is not None
        self._arrived.append((stream, message.size, message.hold))
        message.hold = None

    def _admit(self, stream: int, message: _Message) -> None:
        """Take room for a message, or begin to wait for it."""
        size = message.size
        if size > self._gate.most_bytes:
            # No room is taken: a message that nobody will read must not make others wait.
            return  # grpcio refuses it before it arrives
        message.hold = hold = BodyHold(self._gate.room, size, began=self._loop.time())
        if missing := hold.add(size):
            waits = self._wait(stream, message, hold, missing)
            message.waiting = self._loop.create_task(waits)

    async def _wait(self, stream: int, message: _Message, hold: BodyHold, missing: int) -> None:
        try:
            await hold.wait(missing)
        except RequestError as error:
            message.waiting = None
            self._refuse(stream, error.code, str(error))
            return
        # The clock of slow messages starts with the client's permission to send, not with its wait
        # for room.
        hold.began = self._loop.time()
        message.waiting = None
        if message.withheld:
            frame = _frame(_WINDOW_UPDATE, 0, stream, message.withheld.to_bytes(4))
            message.withheld = 0
            self._upstream.add_to_client(frame)
        if not message.left and not message.prefix:
            self._arrive(stream, message)
            self._messages.pop(stream, None)

    def _add_now(self) -> None:
        """Send what the gate adds to the client's frames, if grpcio has none of them in part."""
        if self._added and not self._left and not self._in_headers:
            self._upstream.write(b"".join(self._added))
            self._added.clear()

    def _note_reset(self, stream: int) -> bool:
        """Count a reset. Return True if it was one too many."""
        self._forget(stream)
        now = self._loop.time()
        if now - self._counted_since > _RESET_SECONDS:
            self._counted_since = now
            self._resets = self._answers = 0
        self._resets += 1
        if self._resets <= MOST_RESETS or self._resets <= self._answers:
            return False
        # ENHANCE_YOUR_CALM, as servers of HTTP/2 answer floods of resets since 2023.
        _log.warning("a connection of gRPC was closed: its client resets the calls that it makes")
        self.write(_frame(_GO_AWAY, 0, 0, bytes(4) + _CALM.to_bytes(4)))
        self.end()
        self._upstream.close()
        # Each reset call leaves freed blocks in glibc's arenas; without the trim memory stays at
        # the peak of the attack.
        self._loop.call_later(_TRIM_SECONDS, self._gate.room.trim)
        return True

    # Streams --------------------------------------------------------------------------------------

    def claim(self, size: int) -> BodyHold | None:
        """Return the room of a message of this size that has arrived; it is the caller's now."""
        for place, (_, arrived, hold) in enumerate(self._arrived):
            if arrived == size:
                del self._arrived[place]
                return hold
        return None

    def keeps_back(self, stream: int, increment: int) -> bool:
        """Return whether an announcement of grpcio has to wait; it is noted then."""
        message = self._messages.get(stream)
        if message is None or message.waiting is None:
            return False
        message.withheld += increment
        return True

    @property
    def follows_streams(self) -> bool:
        """True if a stream has a large message, which has to be forgotten with the stream."""
        return bool(self._messages or self._arrived)

    def ended(self, stream: int) -> None:
        """Note that grpcio has ended a stream."""
        self._answers += 1
        if self.follows_streams:
            self._forget(stream)

    def give_way(self, now: float) -> None:
        """End messages that arrive slowly, and whose room others want."""
        for stream, message in list(self._messages.items()):
            hold = message.hold
            if hold is not None and hold.is_in_the_way and now - hold.began > SLOW_SECONDS:
                text = "the message arrives too slowly, and others wait for its room"
                self._refuse(stream, Code.UNAVAILABLE, text)

    def _forget(self, stream: int) -> None:
        message = self._messages.pop(stream, None)
        if message is not None:
            if message.waiting is not None:
                message.waiting.cancel()
            if message.hold is not None:
                message.hold.release()
        for entry in [each for each in self._arrived if each[0] == stream]:
            self._arrived.remove(entry)
            entry[2].release()

    def _refuse(self, stream: int, code: Code, text: str) -> None:
        """End a stream with a status, for the client and for grpcio."""
        self._forget(stream)
        self._upstream.end_for_client(stream, _NUMBERS[code], text)
        reset = _frame(_RESET, 0, stream, _CANCEL.to_bytes(4))
        # Both sides hear of the refusal: the client by a status, grpcio by a reset, or its handler
        # would wait for the rest of the message.
        self._added.append(reset)
        self._add_now()


class _Upstream(_Side):
    """The side of a connection that grpcio serves.

    Attributes:
        is_closed: nothing can be sent to grpcio any more.
    """

    def __init__(self, client: _Connection) -> None:
        self._other = self._client = client
        self.is_closed = False
        #: What the client has sent before there is a connection to grpcio.
        self._early: list[bytes] = []
        self._tail = b""
        self._left = 0
        self._in_headers = False
        self._added: list[bytes] = []
        #: Streams whose answer has begun.
        self._begun: set[int] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._wire.set_write_buffer_limits(high=_BUFFER_BYTES)
        if self.is_closed:
            self._wire.abort()
        self._wire.writelines(self._early)
        self._early.clear()
        self._client.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        while self._unread:
            self._unread = self._read(self._unread)
        self._wire = None
        self.is_closed = True
        self._client.end()

    def write(self, data: bytes) -> None:
        """Send to grpcio."""
        if self._wire is not None:
            self._wire.write(data)
        elif not self.is_closed:
            self._early.append(data)
            self._client.pause_reading()

    def close(self) -> None:
        """Close the connection now."""
        self.is_closed = True
        if self._wire is not None:
            self._wire.abort()

    def add_to_client(self, frame: bytes) -> None:
        """Send a frame to the client, between two of grpcio's."""
        if self._left or self._in_headers:
            self._added.append(frame)
        else:
            self._client.write(frame)

    def end_for_client(self, stream: int, number: int, text: str) -> None:
        """Send the status of a stream to the client."""
        # A stream that has begun its answer has sent its headers; a second block may only be
        # trailers.
        fields = b"" if stream in self._begun else _ANSWER_HEAD
        fields += _literal("grpc-status", str(number)) + _literal("grpc-message", quote(text, " ,"))
        self._begun.discard(stream)
        frame = _frame(_HEADERS, _END_STREAM | _END_HEADERS, stream, fields)
        self.add_to_client(frame + _frame(_RESET, 0, stream, _NO_ERROR.to_bytes(4)))

    def _read(self, data: bytes) -> bytes:
        if self._tail:
            data, self._tail = self._tail + data, b""
        client = self._client
        kept: list[bytes] = []
        kept_from = at = read = 0
        end = len(data)
        rest = b""
        while at < end:
            if read > _MOST_READ:
                rest, end = data[at:], at
                break
            if self._left:
                taken = min(self._left, end - at)
                self._left -= taken
                at += taken
                continue
            if self._added and not self._in_headers:
                kept += (data[kept_from:at], *self._added)
                self._added.clear()
                kept_from = at
            begin = at
            kind = data[at + 3] if end - at >= _HEAD_BYTES else -1
            if kind < 0 or (kind == _WINDOW_UPDATE and end - at < _HEAD_BYTES + 4):
                self._tail = data[at:]
                end = at
                break
            read += 1
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            flags = data[at + 4]
            stream = int.from_bytes(data[at + 5 : at + 9]) & 0x7FFFFFFF
            at += _HEAD_BYTES
            if kind == _WINDOW_UPDATE:
                at += 4
                if stream and client.keeps_back(stream, int.from_bytes(data[at - 4 : at])):
                    kept.append(data[kept_from:begin])
                    kept_from = at
                continue
            self._left = length
            # Nothing may be sent between a header block's frames (RFC 9113, 4.3).
            self._in_headers = kind in (_HEADERS, _CONTINUATION) and not flags & _END_HEADERS
            if kind == _RESET or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                self._begun.discard(stream)
                client.ended(stream)
            elif kind == _HEADERS:
                self._begun.add(stream)
        if kept or end != len(data):
            kept.append(data[kept_from:end])
            data = b"".join(kept)
        if data:
            client.write(data)
        if self._added and not self._left and not self._in_headers:
            client.write(b"".join(self._added))
            self._added.clear()
        return rest


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _literal(name: str, value: str) -> bytes:
    """Return a header as HPACK's literal; both words are shorter than 127 characters."""
    words = name.encode(), value.encode()[:126]
    return b"\0" + b"".join(bytes((len(word),)) + word for word in words)
