"""Attacks on the memory and the event loop of the fronts: bodies, messages, connections.

Clients abandon bodies, send what is refused in large amounts, or open what they do not use.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio

from protos.pool import message_class
from tests.process.http_client import CHAT
from tests.reliability.hostile.attack import Attack, Send, Target, act

_MIB: Final = 2**20
_INFER: Final = "/v2/models/flowers/infer"
_METHODS: Final = "/inference.GRPCInferenceService/"
#: MiB by which the server may grow meanwhile: what bodies may take together, one body that
#: exceeds that, and as much for what is being decoded or sent.
_MOST_GROWTH: Final = 420.0
#: MiB that may be left of it.
_MOST_LEFT: Final = 130.0
_TENSORS: Final = {
    "Content-Type": "application/octet-stream",
    "Inference-Header-Content-Length": "10",
}
_JSON: Final = {"Content-Type": "application/json"}
_FORM: Final = {"Content-Type": "multipart/form-data; boundary=abc"}
_PART: Final = b'--abc\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'


async def _many(number: int, at_once: int, one: Callable[[], Awaitable[str]]) -> Counter[str]:
    answers: Counter[str] = Counter()
    left = iter(range(number))

    async def client() -> None:
        for _ in left:
            answers[await one()] += 1

    await asyncio.gather(*(client() for _ in range(at_once)))
    return answers


def _abandoned(
    path: str, headers: dict[str, str], size: int | None, sent: int, begin: bytes = b""
) -> Send:
    """40 clients send ``sent`` of ``size`` MiB, in chunks if there is no size, and leave."""
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size * _MIB}"
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", length]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    data = b" " * _MIB
    piece = b"%x\r\n%s\r\n" % (_MIB, data) if size is None else data

    async def one(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head)
            if "Expect" in headers:
                await reader.readuntil(b"\r\n\r\n")
            writer.write(begin)
            for _ in range(sent):
                writer.write(piece)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return "closed"
        finally:
            writer.transport.abort()
        return "left"

    return lambda target: _many(40, 20, lambda: one(target.port))


def _refused_often(path: str, headers: dict[str, str], body: bytes, number: int) -> Send:
    """Clients send a whole body, ten at a time."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode()

    async def one(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head)
            writer.write(body)
            return (await reader.read(65536))[9:12].decode()
        except ConnectionError:
            return "closed"
        finally:
            writer.close()

    return lambda target: _many(number, 10, lambda: one(target.port))


_LIVE: Final = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
_UPGRADE: Final = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
_AHEAD: Final = (
    b"POST /v9/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n" + bytes(65536)
)


def _odd(data: bytes, number: int) -> Send:
    """Clients send what is not a request that they need, ten at a time."""

    async def one(port: int) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            return (await reader.read(65536))[9:12].decode() or "closed"
        except ConnectionError:
            return "closed"
        finally:
            writer.transport.abort()

    return lambda target: _many(number, 10, lambda: one(target.port))


def _message(**of_input: Any) -> bytes:
    request: Any = message_class("inference.ModelInferRequest")(model_name="flowers")
    request.inputs.add(name="none", **of_input)
    return bytes(request.SerializeToString())


def _large_message() -> bytes:
    request: Any = message_class("inference.ModelInferRequest")(model_name="flowers")
    request.inputs.add(name="none", datatype="UINT8", shape=[60 * _MIB])
    request.raw_input_contents.append(bytes(60 * _MIB))
    return bytes(request.SerializeToString())


def _bools(count: int) -> bytes:
    return _message(datatype="BOOL", shape=[count], contents={"bool_contents": [True] * count})


def _calls(
    message: Callable[[], bytes], number: int, at_once: int, compression: Any = None
) -> Callable[[], Send]:
    """Call ``ModelInfer`` with a message, from several connections."""

    def prepare() -> Send:
        data = message()

        async def send(target: Target) -> Counter[str]:
            options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
            channels = [
                grpc.aio.insecure_channel(f"127.0.0.1:{target.grpc_port}", options=options)
                for _ in range(min(at_once, 8))
            ]
            numbers = iter(range(number))

            async def one() -> str:
                channel = channels[next(numbers) % len(channels)]
                try:
                    await channel.unary_unary(f"{_METHODS}ModelInfer")(
                        data, compression=compression
                    )
                except grpc.aio.AioRpcError as error:
                    return str(error.code().name)
                return "OK"

            try:
                return await _many(number, at_once, one)
            finally:
                for channel in channels:
                    await channel.close()

        return send

    return prepare


async def _streams(target: Target) -> Counter[str]:
    """Open 10,000 streams, send nothing, and cancel them."""
    answers: Counter[str] = Counter()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
        calls = [channel.stream_stream(f"{_METHODS}ModelStreamInfer")() for _ in range(10_000)]
        await asyncio.sleep(2)
        for call in calls:
            call.cancel()
        for call in calls:
            answers[(await call.code()).name] += 1
    return answers


