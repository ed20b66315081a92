"""Paths that name the model, as Google's do: its name, streams, lists and errors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Code
from servers.operations.request_log import RequestJournal
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane, raising
from tests.servers.fronts.http.http_client import ask, request_bytes, serving

JSON = {"Content-Type": "application/json"}
NAMES = ("echo", "org/model:7b", "a b", "ünï", "x:y:z")


def post(path: str, **members: Any) -> bytes:
    return request_bytes("POST", path, json.dumps(members).encode(), JSON)


async def members(payload: HttpPayload, emit: Emit) -> None:
    emit(json.dumps({"seen": payload.parsed_json}))


@pytest.mark.parametrize("prefix", ["/v1beta", "/v1", "/v3", "/v3/v1"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("safe", ["/:", ""])
def test_the_name_may_have_slashes_and_colons(run: Run, prefix: str, name: str, safe: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(**dict.fromkeys(NAMES, members))
        async with serving(plane) as front:
            path = f"{prefix}/models/{quote(name, safe=safe)}:generateContent"
            reply = await ask(front, post(path, model="models/other", contents=[]))
            assert reply.json == {"seen": {"model": name, "contents": []}}
            reply = await ask(front, post(f"{path}?alt=sse&model=x", alt="x"))
            assert reply.json == {"seen": {"model": name, "alt": "x"}}

    run(scenario())


def test_a_path_of_a_stream_asks_for_one_in_the_form_of_its_query(run: Run) -> None:
    async def pieces(payload: HttpPayload, emit: Emit) -> None:
        assert payload.parsed_json["stream"] is True
        if payload.parsed_json.get("alt") == "sse":
            emit('data: {"n": 1}\n\n')
        else:
            emit('[{"n": 1}')
            emit(',\r\n{"n": 2}]')

    async def scenario() -> None:
        async with serving(FakeDataPlane(m=pieces)) as front:
            path = "/v1beta/models/m:streamGenerateContent"
            reply = await ask(front, post(path))
            assert reply.headers["content-type"] == "application/json"
            assert reply.json == [{"n": 1}, {"n": 2}]
            reply = await ask(front, post(f"{path}?alt=sse"))
            assert reply.headers["content-type"] == "text/event-stream"
            assert reply.body == b'data: {"n": 1}\n\n'

    run(scenario())


@pytest.mark.parametrize("sent", [None, '[{"n": 1}'])
def test_an_array_that_fails_ends_with_the_error(run: Run, sent: str | None) -> None:
    error = RequestError("try again", code=Code.RESOURCE_EXHAUSTED, retry_after=3)

    async def fail(payload: HttpPayload, emit: Emit) -> None:
        if sent is not None:
            emit(sent)
        raise error

    async def scenario() -> None:
        async with serving(FakeDataPlane(m=fail)) as front:
            reply = await ask(front, post("/v1beta/models/m:streamGenerateContent"))
        if sent is None:
            assert (reply.status, reply.headers["retry-after"]) == (429, "3")
            told = reply.json["error"]
        else:
            assert reply.status == 200
            told = reply.json[1]["error"]
        assert (told["code"], told["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert told["message"] == "try again"
        (delay,) = told["details"]
        assert delay["retryDelay"] == "3s"

    run(scenario())


def test_errors_name_the_member(run: Run) -> None:
    behave = raising(RequestError("wrong", param="contents[0]"))

    async def scenario() -> None:
        async with serving(FakeDataPlane(m=behave)) as front:
            reply = await ask(front, post("/v1beta/models/m:generateContent"))
            assert reply.status == 400
            assert reply.json["error"]["status"] == "INVALID_ARGUMENT"
            (details,) = reply.json["error"]["details"]
            assert details["fieldViolations"][0]["field"] == "contents[0]"
            for path in ("/v1beta/models/nobody:generateContent", "/v1beta/models/m:speak"):
                reply = await ask(front, post(path))
                assert (reply.status, reply.json["error"]["status"]) == (404, "NOT_FOUND")
            assert ":countTokens" in reply.json["error"]["message"]

    run(scenario())


def test_models_are_listed_in_googles_form(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            client = {"x-goog-api-client": "google-genai-sdk/1"}
            for path, headers in (("/v1beta/models", {}), ("/v1/models", client)):
                reply = await ask(front, request_bytes("GET", path, b"", headers))
                names = [model["name"] for model in reply.json["models"]]
                assert names == ["models/echo", "models/org/model:7b"]
                reply = await ask(front, request_bytes("GET", f"{path}/org/model:7b", b"", headers))
                assert reply.json["name"] == "models/org/model:7b"
                reply = await ask(front, request_bytes("GET", f"{path}/nobody", b"", headers))
                assert reply.json["error"]["status"] == "NOT_FOUND"

    run(scenario())


def test_metrics_and_logs_have_the_path_without_the_name(run: Run) -> None:
    async def scenario() -> None:
        ends = []
        journal = RequestJournal()
        journal.end = lambda record, end: ends.append(end)  # type: ignore[method-assign]
        async with serving(FakeDataPlane(), journal=journal) as front:
            await ask(front, post("/v1beta/models/echo:generateContent"))
        assert [end.route for end in ends] == ["/v1beta/models/{model}:generateContent"]

    run(scenario())
