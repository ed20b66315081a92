"""A gRPC call, or stream of requests, of a client that may leave at any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, Final

import grpc
import numpy as np

from protos.pool import message_class
from tests.reliability.http_exchange import Broken, Leaving

_SERVICE: Final = "inference.GRPCInferenceService"
_SECONDS: Final = 120.0
#: Refusals that a server under load may give.
_BUSY: Final = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE})
Call = Callable[[grpc.aio.Channel, Leaving, Random], Awaitable[str]]
_ALONE: Final = (("grpc.use_local_subchannel_pool", 1),)


async def exchange(address: str, leaving: Leaving, random: Random) -> str:
    """Send a request on a channel of its own; return how it ended.

    Raises:
        Broken: as `tests.reliability.http_exchange.exchange`.
    """
    async with grpc.aio.insecure_channel(address, options=_ALONE) as channel:
        if leaving is Leaving.SILENT:
            await channel.channel_ready()
            return leaving
        kind: Call = random.choice((_infer, _sensor_stream, _text_stream))
        try:
            async with asyncio.timeout(_SECONDS):
                return await kind(channel, leaving, random)
        except grpc.aio.AioRpcError as error:
            if error.code() in _BUSY:
                return str(error.code().name)
            raise Broken(f"gRPC: {error.code().name}: {error.details()}") from error
        except TimeoutError:
            raise Broken(f"gRPC: no end after {_SECONDS:g} s") from None


async def _infer(channel: grpc.aio.Channel, leaving: Leaving, random: Random) -> str:
    model, name, columns = random.choice(
        (("flowers", "measurements", 4), ("python_handler", "scores", 3))
    )
    request = _request(model)
    rows = random.randint(1, 64)
    request.inputs.add(name=name, datatype="FP32", shape=[rows, columns])
    request.raw_input_contents.append(np.ones((rows, columns), np.float32).tobytes())
    call = channel.unary_unary(f"/{_SERVICE}/ModelInfer")(request.SerializeToString())
    if leaving is not Leaving.WHOLE:
        await asyncio.sleep(random.uniform(0.0, 0.05))
        call.cancel()
        return leaving
    response: Any = message_class("inference.ModelInferResponse").FromString(await call)
    if not response.outputs:
        raise Broken("gRPC infer: no outputs")
    return "OK"


async def _sensor_stream(channel: grpc.aio.Channel, leaving: Leaving, random: Random) -> str:
    count = random.randint(1, 40)

    async def requests() -> AsyncIterator[bytes]:
        for _ in range(count):
            request = _request("sensor")
            for name, value in (("temperature", 290.0), ("pressure", 101_325.0)):
                request.inputs.add(name=name, datatype="FP64", shape=[1])
                request.raw_input_contents.append(np.array([value]).tobytes())
            yield request.SerializeToString()
            await asyncio.sleep(random.choice((0.0, 0.0, 0.01, 0.1)))

    return await _stream(channel, requests(), leaving, random, 2 * count)


async def _text_stream(channel: grpc.aio.Channel, leaving: Leaving, random: Random) -> str:
    count = random.randint(1, 3)

    async def requests() -> AsyncIterator[bytes]:
        for number in range(count):
            request = _request("demo", id=str(number))
            request.parameters["max_tokens"].int64_param = random.randint(4, 60)
            request.inputs.add(name="text_input", datatype="BYTES", shape=[1])
            request.inputs[0].contents.bytes_contents.append(b"The graph")
            yield request.SerializeToString()

    return await _stream(channel, requests(), leaving, random, count)


async def _stream(
    channel: grpc.aio.Channel,
    requests: AsyncIterator[bytes],
    leaving: Leaving,
    random: Random,
    least: int,
) -> str:
    call = channel.stream_stream(f"/{_SERVICE}/ModelStreamInfer")(requests)
    enough = None if leaving is Leaving.WHOLE else random.choice((0, 1, 3, 10))
    count = 0
    if enough != 0:
        async for data in call:
            answer: Any = message_class("inference.ModelStreamInferResponse").FromString(data)
            if answer.error_message:
                raise Broken(f"gRPC stream: {answer.error_message}")
            count += 1
            if count == enough:
                break
    if enough is not None:
        call.cancel()
        return leaving
    if count < least:
        raise Broken(f"gRPC stream: {count} answers, not {least}")
    return "OK"


def _request(model: str, **fields: Any) -> Any:
    return message_class("inference.ModelInferRequest")(model_name=model, **fields)