async def _resets(target: Target) -> Counter[str]:
    """Open and reset 20,000 calls on one connection, as fast as the server reads."""
    fields = {":method": "POST", ":scheme": "http", ":path": f"{_METHODS}ModelInfer",
              ":authority": "x", "te": "trailers", "content-type": "application/grpc"}  # fmt: skip
    words = [part.encode() for pair in fields.items() for part in pair]
    block = b"".join(
        (b"\0" if place % 2 == 0 else b"") + bytes((len(word),)) + word
        for place, word in enumerate(words)
    )
    _, writer = await asyncio.open_connection("127.0.0.1", target.grpc_port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    try:
        for number in range(20_000):
            stream = (2 * number + 1).to_bytes(4)
            writer.write(len(block).to_bytes(3) + bytes((1, 4)) + stream + block)
            writer.write(bytes((0, 0, 4, 3, 0)) + stream + (8).to_bytes(4))
            if number % 100 == 0:
                await writer.drain()
    except ConnectionError:
        return Counter({"closed": 1})
    finally:
        writer.transport.abort()
    return Counter({"left": 1})


_LEFT: Final = frozenset({"left", "closed"})
_REFUSED: Final = frozenset({"400", "503"})
_NO_HTTP: Final = frozenset({"400", "closed"})
_STATUSES: Final = frozenset({"INVALID_ARGUMENT", "UNAVAILABLE"})


def _attack(name: str, prepare: Callable[[], Send], answers: frozenset[str]) -> Attack:
    return Attack(
        name, prepare, answers, most_growth=_MOST_GROWTH, most_left=_MOST_LEFT, most_seconds=120.0
    )


async def _much_in_little(target: Target) -> Counter[str]:
    headers = {**_TENSORS, "Content-Encoding": "gzip"}
    return await _refused_often(_INFER, headers, gzip.compress(bytes(60 * _MIB)), 40)(target)


FRONT_ATTACKS: Final = (
    _attack("30 of 60 MiB of tensors, 40 clients that leave",
            act(_abandoned(_INFER, _TENSORS, 60, 30)), _LEFT),
    _attack("30 MiB of tensors in chunks, 40 clients that leave",
            act(_abandoned(_INFER, _TENSORS, None, 30)), _LEFT),
    _attack("30 of 60 MiB after 100 Continue, 40 clients that leave",
            act(_abandoned(_INFER, {**_TENSORS, "Expect": "100-continue"}, 60, 30)), _LEFT),
    _attack("4 of 8 MiB of JSON, 40 clients that leave",
            act(_abandoned(CHAT, _JSON, 8, 4)), _LEFT),
    _attack("12 of 24 MiB of a form, 40 clients that leave",
            act(_abandoned("/v3/audio/transcriptions", _FORM, 24, 12, _PART)), _LEFT),
    _attack("7 MiB that are not JSON, 40 clients",
            act(_refused_often(CHAT, _JSON, b"[" + b" " * 7 * _MIB, 40)), _REFUSED),
    _attack("20 MiB of a form without end, 40 clients",
            act(_refused_often("/v3/audio/transcriptions", _FORM, _PART + bytes(20 * _MIB), 40)),
            _REFUSED),
    _attack("60 kB that become 60 MiB, 40 clients",
            act(_much_in_little), _REFUSED),
    _attack("200 headers of 1 MiB", act(_odd(_LIVE + b"a: " + b"x" * _MIB, 200)), _NO_HTTP),
    _attack("10,000 headers, 100 clients", act(_odd(_LIVE + b"a: b\r\n" * 10_000, 100)), _NO_HTTP),
    _attack("4 MiB behind an upgrade of no socket, 40 clients",
            act(_odd(_LIVE + _UPGRADE + bytes(4 * _MIB), 40)), _NO_HTTP | {"200"}),
    _attack("30 MiB behind an upgrade of no socket, 20 clients",
            act(_odd(_LIVE + _UPGRADE + bytes(30 * _MIB), 20)), _NO_HTTP | {"200"}),
    _attack("4 MiB behind CONNECT, 40 clients",
            act(_odd(b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n" + bytes(4 * _MIB), 40)),
            _NO_HTTP),
    _attack("4 MiB behind a request, 40 clients",
            act(_odd(_LIVE + b"\r\n" + bytes(4 * _MIB), 40)), _NO_HTTP | {"200"}),
    _attack("64 requests of 64 KiB to nothing, sent ahead, 40 clients",
            act(_odd(_AHEAD * 64, 40)), frozenset({"404", "closed"})),
    _attack("40 gRPC messages of 60 MiB", _calls(_large_message, 40, 20), _STATUSES),
    _attack("gRPC: 60 kB that become 60 MiB, 20 messages",
            _calls(_large_message, 20, 10, grpc.Compression.Gzip), _STATUSES),
    _attack("gRPC: 8,000,000 BOOL", _calls(lambda: _bools(8_000_000), 4, 1), _STATUSES),
    _attack("gRPC: 16 messages of 4,000,000 BOOL", _calls(lambda: _bools(4_000_000), 16, 16),
            _STATUSES),
    _attack("gRPC: a shape of 8,000,000 dimensions",
            _calls(lambda: _message(datatype="BOOL", shape=[1] * 8_000_000), 6, 6), _STATUSES),
    _attack("gRPC: 10,000 silent streams", act(_streams),
            frozenset({"CANCELLED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"})),
    _attack("gRPC: 20,000 resets", act(_resets), frozenset({"closed"})),
)  # fmt: skip
