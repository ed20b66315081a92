"""Large messages share one bound with the bodies of HTTP; small ones pass whatever others send."""

from __future__ import annotations

import asyncio
import gc
import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from calculators.kit.requests.http_payload import ClientConnection
from calculators.tensors.inference import InferRequest, InferResponse
from protos.pool import message_class, pool
from servers.fronts import body_room
from servers.fronts.body_room import SMALL, BodyRoom
from servers.fronts.http import HttpSettings
from servers.fronts.http.front import start_front as start_http
from servers.fronts.kserve_grpc import gate as gate_module
from servers.fronts.kserve_grpc.gate import MOST_RESETS
from servers.fronts.kserve_grpc.settings import GrpcSettings
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane as HttpDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, echoed
from tests.servers.fronts.kserve_grpc.grpc_client import (
    HEALTH,
    INFERENCE,
    Client,
    connected,
    end_of,
    infer_request,
    serving,
    serving_front,
    shown,
)
from tests.servers.fronts.kserve_grpc.raw_connection import raw_connection

pytestmark = pytest.mark.both_loops

CAPACITY = 4 * SMALL


class Gate:
    """A model that answers when it is opened."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()

    async def __call__(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        await self.is_open.wait()
        return echoed(request)


def large(model: str = "echo") -> Any:
    request = infer_request(model)
    request.inputs.add(name="x", datatype="UINT8", shape=[3 * SMALL])
    request.raw_input_contents.append(bytes(3 * SMALL))
    return request


async def outcome(client: Client, request: Any) -> str:
    """``OK``, or ``CODE: text`` of a call that fails."""
    try:
        await client.call_raw("ModelInfer", request.SerializeToString())
    except grpc.aio.AioRpcError as error:
        return shown(error)
    return "OK"


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 0.3)


def test_a_large_message_waits_for_room_and_a_small_one_does_not(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        plane = FakeDataPlane(gate=gate)
        room = BodyRoom(CAPACITY)
        async with serving(plane, room=room) as client, asyncio.TaskGroup() as tasks:
            first = tasks.create_task(outcome(client, large("gate")))
            await plane.begun.wait()
            refusal = "UNAVAILABLE: other large requests fill the memory for them; try again later"
            assert await outcome(client, large()) == refusal
            assert await outcome(client, infer_request()) == "OK"
            body = chat_bytes(user="x" * 3 * SMALL)
            http = await start_http(HttpDataPlane(), HttpSettings(port=0), room=room)
            assert (await ask(http, body)).status == 503
            gate.is_open.set()
            assert await first == "OK"
            assert await outcome(client, large()) == "OK"
            assert (await ask(http, body)).status == 200
            await http.close()

    run(scenario())


def test_large_messages_wait_at_their_clients(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 60)

    async def scenario() -> None:
        gate = Gate()
        plane = FakeDataPlane(gate=gate)
        room = BodyRoom(CAPACITY)
        async with serving(plane, room=room) as client, asyncio.TaskGroup() as tasks:
            first = tasks.create_task(outcome(client, large("gate")))
            await plane.begun.wait()
            waiting = [tasks.create_task(outcome(client, large())) for _ in range(20)]
            assert await outcome(client, infer_request()) == "OK"
            assert room.used < CAPACITY
            gate.is_open.set()
            assert [await first, *[await each for each in waiting]] == ["OK"] * 21
            assert room.used == 0

    run(scenario())


def test_compressed_messages_count_with_their_content(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 60)
    most = 0

    async def echo(request: InferRequest, client: ClientConnection) -> InferResponse:
        nonlocal most
        most = max(most, room.used)
        await asyncio.sleep(0)
        return echoed(request)

    room = BodyRoom(CAPACITY)

    async def scenario() -> None:
        async with serving(FakeDataPlane(echo=echo), room=room) as client:
            packed = [
                client.call_raw(
                    "ModelInfer", large().SerializeToString(), compression=grpc.Compression.Gzip
                )
                for _ in range(20)
            ]
            assert len(await asyncio.gather(*packed)) == 20
            assert room.used == 0

    run(scenario())
    # One whose size is not known may exceed the capacity.
    assert 0 < most <= CAPACITY + 4 * SMALL


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_what_a_compressed_message_may_become_is_bounded(
    run: Run, compress: Callable[[bytes], bytes]
) -> None:
    large, small = compress(bytes(256 * SMALL)), compress(b"a" * 1000)
    damaged = "INVALID_ARGUMENT: the compressed message is damaged"
    too_large = f"RESOURCE_EXHAUSTED: the content of the compressed message is larger than {2**19}"
    cases = {
        "a bomb": (large, too_large),
        "half of a bomb": (large[: len(large) // 2], too_large),
        "half of a small one": (small[:-6], damaged),
        "flipped": (small[:10] + bytes(5) + small[15:], damaged),
        "something behind it": (small + b"more", damaged),
    }

    async def scenario() -> None:
        room = BodyRoom(CAPACITY)
        settings = GrpcSettings(max_message_bytes=2**19)
        async with serving(FakeDataPlane(), settings, room=room) as client:
            for name, (message, refusal) in cases.items():
                # grpcio passes it on as if its client had compressed it.
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await client.call_raw("ModelInfer", message)
                assert shown(caught.value).startswith(refusal), name
        assert room.used == 0

    run(scenario())


def test_compressed_messages_of_every_method_are_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            for method, service, fields in [
                ("ModelReady", INFERENCE, {"name": "echo", "version": "1" * 500}),
                ("Check", HEALTH, {"service": "echo" * 500}),
            ]:
                described = pool().FindServiceByName(service).methods_by_name[method]
                message = message_class(described.input_type.full_name)(**fields)
                data = message.SerializeToString()
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await client.call_raw(
                        method, data, service, compression=grpc.Compression.Deflate
                    )
                assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            call = client.stream()()
            request = infer_request("none", id="x" * 500).SerializeToString()
            await call.write(gzip.compress(request))
            await call.done_writing()
            assert (await end_of(call)).startswith("NOT_FOUND: ")

    run(scenario())


def test_a_message_that_arrives_slowly_gives_way(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 60)
    monkeypatch.setattr(gate_module, "SLOW_SECONDS", 0)
    monkeypatch.setattr(gate_module, "_WATCH_SECONDS", 0.05)

    async def scenario() -> None:
        room = BodyRoom(CAPACITY)
        async with (
            serving_front(FakeDataPlane(), room=room) as front,
            raw_connection(front) as connection,
            connected(front) as client,
        ):
            connection.start_call()
            connection.send_data(struct.pack(">BI", 0, 3 * SMALL) + bytes(1000))
            await connection.flush()
            while not room.used:
                assert await outcome(client, infer_request()) == "OK"
            assert await outcome(client, large()) == "OK"
            assert await connection.status() == "14"
            assert room.used == 0

    run(scenario())


def test_a_client_that_leaves_in_a_message_frees_its_room(run: Run) -> None:
    async def scenario() -> None:
        room = BodyRoom(CAPACITY)
        async with (
            serving_front(FakeDataPlane(), room=room) as front,
            raw_connection(front) as connection,
            connected(front) as client,
        ):
            connection.start_call()
            connection.send_data(struct.pack(">BI", 0, 3 * SMALL) + bytes(1000))
            await connection.flush()
            while not room.used:
                assert await outcome(client, infer_request()) == "OK"
            connection.abort()
            while room.used:
                assert await outcome(client, infer_request()) == "OK"

    run(scenario())


def test_a_connection_that_only_resets_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving_front(FakeDataPlane()) as front,
            raw_connection(front) as connection,
            connected(front) as client,
        ):
            for _ in range(MOST_RESETS + 10):
                connection.reset(connection.start_call())
            await connection.flush()
            assert await connection.goaway() == 11
            assert await outcome(client, infer_request()) == "OK"

    run(scenario())


def test_calls_that_their_client_gives_up_are_no_flood(run: Run) -> None:
    async def scenario() -> None:
        async with serving_front(FakeDataPlane()) as front, connected(front) as client:
            for _ in range(MOST_RESETS // 10):
                calls = [client.call_raw("ModelInfer", b"") for _ in range(9)]
                for call in calls:
                    call.cancel()
                assert await outcome(client, infer_request()) == "OK"

    run(scenario())


@pytest.mark.parametrize("kind", ["no message", "an unknown model", "a long shape"])
def test_a_refused_message_is_freed_without_the_collector(run: Run, kind: str) -> None:
    message = {
        "no message": b"x" * 3 * SMALL,
        "an unknown model": large("none").SerializeToString(),
        "a long shape": one_input(shape=[1] * 2 * SMALL),
    }[kind]
    sizes: list[int] = []

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as client:
            for _ in range(3):
                with pytest.raises(grpc.aio.AioRpcError):
                    await client.call_raw("ModelInfer", message)
            assert await outcome(client, infer_request()) == "OK"
            gc.collect()
            held = [*gc.garbage, *gc.get_referents(*gc.garbage)]
            sizes.extend(len(each) for each in held if isinstance(each, bytes))

    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        run(scenario())
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert max(sizes, default=0) < SMALL


def one_input(**fields: Any) -> bytes:
    request = infer_request()
    request.inputs.add(name="x", datatype="UINT8", **fields)
    return bytes(request.SerializeToString())


def test_a_stream_whose_message_has_no_room_ends(run: Run) -> None:
    async def scenario() -> None:
        gate = Gate()
        plane = FakeDataPlane(gate=gate)
        async with serving(plane, room=BodyRoom(CAPACITY)) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(outcome(client, large("gate")))
            await plane.begun.wait()
            call = client.stream()()
            await call.write(infer_request(id="small"))
            assert (await call.read()).infer_response.id == "small"
            await call.write(large())
            assert "try again later" in await end_of(call)
            gate.is_open.set()
            call = client.stream()()
            for _ in range(3):
                await call.write(large())
                assert (await call.read()).error_message == ""
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF

    run(scenario())
