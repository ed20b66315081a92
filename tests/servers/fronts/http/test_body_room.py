"""Room for bodies: all together are bounded; small ones are accepted whatever others send."""

from __future__ import annotations

import asyncio
import gc

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from servers.fronts import body_room
from servers.fronts.body_room import SMALL, BodyRoom
from servers.fronts.http import HttpFront, body
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, serving
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.both_loops

CAPACITY = 4 * SMALL
LARGE = chat_bytes(user="x" * 3 * SMALL)


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(body, "SLOW_SECONDS", PATIENCE)


async def until_answered(front: HttpFront, status: int) -> None:
    """Repeat a request with a large body until it has this answer."""
    while (await ask(front, LARGE)).status != status:
        pass


def test_a_large_body_waits_for_room_and_a_small_one_does_not(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), room=BodyRoom(CAPACITY)) as front:
            async with connected(front) as slow:
                slow.send(LARGE[:-10])
                await until_answered(front, 503)  # some of the sent bytes have not arrived yet
                refused = await ask(front, LARGE)
                assert refused.headers["retry-after"] == "1"
                assert refused.error["type"] == "server_error"
                assert (await ask(front, chat_bytes())).status == 200
                infer = await ask(
                    front, LARGE.replace(b"/v3/chat/completions", b"/v2/models/m/infer")
                )
                assert infer.status == 503
                slow.send(LARGE[-10:])
                assert (await slow.reply()).status == 200
            assert (await ask(front, LARGE)).status == 200

    run(scenario())


def test_a_waiting_body_continues_when_there_is_room(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 15)

    async def scenario() -> None:
        async with serving(FakeDataPlane(), room=BodyRoom(CAPACITY)) as front:
            replies = await asyncio.gather(*(ask(front, LARGE) for _ in range(20)))
        assert {reply.status for reply in replies} == {200}

    run(scenario())


def test_a_slow_body_gives_way_to_waiting_ones(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "SLOW_SECONDS", 0)
    monkeypatch.setattr(body_room, "WAIT_SECONDS", 15)

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), room=BodyRoom(CAPACITY)) as front,
            connected(front) as slow,
        ):
            slow.send(LARGE[:-10])
            # Whichever gets the room first; the slow one cannot keep it.
            assert (await ask(front, LARGE)).status == 200
            slow.send(LARGE[-10:])
            assert (await slow.reply()).status in (200, 408)

    run(scenario())


def test_a_body_larger_than_the_room_has_it_alone(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), room=BodyRoom(SMALL)) as front:
            for _ in range(3):
                assert (await ask(front, LARGE)).status == 200

    run(scenario())


def test_a_client_that_leaves_frees_its_room(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), room=BodyRoom(CAPACITY)) as front:
            async with connected(front) as gone:
                gone.send(LARGE[:-10])
                await until_answered(front, 503)
                gone.abort()
            await until_answered(front, 200)

    run(scenario())


async def fails_entangled(payload: HttpPayload, emit: Emit) -> None:
    """Fail, and leave the request in a reference cycle, as frames of exceptions may."""
    circle: list[object] = [payload]
    circle.append(circle)
    raise RequestError("not today")


def test_room_comes_back_from_requests_that_failed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(echo=fails_entangled), room=BodyRoom(CAPACITY)) as front:
            for _ in range(3):
                assert (await ask(front, LARGE)).status == 400

    gc.collect()
    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()
