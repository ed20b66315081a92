"""Triton's generate extension: members are inputs or parameters, answers are JSON or events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import InferRequest, InferResponse, Tensor
from graph_runtime import RunError, UnavailableError
from servers.contract.data_plane import InferFailure, TensorMetadata
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.fake_models import Answer, Inference
from tests.servers.fronts.http.http_client import Reply, ask, connected, serving
from tests.servers.fronts.http.kserve_requests import post

GENERATE = "/v2/models/echo/generate"
STREAM = "/v2/models/echo/generate_stream"


def text_plane(behave: Inference | None = None) -> FakeDataPlane:
    plane = FakeDataPlane()
    plane.inputs = (TensorMetadata("text_input", "BYTES", (1,)),)
    if behave is not None:
        plane.inferences["echo"] = behave
    return plane


def piece(request: InferRequest, text: object) -> InferResponse:
    output = Tensor.of("text_output", np.array([text]))
    return InferResponse(request.model, "1", request.id, {}, (output,))


def events(reply: Reply) -> list[Any]:
    """Return the data of each event, after checking that the stream has nothing else."""
    blocks = reply.body.decode().split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


async def words(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
    """Answer with one packet for each letter of the text."""
    (text,) = request.inputs
    assert isinstance(text, Tensor)
    for letter in text.data.tolist()[0].decode():
        emit(piece(request, letter))


def test_generate_answers_in_one_object(run: Run) -> None:
    async def scenario() -> None:
        plane = text_plane()
        body = {"text_input": "hé", "id": "7", "top_k": 3, "parameters": {"stop": "."}}
        async with serving(plane) as front:
            reply = await ask(front, post("/v2/models/echo/versions/2/generate", body))
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json == {
            "model_name": "echo",
            "model_version": "2",
            "id": "7",
            "text_input": "hé",
            "top_k": 3,
            "stop": ".",
        }
        assert plane.requests[0].parameters == {"top_k": 3, "stop": "."}

    run(scenario())


def test_generate_stream_sends_each_answer_as_an_event(run: Run) -> None:
    async def scenario() -> None:
        async with serving(text_plane(words)) as front, connected(front) as client:
            for _ in range(2):  # the connection stays open
                reply = await client.ask(post(STREAM, {"text_input": "abc"}))
                assert reply.status == 200
                assert reply.headers["content-type"] == "text/event-stream"
                assert [each["text_output"] for each in events(reply)] == ["a", "b", "c"]
                assert events(reply)[0] == {
                    "model_name": "echo",
                    "model_version": "1",
                    "text_output": "a",
                }

    run(scenario())


def test_a_run_without_answers_is_an_empty_stream(run: Run) -> None:
    async def scenario() -> None:
        async with serving(text_plane(words)) as front, connected(front) as client:
            for _ in range(2):
                reply = await client.ask(post(STREAM, {"text_input": ""}))
                assert (reply.status, reply.body) == (200, b"")
                assert reply.headers["content-type"] == "text/event-stream"

    run(scenario())


@pytest.mark.parametrize("path", [GENERATE, STREAM])
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ([], 400, "the body must be a JSON object, not an array"),
        ({"text_input": 7}, 400, 'the input "text_input": data[0] is an integer; BYTES is made'),
        ({}, 400, 'the input "text_input" is missing'),
        ({"text_input": "a", "x": [1]}, 400, 'the parameter "x" is an array; it must be'),
        ({"text_input": "a", "id": 7}, 400, "id must be a string, not an integer"),
    ],
)
def test_invalid_requests_are_refused(
    run: Run, path: str, body: object, status: int, text: str
) -> None:
    async def scenario() -> None:
        plane = text_plane()
        async with serving(plane) as front:
            reply = await ask(front, post(path, body))
        assert reply.status == status
        assert reply.headers["content-type"] == "application/json"
        assert text in reply.json["error"]
        assert plane.requests == []

    run(scenario())


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
def test_unknown_models_are_refused(run: Run, action: str) -> None:
    async def scenario() -> None:
        async with serving(text_plane()) as front:
            reply = await ask(front, post(f"/v2/models/other/{action}", {}))
        assert (reply.status, reply.json) == (404, {"error": 'no model "other" is served'})

    run(scenario())


def failing(after: int, error: Exception, *, told: bool) -> Inference:
    """Give ``answers`` answers, then ``error``: as an answer, or raised."""

    async def behave(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        for _ in range(after):
            emit(piece(request, "a"))
        if not told:
            raise error
        emit(InferFailure(request.id, error))
        emit(piece(request, "too late"))

    return behave


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (RequestError("too long"), 400, "too long"),
        (UnavailableError("the engine is down"), 503, "the engine is down"),
        (RunError([RequestError("too long")]), 400, "too long"),
        (ZeroDivisionError("secret"), 500, "internal error (request r)"),
    ],
)
def test_a_stream_that_fails_has_one_error(
    run: Run, told: bool, error: Exception, status: int, text: str
) -> None:
    """Before its first answer the error is a status, after it one event."""

    async def scenario() -> None:
        data = post(STREAM, {"text_input": "x"}, {"X-Request-Id": "r"})
        async with serving(text_plane(failing(0, error, told=told))) as front:
            reply = await ask(front, data)
        assert (reply.status, reply.json) == (status, {"error": text})
        async with serving(text_plane(failing(2, error, told=told))) as front:
            reply = await ask(front, data)
        assert reply.status == 200
        first, second, last = events(reply)
        assert (first["text_output"], second["text_output"]) == ("a", "a")
        assert last == {"error": text}

    run(scenario())


def test_an_answer_that_json_cannot_represent_ends_the_run(run: Run) -> None:
    async def behave(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        emit(piece(request, "a"))
        emit(piece(request, b"\xff"))
        emit(piece(request, "too late"))
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = text_plane(behave)
        async with serving(plane) as front:
            reply = await ask(front, post(STREAM, {"text_input": "x"}))
        first, last = events(reply)
        assert first["text_output"] == "a"
        assert "cannot be expressed in JSON: an element is not UTF-8" in last["error"]
        assert (plane.running, plane.cancelled) == (0, 1)

    run(scenario())


@pytest.mark.parametrize("path", [GENERATE, STREAM])
def test_a_client_that_leaves_ends_the_run(run: Run, path: str) -> None:
    gone = asyncio.Event()

    async def hang(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        client.on_disconnect(gone.set)
        emit(piece(request, "a"))
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = text_plane(hang)
        async with serving(plane) as front, connected(front) as client:
            client.send(post(path, {"text_input": "x"}))
            await plane.begun.wait()
            client.abort()
            await plane.ended.wait()
            assert (plane.running, plane.cancelled, gone.is_set()) == (0, 1, True)

    run(scenario())


def test_draining_ends_a_stream_with_one_error(run: Run) -> None:
    async def hang(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        emit(piece(request, "a"))
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = text_plane(hang)
        async with serving(plane) as front, connected(front) as client:
            client.send(post(STREAM, {"text_input": "x"}))
            await plane.begun.wait()
            assert await front.drain(0.05) == 1
            reply = await client.reply()
        assert events(reply)[1:] == [{"error": "the server is shutting down"}]

    run(scenario())
