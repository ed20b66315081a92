"""Clients that take little of the processors which they share with the server that they measure.

    python -m bench.clients infer PROTOCOL ADDRESS MODEL CLIENTS SECONDS ELEMENTS [LEAST]
    python -m bench.clients embeddings ADDRESS PATH MODEL CLIENTS SECONDS TOKENS

Each of CLIENTS has a connection and sends its next request when it is answered. Requests are bytes
that are made once, and answers are not parsed. Prints one line of JSON: requests per second, median
and 99th percentile of the milliseconds from a request to its answer, the number of requests, and
what the clients used.

``infer`` asks a KServe server. PROTOCOL is grpc, grpc-frames or rest. An answer has LEAST bytes or
more; by default those of the request's tensor. ``grpc`` is `grpcio`; ``grpc-frames`` does without a
library and sends frames of HTTP/2 that are made once. A client of `grpcio` takes about as much
processor time for a call as a server. Where clients share their cores with a model, that time is
missing from the model's throughput, although clients are usually elsewhere. Written from RFC 9113,
RFC 7541 and gRPC's "gRPC over HTTP2".

``embeddings`` sends texts, and asks for base64 like openai's client. It does no more than the calls
of the system: an event loop with a protocol for each connection takes several times as much.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from statistics import quantiles
from struct import Struct
from time import perf_counter, process_time
from typing import Any, Final, cast

import grpc
import numpy as np
import uvloop

from bench.echo_servers import LARGEST, SERVICE
from protos.pool import message_class

# gRPC ---------------------------------------------------------------------------------------------

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = Struct(">BHBBI")  # length in 3 bytes, type, flags, stream
_SETTING: Final = Struct(">HI")
_NUMBER: Final = Struct(">I")
_MESSAGE: Final = Struct(">BI")  # not compressed, length

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS: Final = 4
_HEADER_TABLE_SIZE, _INITIAL_WINDOW_SIZE = 1, 4
_LARGEST_WINDOW: Final = 2**31 - 1
_FIRST_WINDOW: Final = 2**16 - 1
_LARGEST_FRAME: Final = 2**14


class GrpcConnection(asyncio.Protocol):
    """A connection that makes the same unary call again and again, one at a time.

    A message must fit into the window of a stream, which is 64 KiB or more.
    """

    def __init__(self, address: str, method: str, message: bytes) -> None:
        """``method``: ``/package.Service/Method``; ``message``: the request of every call."""
        self._headers = _header_block(address, method)
        body = _MESSAGE.pack(0, len(message)) + message
        self._size = len(body)
        self._pieces = [
            body[at : at + _LARGEST_FRAME] for at in range(0, len(body), _LARGEST_FRAME)
        ]
        self._transport: asyncio.Transport | None = None
        self._stream = -1
        #: Bytes that the server still takes, on the connection and on each new stream.
        self._window = self._stream_window = _FIRST_WINDOW
        self._waits = False
        self._buffer = b""
        self._received = 0
        self._answered: asyncio.Future[int] | None = None

    def ask(self) -> asyncio.Future[int]:
        """Make the call; return the number of bytes of the answer."""
        self._answered = asyncio.get_running_loop().create_future()
        self._received = 0
        self._stream += 2
        self._waits = True
        self._send_if_possible()
        return self._answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class in asyncio.
        self._transport = cast(asyncio.Transport, transport)
        settings = _SETTING.pack(_HEADER_TABLE_SIZE, 0)
        settings += _SETTING.pack(_INITIAL_WINDOW_SIZE, _LARGEST_WINDOW)
        window = _NUMBER.pack(_LARGEST_WINDOW - _FIRST_WINDOW)
        self._transport.write(
            _PREFACE + _frame(_SETTINGS, 0, 0, settings) + _frame(_WINDOW_UPDATE, 0, 0, window)
        )

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        at = 0
        while len(data) - at >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + (high << 16 | low)
            if len(data) < end:
                break
            self._take(kind, flags, stream, data[at + _HEAD.size : end])
            at = end
        self._buffer = data[at:]

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the server closed the connection")

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert self._transport is not None
        if kind == _DATA:
            self._received += len(payload)
        elif kind == _WINDOW_UPDATE and not stream:
            self._window += _NUMBER.unpack(payload)[0]
            self._send_if_possible()
        elif kind == _SETTINGS and not flags & _ACK:
            for number, value in _SETTING.iter_unpack(payload):
                if number == _INITIAL_WINDOW_SIZE:
                    self._stream_window = value
            self._transport.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, 0, payload))
        elif kind in (_RST_STREAM, _GOAWAY):
            self._fail(f"the server ended the call: {payload!r}")
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            answered, self._answered = self._answered, None
            if answered is None:
                return
            if self._received <= _MESSAGE.size:
                answered.set_exception(RuntimeError(f"an error instead of an answer: {payload!r}"))
            else:
                answered.set_result(self._received - _MESSAGE.size)

    def _send_if_possible(self) -> None:
        if not self._waits or self._window < self._size:
            return
        if self._stream_window < self._size:
            self._fail(f"a message of {self._size} bytes, {self._stream_window} are possible")
            return
        assert self._transport is not None
        self._waits = False
        self._window -= self._size
        frames = [_frame(_HEADERS, _END_HEADERS, self._stream, self._headers)]
        frames += [_frame(_DATA, 0, self._stream, piece) for piece in self._pieces[:-1]]
        frames.append(_frame(_DATA, _END_STREAM, self._stream, self._pieces[-1]))
        self._transport.write(b"".join(frames))

    def _fail(self, text: str) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered.set_exception(RuntimeError(text))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def _header_block(address: str, method: str) -> bytes:
    """Return the headers of a call, none of them for the dynamic table."""
    return b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http, by their places in the static table
            b"\x04" + _text(method),  # :path
            b"\x01" + _text(address),  # :authority
            b"\x00" + _text("te") + _text("trailers"),
            b"\x00" + _text("content-type") + _text("application/grpc"),
        )
    )


def _text(text: str) -> bytes:
    written = text.encode("ascii")
    assert len(written) < 127, "a longer one needs more than a byte for its length"
    return bytes([len(written)]) + written


# Requests -----------------------------------------------------------------------------------------

INPUT: Final = "in"


def http_request(path: str, host: str, body: bytes, **fields: str) -> bytes:
    """Return the bytes of a POST; ``fields``: more of its head, with underscores for hyphens."""
    fields = {"content_type": "application/json", **fields, "content_length": str(len(body))}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode() + body


def embeddings_requests(path: str, host: str, model: str, tokens: int) -> list[bytes]:
    """Return requests for the embeddings of different texts of this length, as base64."""
    from bench.random_model import text_of

    return [
        http_request(
            path,
            host,
            json.dumps(
                {"model": model, "input": text_of(tokens, seed), "encoding_format": "base64"}
            ).encode(),
        )
        for seed in range(_TEXTS)
    ]


def grpc_request(model: str, elements: int) -> bytes:
    """A ``ModelInferRequest`` with one tensor FP32 of shape [1, elements]."""
    request: Any = message_class("inference.ModelInferRequest")(model_name=model, id="1")
    request.inputs.add(name=INPUT, datatype="FP32", shape=[1, elements])
    request.raw_input_contents.append(np.zeros(elements, np.float32).tobytes())
    return bytes(request.SerializeToString())


def rest_request(model: str, elements: int, host: str) -> bytes:
    """The same request over HTTP/1.1 with the binary extension."""
    raw = np.zeros(elements, np.float32).tobytes()
    tensor = {
        "name": INPUT,
        "shape": [1, elements],
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(raw)},
    }
    text = json.dumps(
        {"id": "1", "inputs": [tensor], "parameters": {"binary_data_output": True}}
    ).encode()
    return http_request(
        f"/v2/models/{model}/infer",
        host,
        text + raw,
        content_type="application/octet-stream",
        inference_header_content_length=str(len(text)),
    )


# HTTP ---------------------------------------------------------------------------------------------

_TEXTS: Final = 64
#: Bytes that are read at once: more than an answer with a vector as base64.
_READ: Final = 256 * 1024
_OK: Final = b"HTTP/1.1 200"
_LENGTH: Final = b"\r\ncontent-length:"
_HEAD_END: Final = b"\r\n\r\n"
#: Seconds after which a server that answers nobody is given up.
_PATIENCE: Final = 60.0


def length_of(head: bytes) -> int:
    """Return the length of a body by its head; -1 if it comes in chunks."""
    head = head.lower()
    at = head.find(_LENGTH)
    return int(head[at + len(_LENGTH) :].partition(b"\r")[0]) if at >= 0 else -1


class HttpConnection:
    """A connection that is kept open, for a thread that waits."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        #: Bytes of the answer that are still to come; 0 before its head.
        self._missing = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, request: bytes) -> bytes:
        """Send a request; return the body of the answer."""
        self.send(request)
        return self.receive()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """Read an answer; return its body.

        Raises:
            RuntimeError: the answer has another status than 200.
        """
        answer = b""
        while _HEAD_END not in answer:
            answer += self.receive_some()
        head, _, body = answer.partition(_HEAD_END)
        if not head.startswith(_OK):
            raise RuntimeError(f"no answer, but {answer[:1000]!r}")
        length = length_of(head)
        while len(body) < length if length >= 0 else not body.endswith(b"0\r\n\r\n"):
            body += self.receive_some()
        return body

    def receive_some(self) -> bytes:
        """Read what has arrived; empty at the end."""
        return self._socket.recv(_READ)

    def has_answer(self) -> bool:
        """Read what has arrived, without keeping it; return whether the answer is whole.

        Raises:
            RuntimeError: the answer has another status than 200, or the connection was closed.
        """
        data = self.receive_some()
        if self._missing and data:
            self._missing -= len(data)
        else:
            head, end, body = data.partition(_HEAD_END)
            if not end or not head.startswith(_OK):
                raise RuntimeError(f"no answer, but {data[:1000]!r}")
            self._missing = length_of(head) - len(body)
        return not self._missing

    def shut_down(self) -> None:
        """End the connection; a thread that reads gets its end."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


class HttpClient(asyncio.Protocol):
    """A connection that reads only the length of an answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._missing = 0
        self._received = 0
        self._answered: asyncio.Future[int] | None = None

    def ask(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; return the number of bytes of the answer's body."""
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class in asyncio.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            self._head += data
            head, end, body = self._head.partition(_HEAD_END)
            if not end:
                return
            if not head.startswith(_OK):
                self._fail(f"{head!r} {body!r}")
                return
            self._received = length_of(head)
            self._missing = self._received - len(body)
            self._head = b""
        else:
            self._missing -= len(data)
        if not self._missing and self._answered is not None:
            self._answered.set_result(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._fail("the server closed the connection")

    def _fail(self, text: str) -> None:
        if self._answered is not None:
            self._answered.set_exception(RuntimeError(text))


# Closed loops -------------------------------------------------------------------------------------

Ask = Callable[[], Awaitable[int]]


async def grpc_client(address: str, request: bytes, stack: AsyncExitStack) -> Ask:
    options = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", LARGEST),
        ("grpc.max_send_message_length", LARGEST),
    )
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options))
    call = channel.unary_unary(f"/{SERVICE}/ModelInfer")

    async def ask() -> int:
        return len(await call(request))

    return ask


