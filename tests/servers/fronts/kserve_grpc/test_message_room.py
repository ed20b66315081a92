"""Large messages share one bound with the bodies of HTTP; small ones pass whatever others send."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from calculators.inference import InferRequest, InferResponse
from calculators.requests.http_payload import ClientConnection
from servers.fronts import body_room
from servers.fronts.body_room import SMALL, BodyRoom
from servers.fronts.http import HttpSettings
from servers.fronts.http.front import start_front as start_http
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane as HttpDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes
from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane, echoed
from tests.servers.fronts.kserve_grpc.grpc_client import Client, infer_request, serving, shown

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


def test_messages_that_wait_have_a_bound_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 60)

    async def scenario() -> None:
        gate = Gate()
        plane = FakeDataPlane(gate=gate)
        async with serving(plane, room=BodyRoom(CAPACITY)) as client, asyncio.TaskGroup() as tasks:
            first = tasks.create_task(outcome(client, large("gate")))
            await plane.begun.wait()
            waiting = {tasks.create_task(outcome(client, large())) for _ in range(2)}
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert [each.result().partition(":")[0] for each in done] == ["RESOURCE_EXHAUSTED"]
            gate.is_open.set()
            assert [await first, *[await each for each in waiting]] == ["OK", "OK"]

    run(scenario())


def test_a_message_of_a_stream_without_room_fails_alone(run: Run) -> None:
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
            assert "try again later" in (await call.read()).error_message
            gate.is_open.set()
            for _ in range(3):
                await call.write(large())
                assert (await call.read()).error_message == ""
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF

    run(scenario())
