"""Exceptions as failures for clients, the same in every front.

Only an error about the request blames the client: a `RequestError`, or an error of the graph's
author with a code of its own. Misuse of the runtime (a wrong timestamp, a wrong packet type) is a
fault of the graph, so it is internal whatever its code says, and its text is not sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from calculators.kit.requests.http_payload import RequestError
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
from graphrt_base.errors import ResourceError

MAX_CHARS = 512

# Control characters (terminal escapes, line ends) and marks of text direction.
_CONTROL = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SOURCE_LINE = re.compile(
    r"(?:Exception from |at )?[\w./+-]+\.(?:cpp|cc|cxx|hpp|hh|h|c|pyx|py):\d+(?::\d+)?:?"
)
# At least two components, and not after a word, a slash, a colon or "#": URLs and JSON pointers
# stay, and so do the paths of requests.
_PATH = re.compile(
    r"(?<![\w/:.#])(?!/v[123]/)(?:[A-Za-z]:\\|~?/)[\w.+@-]+(?:[\\/][\w.+@-]+)+[\\/]?"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def clean(text: str) -> str:
    """Return ``text`` fit for a client, at most `MAX_CHARS` long."""
    text = _CONTROL.sub(" ", text[: 8 * MAX_CHARS])
    text = _SURROGATE.sub("?", text)
    text = _SOURCE_LINE.sub("", text)
    text = _PATH.sub("<path>", text)
    text = _ADDRESS.sub("<address>", text)
    text = text.strip()
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 3] + "..."


# The server's own fault: the text of such an error is sent only if it was written for the client.
_INTERNAL = frozenset({Code.UNKNOWN, Code.INTERNAL, Code.DATA_LOSS})
# Errors of the runtime about a graph, not about a request.
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
    """The part of an exception that a client may see.

    Attributes:
        text: cleaned; "" if no text may be sent.
        cause: the exception for the log only; None if the text says everything.
        param: the path of the field at fault.
        reason: a word for programs.
        retry_after: seconds until a retry makes sense.
        detail: text for the log beside the code.
        is_unknown_model: there is no model, or no version, of that name.
        node: the node that failed, for an internal error; "" if no node did.
    """

    code: Code
    text: str
    cause: BaseException | None = None
    param: str | None = None
    reason: str | None = None
    retry_after: float | None = None
    detail: str = ""
    is_unknown_model: bool = False
    node: str = ""

    def internal_text(self, reference: str) -> str:
        """Return the text of an internal error, whose ``cause`` is in the log under a reference."""
        place = f' in node "{self.node}"' if self.node else ""
        return f"internal error{place} (request {reference})"


def failure_of(error: BaseException) -> Failure:
    """Return the failure to report for ``error``, which may be any exception."""
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
    # It has the node's name; the calculator's exception is its cause.
    return _internal(run.errors[0] if run.errors else run)


def _of_request(error: RequestError) -> Failure:
    if error.node is not None:
        return Failure(Code.INTERNAL, "", cause=error, node=clean(error.node))
    # A text means that it was written for the client, even if the request is not at fault.
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
    node = clean(error.node) if isinstance(error, CalculatorError) else ""
    return Failure(Code.INTERNAL, "", cause=error, node=node)


def forget_frames(error: BaseException) -> None:
    """Release what the frames of an error hold, such as its request, now that it is reported.

    Futures and tasks hold their exceptions, and frames hold these: such cycles would keep a body
    until Python's collector comes, which is seldom.
    """
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        left += each.__cause__, each.__context__
        if isinstance(each, RunError):
            left += each.errors
