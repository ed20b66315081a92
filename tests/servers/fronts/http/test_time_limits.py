"""Time limits of requests: the shortest one of client and server, and one clear end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calculators.kit.requests.http_payload import ClientConnection
from calculators.tensors.inference import InferRequest
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, FakeDataPlane, hang, hang_after_one
from tests.servers.fronts.http.fake_models import Answer
from tests.servers.fronts.http.http_client import (
    ask,
    chat_bytes,
    connected,
    request_bytes,
    serving,
)

pytestmark = pytest.mark.both_loops

HEADER = {"X-Request-Timeout": "0.05"}
TEXT = "the request was not answered within 0.05 s, its time-out"


async def hanging_inference(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("settings", "header", "fields"),
    [
        ({"request_seconds": 0.05}, {}, {}),
        ({}, HEADER, {}),
        ({}, {}, {"timeout": 0.05}),
        ({"request_seconds": 0.05}, {"X-Request-Timeout": "50"}, {"timeout": 500}),
        ({"request_seconds": 50}, HEADER, {"timeout": 500}),
        ({"request_seconds": 50}, {"X-Request-Timeout": "60"}, {"timeout": 0.05}),
    ],
)
def test_the_shortest_time_counts(
    run: Run, settings: Any, header: dict[str, str], fields: dict[str, Any]
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane, **settings) as front, connected(front) as client:
            reply = await client.ask(chat_bytes("hang", headers=header, **fields))
            assert reply.status == 504
            assert reply.error["message"] == TEXT
            assert (reply.error["type"], reply.error["code"]) == ("server_error", "timeout")
            assert (plane.running, plane.cancelled) == (0, 1)
            # The connection can still be used.
            assert (await client.ask(chat_bytes())).status == 200

    run(scenario())


@pytest.mark.parametrize("path", ["/v3/chat/completions", "/v1/messages", "/v3/responses"])
def test_a_stream_ends_with_one_error(run: Run, path: str) -> None:
    later = TEXT.replace("0.05", "2")  # after the first event, on a busy machine too

    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang_after_one)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("hang", path=path, stream=True, timeout=2))
            reply = await client.reply()
            assert (reply.status, plane.cancelled) == (200, 1)
            events = reply.body.split(b"\n\n")
            assert events[0] == b"data: first"
            assert sum(later.encode() in event for event in events) == 1
            if path == "/v1/messages":
                assert events[1].startswith(b"event: error\ndata: ")
                assert b'"timeout_error"' in events[1]
            else:
                assert reply.body.endswith(END.encode())
            assert (await client.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_stream_that_has_not_begun_ends_with_a_status(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(hang=hang)) as front:
            reply = await ask(front, chat_bytes("hang", stream=True, timeout=0.05))
            assert (reply.status, reply.error["message"]) == (504, TEXT)

    run(scenario())


@pytest.mark.parametrize("action", ["infer", "generate", "generate_stream"])
def test_inferences_have_the_same_limits(run: Run, action: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["echo"] = hanging_inference
        body = b'{"inputs": []}' if action == "infer" else b"{}"
        headers = {**HEADER, "Content-Type": "application/json"}
        asked = request_bytes("POST", f"/v2/models/echo/{action}", body, headers)
        async with serving(plane) as front:
            reply = await ask(front, asked)
            assert (reply.status, reply.json) == (504, {"error": TEXT})

    run(scenario())


def test_the_arrival_of_the_body_counts(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            reply = await client.ask(chat_bytes(headers=HEADER)[:-3])
            assert (reply.status, reply.headers["connection"]) == (504, "close")

    run(scenario())


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "nan", "inf", "1e9", "5s", "0x10"])
def test_a_header_that_is_not_a_time_is_refused(run: Run, text: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(headers={"X-Request-Timeout": text}))
            assert reply.status == 400
            assert reply.error["message"] == (
                "X-Request-Timeout must be a number of seconds above 0"
            )

    run(scenario())


@pytest.mark.parametrize("value", [0, -1, True, "5", [], {}, 1e9, 10**50])
def test_a_member_that_is_not_a_time_is_refused(run: Run, value: object) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            reply = await ask(front, chat_bytes(timeout=value))
            assert (reply.status, reply.error["param"]) == (400, "timeout")
        assert plane.payloads == []

    run(scenario())


def test_a_request_that_is_answered_in_time_is_not_affected(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), request_seconds=60) as front,
            connected(front) as client,
        ):
            for fields in ({}, {"timeout": None}, {"timeout": 30}, {"stream": True}):
                assert (await client.ask(chat_bytes(**fields))).status == 200
            # Requests that run no model have no limit.
            assert (await client.ask(request_bytes("GET", "/v2"))).status == 200

    run(scenario())
