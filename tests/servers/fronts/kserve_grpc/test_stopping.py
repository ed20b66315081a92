"""Stopping a front: calls in flight may end, health watches end, and no new call begins."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest

from calculators.kit.requests.http_payload import ClientConnection
from calculators.tensors.inference import InferRequest, InferResponse
from protos.pool import message_class
from servers.fronts.kserve_grpc.front import start_front
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, echoed
from tests.servers.fronts.kserve_grpc.grpc_client import (
    HEALTH,
    connected,
    end_of,
    infer_request,
    serving,
    shown,
)

pytestmark = pytest.mark.both_loops

SHUTTING_DOWN = "UNAVAILABLE: the server is shutting down"


class Gate:
    """A model that answers on command."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.entered = asyncio.Event()

    async def __call__(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        self.entered.set()
        await self.open.wait()
        return echoed(request)


def test_calls_in_flight_may_end_and_no_new_one_begins(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        data_plane = FakeDataPlane(gate=gate)
        front = await start_front(data_plane, GrpcSettings())
        async with connected(front) as client, connected(front) as late:
            unary = client.call_raw("ModelInfer", infer_request("gate", id="a").SerializeToString())
            stream = client.stream()()
            await stream.write(infer_request())
            await stream.read()
            await gate.entered.wait()
            await front.stop_accepting()
            assert (await late.refusal("ServerLive")).startswith("UNAVAILABLE")
            draining = asyncio.create_task(front.drain(20))
            gate.open.set()
            assert (await unary).id == "a"
            await stream.write(infer_request(id="b"))
            assert (await stream.read()).infer_response.id == "b"
            await stream.done_writing()
            assert await end_of(stream) == "OK"
            assert await draining == 0
            await front.close()

    run(scenario())


def test_calls_that_do_not_end_are_cut_off_with_a_status(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        data_plane = FakeDataPlane(gate=gate)
        front = await start_front(data_plane, GrpcSettings())
        async with connected(front) as client:
            unary = client.call_raw("ModelInfer", infer_request("gate").SerializeToString())
            stream, unused = client.stream()(), client.stream()()
            await stream.write(infer_request())
            await stream.read()
            await unused.wait_for_connection()
            await gate.entered.wait()
            assert await front.drain(0) >= 2
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await unary
            assert shown(caught.value) == SHUTTING_DOWN
            assert await end_of(stream) == SHUTTING_DOWN
            assert (await end_of(unused)).startswith("UNAVAILABLE")
            assert data_plane.cancelled == 2
            await front.close()

    run(scenario())


def test_a_front_that_is_closed_at_once_cancels_calls_in_flight(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        data_plane = FakeDataPlane(gate=gate)
        front = await start_front(data_plane, GrpcSettings())
        async with connected(front) as client:
            call = client.call_raw("ModelInfer", infer_request("gate").SerializeToString())
            await gate.entered.wait()
            await front.close()
            assert data_plane.cancelled == 1
            with pytest.raises(grpc.aio.AioRpcError):
                await call

    run(scenario())


def test_watched_health_changes_and_ends_when_the_server_stops(run: Run) -> None:
    async def scenario() -> None:
        data_plane = FakeDataPlane()
        data_plane.is_ready = False
        front = await start_front(data_plane, GrpcSettings(watch_seconds=0.01))
        request = message_class("grpc.health.v1.HealthCheckRequest")
        async with connected(front) as client:
            server, model, nothing = (client.stream("Watch", HEALTH)() for _ in range(3))
            for call, service in ((server, ""), (model, "echo"), (nothing, "no")):
                await call.write(request(service=service))
                await call.done_writing()
            assert (await server.read()).status == 2
            assert (await model.read()).status == 1
            assert (await nothing.read()).status == 3
            data_plane.is_ready = True
            data_plane.unready.add("echo")
            assert (await server.read()).status == 1
            assert (await model.read()).status == 2
            assert await front.drain(20) == 0
            assert [await end_of(call) for call in (server, model, nothing)] == [SHUTTING_DOWN] * 3
        await front.close()

    run(scenario())


def test_a_watch_without_a_request_is_refused(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            call = client.stream("Watch", HEALTH)()
            await call.done_writing()
            assert await end_of(call) == "INVALID_ARGUMENT: the stream ended before its request"

    run(scenario())


def test_an_address_in_use_is_an_error(run: Run) -> None:
    async def scenario() -> None:
        front = await start_front(FakeDataPlane(), GrpcSettings())
        port = front.addresses[0][1]
        for taken in (port, listener.getsockname()[1]):
            with pytest.raises(OSError, match="address already in use"):
                await start_front(FakeDataPlane(), GrpcSettings(port=taken))
        await front.close()
        again = await start_front(FakeDataPlane(), GrpcSettings(port=port))
        assert again.addresses == [("127.0.0.1", port)]
        await again.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        run(scenario())


def test_several_addresses_share_a_port(run: Run) -> None:
    async def scenario() -> None:
        settings = GrpcSettings(hosts=("127.0.0.1", "127.0.0.2"))
        front = await start_front(FakeDataPlane(), settings)
        (one, port), (other, same_port) = front.addresses
        assert (one, other, port) == ("127.0.0.1", "127.0.0.2", same_port)
        async with connected(front) as client:
            assert (await client.call("ServerLive")).live
        await front.close()

    run(scenario())
