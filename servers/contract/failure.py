"""What a client is told of an exception, whichever front it uses.

Only what says something about the request blames the client: a `RequestError`, or an error of the
graph's author with a code of its own. A runtime that was misused (a wrong timestamp, a wrong
packet type) is a fault of the graph, so it is internal whatever its code says, without its text.
"""

from __future__ import annotations

from dataclasses import dataclass

from calculators.requests.http_payload import RequestError
from graph_runtime import Code
from graph_runtime.errors import (
    CalculatorError,
    GraphConfigError,
    GraphError,
    NotFoundError,
    PacketTypeError,
    RunError,
    StateError,
    TimestampError,
)
from graph_runtime.plan.resources import ResourceError
from servers.contract.error_text import clean

# The server's own fault: such an error is only told when somebody wrote it for the client.
_INTERNAL = frozenset({Code.UNKNOWN, Code.INTERNAL, Code.DATA_LOSS})
# What the runtime says of a graph, not of a request.
_MISUSE = (
    GraphConfigError,
    NotFoundError,
    PacketTypeError,
    ResourceError,
    StateError,
    TimestampError,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """What a client is told.

    Attributes:
        text: clean; "" when nothing may be told.
        cause: what only the log may show; None when the text says everything.
        param: the field at fault as a path.
        reason: a word for programs.
        retry_after: seconds after which trying again makes sense.
        detail: what the log may say beside the code.
        is_unknown_model: there is no model, or no version, of that name.
    """

    code: Code
    text: str
    cause: BaseException | None = None
    param: str | None = None
    reason: str | None = None
    retry_after: float | None = None
    detail: str = ""
    is_unknown_model: bool = False


def failure_of(error: BaseException) -> Failure:
    """What a client is told of ``error``; total over all exceptions."""
    if isinstance(error, RunError):
        return _of_run(error)
    if isinstance(error, RequestError):
        return _of_request(error)
    if isinstance(error, NotFoundError):
        return Failure(Code.NOT_FOUND, clean(error.message), is_unknown_model=True)
    if isinstance(error, GraphError) and not isinstance(error, _MISUSE):
        return _by_code(error)
    return _internal(error)


def _of_run(run: RunError) -> Failure:
    causes = [error.__cause__ or error for error in run.errors]
    for cause in causes:
        if isinstance(cause, RequestError):
            return _of_request(cause)
    first = causes[0] if causes else run
    if isinstance(first, GraphError) and not isinstance(first, (*_MISUSE, CalculatorError)):
        return _by_code(first)
    # With the node's name; what the calculator raised is its cause.
    return _internal(run.errors[0] if run.errors else run)


def _of_request(error: RequestError) -> Failure:
    # With a text it was written for the client, even where it is no fault of the request.
    is_silent = error.code in _INTERNAL and not error.message
    return Failure(
        error.code,
        "" if is_silent else clean(error.message) or "the request failed",
        cause=error if is_silent else None,
        param=None if error.param is None else clean(error.param),
        reason=error.reason,
        retry_after=error.retry_after,
        detail=error.detail,
    )


def _by_code(error: GraphError) -> Failure:
    if error.code in _INTERNAL:
        return _internal(error)
    return Failure(error.code, clean(error.message) or "the request failed")


def _internal(error: BaseException) -> Failure:
    return Failure(Code.INTERNAL, "", cause=error)
