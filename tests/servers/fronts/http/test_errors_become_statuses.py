"""Errors as statuses with OpenAI's object; internal details stay in the log."""

from __future__ import annotations

import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, errors
from graph_runtime.errors import CalculatorError, GraphError, RunError
from servers.fronts.http.errors import STATUS, HttpError, http_error


def of_calculator(cause: BaseException, code: Code = Code.UNKNOWN) -> RunError:
    failure = CalculatorError("LLM", "Process", str(cause), code=code)
    failure.__cause__ = cause
    return RunError([failure])


def test_every_code_has_a_status() -> None:
    assert set(STATUS) == set(Code)


@pytest.mark.parametrize(
    ("code", "status", "kind", "name"),
    [
        (Code.INVALID_ARGUMENT, 400, "invalid_request_error", None),
        (Code.FAILED_PRECONDITION, 412, "invalid_request_error", None),
        (Code.OUT_OF_RANGE, 400, "invalid_request_error", None),
        (Code.UNAUTHENTICATED, 401, "authentication_error", None),
        (Code.PERMISSION_DENIED, 403, "permission_error", None),
        (Code.NOT_FOUND, 404, "invalid_request_error", None),
        (Code.ALREADY_EXISTS, 409, "invalid_request_error", None),
        (Code.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "rate_limit_exceeded"),
        (Code.UNKNOWN, 500, "server_error", "internal_error"),
        (Code.INTERNAL, 500, "server_error", "internal_error"),
        (Code.DATA_LOSS, 500, "server_error", "internal_error"),
        (Code.UNIMPLEMENTED, 501, "server_error", None),
        (Code.ABORTED, 503, "server_error", "service_unavailable"),
        (Code.CANCELLED, 503, "server_error", "service_unavailable"),
        (Code.UNAVAILABLE, 503, "server_error", "service_unavailable"),
        (Code.DEADLINE_EXCEEDED, 504, "server_error", "timeout"),
    ],
)
def test_a_request_error_is_answered_by_its_code(
    code: Code, status: int, kind: str, name: str | None
) -> None:
    reply = http_error(of_calculator(RequestError("why", code=code)), "id")
    assert (reply.status, reply.type, reply.code) == (status, kind, name)


def test_a_request_error_has_field_text_and_retry_after() -> None:
    error = RequestError("too hot", param="temperature", retry_after=1.2)
    reply = http_error(of_calculator(error), "id")
    assert (reply.message, reply.param) == ("too hot", "temperature")
    assert reply.headers == {"Retry-After": "2"}


def test_a_request_error_of_the_servers_own_keeps_its_text() -> None:
    error = RequestError("the handler of node /srv/models/a.py failed", code=Code.INTERNAL)
    reply = http_error(of_calculator(error, Code.INTERNAL), "id")
    assert (reply.status, reply.message) == (500, "the handler of node <path> failed")


def test_the_first_request_error_of_a_run_is_the_answer() -> None:
    run = RunError([*of_calculator(KeyError("x")).errors, *of_calculator(RequestError("y")).errors])
    assert http_error(run, "id").message == "y"


def test_an_unexpected_exception_is_a_500_that_names_only_the_node_and_the_request() -> None:
    cause = KeyError("/etc/secret")
    reply = http_error(of_calculator(cause), "req-7")
    assert reply.status == 500
    assert reply.message == 'internal error in node "LLM" (request req-7)'
    assert reply.cause is not None
    assert reply.cause.__cause__ is cause
    assert 'node "LLM"' in str(reply.cause)  # the log has the exception


def test_an_error_that_the_graph_raised_with_a_code_keeps_it() -> None:
    error = GraphError("the camera is off", code=Code.UNAVAILABLE)
    reply = http_error(of_calculator(error, Code.UNAVAILABLE), "id")
    assert (reply.status, reply.message) == (503, "the camera is off")


@pytest.mark.parametrize(
    "misuse",
    [
        errors.TimestampError("goes back"),
        errors.PacketTypeError("not a str"),
        errors.StateError("closed"),
        errors.NotFoundError("no such stream"),
        errors.GraphConfigError("bad"),
    ],
)
def test_a_misuse_of_the_runtime_is_not_the_clients_error(misuse: GraphError) -> None:
    assert http_error(of_calculator(misuse, misuse.code), "id").status == 500


def test_errors_of_the_data_plane_have_statuses() -> None:
    missing = http_error(errors.NotFoundError('no model "x"'), "id")
    assert (missing.status, missing.code, missing.param) == (404, "model_not_found", "model")
    assert http_error(errors.UnavailableError("loading"), "id").status == 503


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, RecursionError, ExceptionGroup])
def test_every_exception_has_an_answer(kind: type[Exception]) -> None:
    raised = ExceptionGroup("many", [ValueError()]) if kind is ExceptionGroup else kind("x")
    assert http_error(raised, "id").status == 500


def test_error_bodies_have_openais_or_kserves_form() -> None:
    error = HttpError(404, "no", param="model", code="model_not_found")
    assert error.openai_body() == (
        b'{"error": {"message": "no", "type": "invalid_request_error",'
        b' "param": "model", "code": "model_not_found"}}'
    )
    assert error.kserve_body() == b'{"error": "no"}'
