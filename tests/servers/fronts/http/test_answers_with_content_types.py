"""Answers whose content type the graph chooses, whole and in pieces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Code
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, serving

SOUND = HttpAnswer(b"RIFF", "audio/wav")
BEGINNING = HttpAnswer(b"RI", "audio/wav", {"X-Rate": "16000"}, has_more=True)
PATH = "/v3/say"


def say(model: str, version: str = "1.1", **members: Any) -> bytes:
    return chat_bytes(model, path=PATH, version=version, **members)


def test_a_whole_answer_has_the_graphs_content_type_and_headers(run: Run) -> None:
    async def whole(payload: HttpPayload, emit: Emit) -> None:
        emit(HttpAnswer(b"\0\xff", "audio/wav; rate=8", {"X-Rate": "8", "X-Request-Idle": "a"}))

    async def scenario() -> None:
        async with serving(FakeDataPlane(whole=whole)) as front, connected(front) as client:
            for _ in range(2):
                reply = await client.ask(say("whole"))
                assert (reply.status, reply.body) == (200, b"\0\xff")
                assert reply.headers["content-type"] == "audio/wav; rate=8"
                assert reply.headers["content-length"] == "2"
                assert reply.headers["x-rate"] == "8"
                assert "x-request-id" in reply.headers

    run(scenario())


@pytest.mark.parametrize("stream", [False, True])
def test_pieces_are_sent_as_they_come(run: Run, stream: bool) -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def pieces(payload: HttpPayload, emit: Emit) -> None:
            emit(BEGINNING)
            await go.wait()
            emit(b"FF")
            emit(b"")
            emit(b"WAVE")

        plane = FakeDataPlane(pieces=pieces)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("pieces", stream=stream))
            status, headers = await client.head()
            assert status == 200
            assert headers["content-type"] == "audio/wav"
            assert headers["x-rate"] == "16000"
            assert headers["connection"] == "keep-alive"
            assert await client.chunk() == b"RI"
            go.set()
            assert [await client.chunk() for _ in range(3)] == [b"FF", b"WAVE", b""]
            assert (await client.ask(chat_bytes())).status == 200

    run(scenario())


def test_an_http_1_0_client_gets_the_pieces_until_the_end_of_the_connection(run: Run) -> None:
    async def pieces(payload: HttpPayload, emit: Emit) -> None:
        emit(BEGINNING)
        emit(b"FF")

    async def scenario() -> None:
        async with serving(FakeDataPlane(pieces=pieces)) as front:
            reply = await ask(front, say("pieces", version="1.0"))
        assert (reply.body, reply.headers["connection"]) == (b"RIFF", "close")

    run(scenario())


def test_an_error_before_the_first_piece_has_its_status(run: Run) -> None:
    async def fail(payload: HttpPayload, emit: Emit) -> None:
        emit(HttpAnswer(b"", "audio/wav", has_more=True))
        raise RequestError("too long", param="input")

    async def scenario() -> None:
        async with serving(FakeDataPlane(fail=fail)) as front:
            reply = await ask(front, say("fail"))
        assert (reply.status, reply.error["param"]) == (400, "input")

    run(scenario())


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_error_after_the_first_piece_is_no_end_of_the_body(
    run: Run, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def fail(payload: HttpPayload, emit: Emit) -> None:
        emit(BEGINNING)
        await asyncio.sleep(0)
        raise RequestError("the voice is gone", code=Code.UNAVAILABLE)

    async def scenario() -> None:
        async with serving(FakeDataPlane(fail=fail)) as front, connected(front) as client:
            client.send(say("fail", version))
            if version == "1.0":
                with pytest.raises(ConnectionResetError):
                    await client.reader.read()
                return
            await client.head()
            assert await client.chunk() == b"RI"
            assert await client.wait_closed_by_server() == b""  # not the last chunk

    run(scenario())
    assert "error=503" in caplog.text


def test_a_time_limit_ends_an_answer_that_has_begun(run: Run) -> None:
    async def hang(payload: HttpPayload, emit: Emit) -> None:
        emit(BEGINNING)
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane) as front, connected(front) as client:
            client.send(say("hang", timeout=0.05))
            await client.head()
            assert await client.chunk() == b"RI"
            assert await client.wait_closed_by_server() == b""
        assert plane.cancelled == 1

    run(scenario())


def test_a_client_that_leaves_cancels_the_graph(run: Run) -> None:
    async def hang(payload: HttpPayload, emit: Emit) -> None:
        emit(BEGINNING)
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane) as front, connected(front) as client:
            client.send(say("hang"))
            await client.head()
            client.abort()
            await plane.ended.wait()
        assert (plane.cancelled, plane.running) == (1, 0)

    run(scenario())


def test_a_slow_reader_holds_the_graph_up(run: Run) -> None:
    async def scenario() -> None:
        sent = 0
        held = asyncio.Event()

        async def pour(payload: HttpPayload, emit: Emit) -> None:
            nonlocal sent
            emit(BEGINNING)
            while True:
                if not payload.client.is_writable:
                    held.set()
                await payload.client.writable()
                emit(bytes(8000))
                sent += 8000

        plane = FakeDataPlane(pour=pour)
        async with serving(plane) as front, connected(front, receive_buffer=8192) as client:
            client.send(say("pour"))
            await client.head()
            await held.wait()
            assert sent < 1_000_000
            client.abort()
            await plane.ended.wait()

    run(scenario())


def test_events_with_headers_end_with_an_error_event(run: Run) -> None:
    async def fail(payload: HttpPayload, emit: Emit) -> None:
        emit(HttpAnswer(b"data: 1\n\n", "text/event-stream", {"X-Rate": "8"}, has_more=True))
        raise RequestError("no more")

    async def scenario() -> None:
        async with serving(FakeDataPlane(fail=fail)) as front, connected(front) as client:
            reply = await client.ask(say("fail"))
            assert reply.headers["x-rate"] == "8"
            assert reply.headers["content-type"] == "text/event-stream"
            assert b"no more" in reply.body
            assert reply.body.endswith(END.encode())
            assert (await client.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_stream_may_be_answered_as_a_whole(run: Run) -> None:
    async def whole(payload: HttpPayload, emit: Emit) -> None:
        emit(SOUND)

    async def scenario() -> None:
        async with serving(FakeDataPlane(whole=whole)) as front:
            reply = await ask(front, chat_bytes("whole", stream=True))
        assert (reply.headers["content-type"], reply.body) == ("audio/wav", b"RIFF")

    run(scenario())


@pytest.mark.parametrize("first", ["{}", SOUND, BEGINNING])
def test_an_answer_after_other_packets_is_the_graphs_fault(
    run: Run, first: str | HttpAnswer
) -> None:
    async def late(payload: HttpPayload, emit: Emit) -> None:
        emit(first)
        emit(SOUND)

    async def scenario() -> None:
        async with serving(FakeDataPlane(late=late)) as front, connected(front) as client:
            client.send(say("late"))
            if first is BEGINNING:
                await client.head()
                assert await client.chunk() == b"RI"
                assert await client.wait_closed_by_server() == b""
            else:
                assert (await client.reply()).status == 500

    run(scenario())


@pytest.mark.parametrize(
    ("content_type", "headers"),
    [
        ("audio", {}),
        ("audio/wav\r\nX: y", {}),
        ("audio/wav", {"X": "a\r\nb"}),
        ("audio/wav", {"X y": "a"}),
        ("audio/wav", {"Content-Length": "3"}),
        ("audio/wav", {"transfer-encoding": "gzip"}),
    ],
)
def test_headers_that_would_break_the_answer_are_refused(
    content_type: str, headers: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"content type|header"):
        HttpAnswer(b"", content_type, headers)
