"""Failures of a graph: a status before the first packet, one terminal event after it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Code, UnavailableError
from graph_runtime.errors import CalculatorError, RunError
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Behaviour, Emit, FakeDataPlane, raising
from tests.servers.fronts.http.http_client import Reply, ask, chat_bytes, serving

pytestmark = pytest.mark.both_loops


def run_error(cause: Exception) -> RunError:
    failure = CalculatorError("LLM", "Process", str(cause))
    failure.__cause__ = cause
    return RunError([failure])


def events(reply: Reply) -> list[str]:
    assert reply.body.endswith(b"\n\n")
    return reply.body.decode().split("\n\n")[:-1]


def failing(run: Run, behaviour: Behaviour, **fields: Any) -> Reply:
    replies = []

    async def scenario() -> None:
        async with serving(FakeDataPlane(fails=behaviour)) as front:
            replies.append(await ask(front, chat_bytes("fails", **fields)))

    run(scenario())
    return replies[0]


@pytest.mark.parametrize("stream", [False, True])
def test_a_graph_that_cancels_the_task_of_its_request_is_an_error(run: Run, stream: bool) -> None:
    async def behave(payload: HttpPayload, emit: Emit) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    assert failing(run, behave, stream=stream).status == 500


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (run_error(RequestError("bad", param="n")), 400, None),
        (run_error(RequestError("full", code=Code.RESOURCE_EXHAUSTED, retry_after=3)), 429, "3"),
        (run_error(RequestError("down", code=Code.UNAVAILABLE, retry_after=0.5)), 503, "1"),
        (UnavailableError("loading"), 503, None),
        (run_error(ValueError("secret")), 500, None),
        (KeyError("secret"), 500, None),
    ],
)
def test_a_failure_before_the_first_packet_is_a_status(
    run: Run, error: Exception, status: int, retry_after: str | None, stream: bool
) -> None:
    reply = failing(run, raising(error), stream=stream)
    assert reply.status == status
    assert reply.headers.get("retry-after") == retry_after
    assert "secret" not in reply.error["message"]


@pytest.mark.parametrize("packets", [1, 3])
def test_a_failure_after_the_first_packet_is_one_event_and_done(run: Run, packets: int) -> None:
    error = run_error(RequestError("lost", code=Code.UNAVAILABLE))
    reply = failing(run, raising(error, after=packets), stream=True)
    assert reply.status == 200
    *sent, failure, done = events(reply)
    assert sent == [f"data: {number}" for number in range(packets)]
    assert json.loads(failure.removeprefix("data: "))["error"] == {
        "message": "lost",
        "type": "server_error",
        "param": None,
        "code": "service_unavailable",
    }
    assert done == "data: [DONE]"


def test_an_incomplete_event_does_not_hide_the_error(run: Run) -> None:
    async def cut(payload: HttpPayload, emit: Emit) -> None:
        emit("data: half")
        raise KeyError("x")

    half, failure, done = events(failing(run, cut, stream=True))
    assert (half, done) == ("data: half", "data: [DONE]")
    assert failure.startswith('data: {"error"')


def test_after_the_terminal_event_nothing_is_added(run: Run) -> None:
    async def ends_then_fails(payload: HttpPayload, emit: Emit) -> None:
        emit("data: 1\n\n" + END)
        raise KeyError("late")

    assert events(failing(run, ends_then_fails, stream=True)) == ["data: 1", "data: [DONE]"]


def test_a_unary_graph_that_fails_after_its_packet_is_an_error(run: Run) -> None:
    assert failing(run, raising(KeyError("x"), after=1)).status == 500


@pytest.mark.parametrize("stream", [False, True])
def test_a_graph_without_an_answer_is_a_500(run: Run, stream: bool) -> None:
    async def silent(payload: HttpPayload, emit: Emit) -> None:
        return

    assert failing(run, silent, stream=stream).status == 500


@pytest.mark.parametrize("stream", [False, True])
def test_a_packet_of_another_type_is_a_500(run: Run, stream: bool) -> None:
    async def wrong(payload: HttpPayload, emit: Emit) -> None:
        emit(7)  # type: ignore[arg-type]

    assert failing(run, wrong, stream=stream).status == 500


def test_a_graph_that_cancels_itself_is_a_500(run: Run) -> None:
    assert failing(run, raising(asyncio.CancelledError())).status == 500


def test_the_log_has_the_details_that_the_client_does_not_get(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    reply = failing(run, raising(run_error(ValueError("secret"))))
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert reply.headers["x-request-id"] in record.getMessage()
    assert record.exc_info is not None
    told = str(record.exc_info[1])
    assert told.startswith('Calculator::Process() for node "LLM" failed: ')
    assert "secret" in told
