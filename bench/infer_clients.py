"""Clients of a KServe server, in a process of their own. Each sends its next request when answered.

    python -m bench.infer_clients PROTOCOL ADDRESS MODEL CLIENTS SECONDS ELEMENTS [LEAST]

PROTOCOL is grpc, grpc-frames or rest. An answer has LEAST bytes or more; by default those of the
request's tensor.

Prints one line of JSON: requests per second, median and 99th percentile of the milliseconds from a
request to its answer, and the cores that the clients used. Each client has its own connection.
Requests are made once and answers are not parsed: the clients cost as little as their libraries
allow. ``grpc`` is `grpcio`; ``grpc-frames`` does without a library.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from time import perf_counter, process_time
from typing import Any, Final, cast

import grpc
import numpy as np
import uvloop

from bench.echo_servers import LARGEST, SERVICE
from bench.grpc_connection import GrpcConnection
from protos.pool import message_class

Ask = Callable[[], Awaitable[int]]

INPUT: Final = "in"
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length: "


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
    head = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/octet-stream\r\n"
        f"Inference-Header-Content-Length: {len(text)}\r\n"
        f"Content-Length: {len(text) + len(raw)}\r\n\r\n"
    ).encode()
    return head + text + raw


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
            if not head.startswith(b"HTTP/1.1 200"):
                self._fail(f"{head!r} {body!r}")
                return
            head = head.lower()
            at = head.index(_LENGTH) + len(_LENGTH)
            self._received = int(head[at:].partition(b"\r")[0])
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
    times.sort()
    return {
        "rate": len(times) / elapsed,
        "requests": len(times),
        "p50": times[len(times) // 2] * 1e3,
        "p99": times[len(times) * 99 // 100] * 1e3,
        "cores": used / elapsed,
    }


async def main(
    protocol: str,
    address: str,
    model: str,
    count: int,
    seconds: float,
    elements: int,
    least: int,
) -> None:
    async with AsyncExitStack() as stack:
        if protocol == "rest":
            request = rest_request(model, elements, address)
            connect = rest_client
        else:
            request = grpc_request(model, elements)
            connect = grpc_client if protocol == "grpc" else grpc_frames_client
        clients = [await connect(address, request, stack) for _ in range(count)]
        print(json.dumps(await run(clients, seconds, least)), flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) not in (6, 7):
        sys.exit((__doc__ or "").strip())
    protocol, address, model, count, seconds, elements = given[:6]
    least = int(given[6]) if len(given) == 7 else 4 * int(elements)
    uvloop.run(main(protocol, address, model, int(count), float(seconds), int(elements), least))
