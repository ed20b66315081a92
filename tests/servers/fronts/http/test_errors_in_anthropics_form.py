"""Errors in Anthropic's form under the paths of its clients, in streams too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks import ErrorForm
from graph_runtime import Code
from servers.fronts.http.errors import HttpError
from servers.fronts.http.routes import error_form, may_stream
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Behaviour, Emit, FakeDataPlane, raising
from tests.servers.fronts.http.http_client import Reply, ask, chat_bytes, request_bytes, serving

STOP = 'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def asked(run: Run, behaviour: Behaviour, path: str = "/v1/messages", **members: Any) -> Reply:
    replies = []

    async def scenario() -> None:
        async with serving(FakeDataPlane(m=behaviour)) as front:
            replies.append(await ask(front, chat_bytes(**{"model": "m", **members, "path": path})))

    run(scenario())
    return replies[0]


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/messages", ErrorForm.ANTHROPIC),
        ("/v3/messages", ErrorForm.ANTHROPIC),
        ("/v3/v1/messages/count_tokens", ErrorForm.ANTHROPIC),
        ("/v1/chat/completions", ErrorForm.OPENAI),
        ("/v1/responses", ErrorForm.OPENAI),
        ("/v1/messages/x", ErrorForm.OPENAI),
        ("/messages", ErrorForm.OPENAI),
        ("/v2/models/messages", ErrorForm.KSERVE),
        ("/v2", ErrorForm.KSERVE),
        ("/v1/config", ErrorForm.KSERVE),
    ],
)
def test_the_path_determines_the_form(path: str, form: ErrorForm) -> None:
    assert error_form(path) is form


def test_counting_is_never_a_stream() -> None:
    assert may_stream("/v1/messages")
    assert not may_stream("/v1/messages/count_tokens")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (501, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_every_status_has_a_type(status: int, kind: str) -> None:
    body = json.loads(HttpError(status, "why").body(ErrorForm.ANTHROPIC, "req"))
    assert body == {
        "type": "error",
        "error": {"type": kind, "message": "why"},
        "request_id": "req",
    }


@pytest.mark.parametrize("path", ["/v1/messages", "/v3/messages/count_tokens"])
def test_a_request_error_has_the_form_and_the_requests_id(run: Run, path: str) -> None:
    reply = asked(run, raising(RequestError("bad", param="system")), path)
    assert reply.status == 400
    body = json.loads(reply.body)
    assert body["error"] == {"type": "invalid_request_error", "message": "bad"}
    assert body["request_id"] == reply.headers["request-id"] == reply.headers["x-request-id"]


def test_a_reason_is_machine_readable(run: Run) -> None:
    error = RequestError("bad", reason="thread_unsupported_request")
    told = json.loads(asked(run, raising(error)).body)["error"]
    assert told["details"] == {"error_code": "thread_unsupported_request"}


def test_an_unknown_model_has_the_form(run: Run) -> None:
    reply = asked(run, raising(KeyError("x")), model="other")
    assert reply.status == 404
    assert json.loads(reply.body)["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("path", ["/v1/models/none", "/v3/models/none", "/v1/message", "/messages"])
@pytest.mark.parametrize("is_anthropic", [True, False])
def test_a_header_tells_whose_client_it_is_where_the_path_does_not(
    run: Run, path: str, is_anthropic: bool
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            headers = {"Anthropic-Version": "2023-06-01"} if is_anthropic else {}
            reply = await ask(front, request_bytes("GET", path, headers=headers))
            assert reply.status == 404
            assert (json.loads(reply.body).get("type") == "error") is is_anthropic
            assert ("request-id" in reply.headers) is is_anthropic

    run(scenario())


def test_in_a_stream_the_error_is_the_last_event(run: Run) -> None:
    error = RequestError("lost", code=Code.UNAVAILABLE)
    reply = asked(run, raising(error, after=1), stream=True)
    sent, failure = reply.body.decode().split("\n\n")[:-1]
    assert sent == "data: 0"
    name, data = failure.split("\n")
    assert name == "event: error"
    body = json.loads(data.removeprefix("data: "))
    assert body["error"] == {"type": "overloaded_error", "message": "lost"}
    assert body["request_id"] == reply.headers["request-id"]


@pytest.mark.parametrize("last", [STOP, 'event: error\ndata: {"type":"error"}\n\n'])
@pytest.mark.parametrize("before", ["", "event: message_delta\ndata: {}\n\n"])
def test_after_the_last_event_nothing_is_added(run: Run, before: str, last: str) -> None:
    async def ends_then_fails(payload: HttpPayload, emit: Emit) -> None:
        emit(before + last)
        raise KeyError("late")

    assert asked(run, ends_then_fails, stream=True).body.decode() == before + last


@pytest.mark.parametrize(
    "packet",
    [
        'event: x\ndata: {"text":"event: message_stop\\\\n"}\n\n',
        STOP.removesuffix("\n"),
    ],
)
def test_text_that_looks_like_the_last_event_is_not_the_end(run: Run, packet: str) -> None:
    async def fails(payload: HttpPayload, emit: Emit) -> None:
        emit(packet)
        raise KeyError("x")

    assert b"\n\nevent: error\n" in asked(run, fails, stream=True).body


def test_openais_failed_response_is_a_last_event(run: Run) -> None:
    ending = 'event: response.failed\ndata: {"type":"response.failed"}\n\ndata: [DONE]\n\n'

    async def ends_then_fails(payload: HttpPayload, emit: Emit) -> None:
        emit(ending)
        raise KeyError("late")

    reply = asked(run, ends_then_fails, "/v1/responses", stream=True)
    assert reply.body.decode() == ending