async def grpc_frames_client(address: str, request: bytes, stack: AsyncExitStack) -> Ask:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(
        lambda: GrpcConnection(address, f"/{SERVICE}/ModelInfer", request), host, int(port)
    )
    stack.callback(transport.close)
    return client.ask


async def rest_client(address: str, request: bytes, stack: AsyncExitStack) -> Ask:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(HttpClient, host, int(port))
    stack.callback(transport.close)
    return lambda: client.ask(request)


async def run(clients: Sequence[Ask], seconds: float, least: int) -> dict[str, float]:
    """Measure all clients. One request of each, which is not counted, warms up.

    Raises:
        RuntimeError: an answer has fewer than ``least`` bytes, or a request failed.
    """
    for ask in clients:
        size = await ask()
        if size < least:
            raise RuntimeError(f"an answer of {size} bytes, {least} are expected")
    times: list[float] = []
    used = process_time()
    started = perf_counter()
    end = started + seconds

    async def work(ask: Ask) -> None:
        sent = perf_counter()
        while sent < end:
            await ask()
            now = perf_counter()
            times.append(now - sent)
            sent = now

    await asyncio.gather(*map(work, clients))
    elapsed = perf_counter() - started
    used = process_time() - used
    found = figures(times, elapsed)
    return {**found, "requests": found["all"], "cores": used / elapsed}


