"""A front on a free port, and a client of it in the same loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from protos.pool import message_class, pool
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.kserve_grpc.front import GrpcFront, start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings

INFERENCE = "inference.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"


class Client:
    """Calls methods by name with messages of our pool."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def stream(self, method: str = "ModelStreamInfer", service: str = INFERENCE) -> Any:
        """Open a call that writes and reads messages, whatever the method's description says."""
        described = pool().FindServiceByName(service).methods_by_name[method]
        answer = message_class(described.output_type.full_name)
        return self.channel.stream_stream(
            f"/{service}/{method}",
            request_serializer=_serialized,
            response_deserializer=answer.FromString,
        )

    async def call(self, method: str, service: str = INFERENCE, /, **fields: Any) -> Any:
        """Return the answer of a unary method."""
        described = pool().FindServiceByName(service).methods_by_name[method]
        request = message_class(described.input_type.full_name)(**fields)
        return await self.call_raw(method, request.SerializeToString(), service)

    def call_raw(
        self, method: str, request: bytes, service: str = INFERENCE, **options: Any
    ) -> Any:
        described = pool().FindServiceByName(service).methods_by_name[method]
        answer = message_class(described.output_type.full_name)
        function = self.channel.unary_unary(
            f"/{service}/{method}", response_deserializer=answer.FromString
        )
        return function(request, **options)

    async def refusal(self, method: str, service: str = INFERENCE, /, **fields: Any) -> str:
        """Return ``CODE: text`` of a call that fails."""
        try:
            answer = await self.call(method, service, **fields)
        except grpc.aio.AioRpcError as error:
            return shown(error)
        raise AssertionError(f"no error, but {answer}")


def infer_request(model: str = "echo", **fields: Any) -> Any:
    return message_class("inference.ModelInferRequest")(model_name=model, **fields)


async def end_of(call: Any) -> str:
    """Read a stream to its end; return ``CODE: text``, or "OK"."""
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError as error:
        return shown(error)
    return "OK"


def shown(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"


def _serialized(message: Any) -> bytes:
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())


@asynccontextmanager
async def connected(front: GrpcFront, *options: tuple[str, Any]) -> AsyncIterator[Client]:
    """Connect a client to a front; several in one loop have connections of their own."""
    host, port = front.addresses[0]
    alone = ("grpc.use_local_subchannel_pool", 1)
    async with grpc.aio.insecure_channel(f"{host}:{port}", options=(alone, *options)) as channel:
        yield Client(channel)


@asynccontextmanager
async def serving(
    data_plane: DataPlane,
    settings: GrpcSettings | None = None,
    *options: tuple[str, Any],
    room: BodyRoom | None = None,
) -> AsyncIterator[Client]:
    """A front and a client with these channel arguments."""
    async with (
        serving_front(data_plane, settings, room=room) as front,
        connected(front, *options) as client,
    ):
        yield client


@asynccontextmanager
async def serving_front(
    data_plane: DataPlane, settings: GrpcSettings | None = None, *, room: BodyRoom | None = None
) -> AsyncIterator[GrpcFront]:
    front = await start_front(data_plane, settings or GrpcSettings(), room=room)
    try:
        yield front
    finally:
        await front.close()
