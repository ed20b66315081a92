"""Time limits of an inference, of an unused stream, and of a client that does not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import grpc.aio
import pytest

from calculators.kit.requests.http_payload import ClientConnection
from calculators.kit.requests.request_record import current_record
from calculators.tensors.inference import InferRequest, InferResponse
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, FakeStream
from tests.servers.fronts.kserve_grpc.grpc_client import (
    HEALTH,
    end_of,
    infer_request,
    serving,
    shown,
)

pytestmark = pytest.mark.both_loops


async def hang(request: InferRequest, client: ClientConnection) -> InferResponse:
    await asyncio.Event().wait()
    raise AssertionError


def test_an_inference_that_takes_too_long_ends_with_a_status(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane, GrpcSettings(request_seconds=0.05)) as client:
            request = infer_request("hang").SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request)
            assert shown(caught.value) == (
                "DEADLINE_EXCEEDED: the request was not answered within 0.05 s, the server's limit"
            )
            assert plane.cancelled == 1
            assert (await client.call("ModelInfer", model_name="echo", id="a")).id == "a"

    run(scenario())


async def hang_in_a_node(request: InferRequest, client: ClientConnection) -> InferResponse:
    record = current_record()
    assert record is not None
    record.waits_for = lambda: ["model", "slow"]
    return await hang(request, client)


def test_the_nodes_that_an_inference_waits_for_are_told(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang_in_a_node)
        async with serving(plane, GrpcSettings(request_seconds=0.05)) as client:
            request = infer_request("hang").SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.call_raw("ModelInfer", request)
            assert shown(caught.value) == (
                "DEADLINE_EXCEEDED: the request was not answered within 0.05 s, the server's "
                'limit: nodes "model", "slow" have not returned'
            )

    run(scenario())


def test_an_unused_stream_ends(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, GrpcSettings(idle_seconds=2.0)) as client:
            silent, used = client.stream()(), client.stream()()
            await used.write(infer_request())
            assert (await used.read()).infer_response.model_name == "echo"
            text = "DEADLINE_EXCEEDED: nothing was sent in this stream for 2 s"
            assert [await end_of(silent), await end_of(used)] == [text, text]
            assert plane.cancelled == 1

    run(scenario())


def test_streams_in_use_and_health_watches_are_not_ended(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, GrpcSettings(idle_seconds=4.0)) as client:
            watching = client.stream("Watch", HEALTH)()
            used, silent = client.stream()(), client.stream()()
            await watching.write(b"")
            assert (await watching.read()).status == 1
            ended = asyncio.ensure_future(end_of(silent))
            while not ended.done():  # longer than it takes to end a silent stream
                await used.write(infer_request())
                await used.read()
                await asyncio.wait([ended], timeout=0.02)
            await used.write(infer_request(id="b"))
            assert (await used.read()).infer_response.id == "b"
            assert not watching.done()

    run(scenario())


class Pouring(FakeStream):
    """Sends without end, as fast as its client reads."""

    async def wait(self) -> None:
        assert self.client is not None
        while True:
            await self.client.writable()
            self.emit(InferResponse("pour", "1", "", {"p": "x" * 100_000}))


def test_a_client_that_does_not_read_is_cut_off_and_disturbs_no_other(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane({"pour": Pouring})
        async with serving(plane, GrpcSettings(stall_seconds=0.2)) as client:
            call = client.stream()()
            await call.write(infer_request("pour"))
            await call.read()
            await plane.ended.wait()
            assert plane.cancelled == 1
            assert (await client.call("ServerLive")).live
            # When it reads again, it receives the reason.
            text = "RESOURCE_EXHAUSTED: the client took nothing of its answers for 0.2 s"
            assert await end_of(call) == text

    run(scenario())


# A client that acknowledges every 64 KiB that it has read.
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536))


def test_a_slow_client_is_not_cut_off(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane({"pour": Pouring})
        async with serving(plane, GrpcSettings(stall_seconds=5.0), *SMALL_WINDOW) as client:
            stalled, slow = client.stream()(), client.stream()()
            await slow.write(infer_request("pour"))
            await stalled.write(infer_request("pour"))
            while (
                not plane.ended.is_set()
            ):  # longer than it takes to cut off a client that does not read
                await slow.read()
                with suppress(TimeoutError):
                    await asyncio.wait_for(plane.ended.wait(), 0.02)
            assert plane.cancelled == 1
            assert (await slow.read()).infer_response.model_name == "pour"

    run(scenario())