def figures(times: Sequence[float], taken: float, earlier: int = 0) -> dict[str, float]:
    """Return rate, median and 99th percentile of answers that took ``times`` seconds.

    ``earlier``: the number of answers before, which the processor time of all has to be divided by.
    """
    cuts = quantiles([each * 1e3 for each in times], n=100, method="inclusive")
    rate = len(times) / taken
    return {"rate": rate, "p50": cuts[49], "p99": cuts[98], "all": len(times) + earlier}


async def infer(
    protocol: str, address: str, model: str, count: str, seconds: str, elements: str, least: str
) -> dict[str, float]:
    """Return the figures of clients of KServe, and the cores that they used."""
    async with AsyncExitStack() as stack:
        if protocol == "rest":
            request = rest_request(model, int(elements), address)
            connect = rest_client
        else:
            request = grpc_request(model, int(elements))
            connect = grpc_client if protocol == "grpc" else grpc_frames_client
        clients = [await connect(address, request, stack) for _ in range(int(count))]
        return await run(clients, float(seconds), int(least))


def embeddings(
    address: str, path: str, model: str, clients: str, seconds: str, tokens: str
) -> dict[str, float]:
    """Return the figures of clients for embeddings, and their microseconds of CPU for each text."""
    requests = embeddings_requests(path, address, model, int(tokens))
    made = [HttpConnection(address) for _ in range(int(clients))]
    began = process_time()
    # Prepares every shape of a batch.
    earlier = len(_ask_all(made, requests, min(1.0, float(seconds))))
    begun = perf_counter()
    times = _ask_all(made, requests, float(seconds))
    found = figures(times, perf_counter() - begun, earlier)
    for client in made:
        client.close()
    return {**found, "clients": (process_time() - began) / found["all"] * 1e6}


def _ask_all(
    clients: Sequence[HttpConnection], requests: Sequence[bytes], seconds: float
) -> list[float]:
    """Ask for ``seconds``, and until all is answered; return the seconds to each answer."""
    times: list[float] = []
    waiting = {client.fileno(): client for client in clients}
    places = {descriptor: number for number, descriptor in enumerate(waiting)}
    sent: dict[int, float] = {}
    poll = select.epoll()
    until = perf_counter() + seconds
    for descriptor, client in waiting.items():
        poll.register(descriptor, select.EPOLLIN)
        sent[descriptor] = perf_counter()
        client.send(requests[places[descriptor] % len(requests)])
    asking = len(clients)
    while asking:
        ready = poll.poll(_PATIENCE)
        if not ready:
            raise RuntimeError(f"no answer in {_PATIENCE:g} s")
        for descriptor, _ in ready:
            client = waiting[descriptor]
            if not client.has_answer():
                continue
            now = perf_counter()
            times.append(now - sent[descriptor])
            if now >= until:
                asking -= 1
                continue
            places[descriptor] += 1
            sent[descriptor] = now
            client.send(requests[places[descriptor] % len(requests)])
    poll.close()
    return times


def main() -> None:
    match sys.argv[1:]:
        case ["infer", *words] if len(words) in (6, 7):
            protocol, address, model, count, seconds, elements = words[:6]
            least = words[6] if len(words) == 7 else str(4 * int(elements))
            asked = infer(protocol, address, model, count, seconds, elements, least)
            print(json.dumps(uvloop.run(asked)))
        case ["embeddings", address, path, model, count, seconds, tokens]:
            print(json.dumps(embeddings(address, path, model, count, seconds, tokens)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
