"""The errors of the runtime, by cause.

::

    GraphError                  anything graphrt itself reports; a RuntimeError
    + GraphConfigError          the graph's text or plan is wrong; also a ValueError
      - GraphSyntaxError        ... it does not parse: source, line, column
      - ValidationError         ... it parses but cannot run: all findings, not the first
    + PacketTypeError           a packet holds another type than its stream carries; a ValueError
    + TimestampError            a timestamp is not allowed here or goes back; a ValueError
    + StateError                a call at the wrong time: run started twice, used after close
    + NotFoundError             no such stream, side packet, calculator, service
    + ResourceError             a node's resource cannot be made (`graph_runtime.plan.resources`)
    + UnavailableError          not now: throttled, side packet not set yet, deadlock
      - DescriptorsExhaustedError   ... no file can be opened (`graphrt_base.regular_file`)
    + CalculatorError           a calculator's open, process or close raised
    + Cancelled                 the run was cancelled by the application
    + RunError                  a run has failed, with one or more of the above

MediaPipe's Python binding raises ``ValueError`` for INVALID_ARGUMENT and ``RuntimeError`` for the
rest; every error here is a ``RuntimeError``; errors of INVALID_ARGUMENT are ``ValueError`` too,
so code written against either catches them. ``code`` is transport-free: fronts map it to theirs.
Every error survives pickling, because errors cross process boundaries.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence

from graph_runtime.timestamp import debug_string
from graphrt_base.errors import (
    Code,
    GraphError,
    ResourceError,
    UnavailableError,
    did_you_mean,
    reason_of,
)

#: The runtime also raises the errors of `graphrt_base.errors`.
__all__ = [
    "CalculatorError",
    "Cancelled",
    "Code",
    "GraphConfigError",
    "GraphError",
    "GraphSyntaxError",
    "NotFoundError",
    "PacketTypeError",
    "ResourceError",
    "RunError",
    "StateError",
    "TimestampError",
    "UnavailableError",
    "ValidationError",
    "common_code",
    "did_you_mean",
    "reason_of",
]


def wrong_argument(call: str, name: str, given: object, right: str) -> TypeError:
    """Return the error of an argument of another type; ``right`` completes "must be ..."."""
    return TypeError(f"{call}: {name} must be {right}, not {reprlib.repr(given)}")


class GraphConfigError(GraphError, ValueError):
    """The graph's text or structure is wrong. Nothing has run."""

    code = Code.INVALID_ARGUMENT


class GraphSyntaxError(GraphConfigError):
    """The graph does not parse. ``line`` and ``column`` count from 1.

    ``others`` are the further errors of the same text, in its order; theirs are empty.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str,
        line: int,
        column: int,
        hint: str | None = None,
        others: Sequence[GraphSyntaxError] = (),
    ) -> None:
        text = f"{source}:{line}:{column}: parse error: {message}"
        lines = [f"{text}\nhint: {hint}" if hint else text, *map(str, others)]
        super().__init__("\n".join(lines))
        self.others = tuple(others)
        self.source = source
        self.line = line
        self.column = column
        self.reason = message
        self.hint = hint


class ValidationError(GraphConfigError):
    """The graph parses but cannot run. ``findings`` holds every reason, in the order found."""

    def __init__(self, findings: Sequence[GraphError]) -> None:
        super().__init__(
            "ValidatedGraphConfig Initialization failed.\n"
            + "\n".join(str(finding) for finding in findings),
            code=common_code(findings),
        )
        self.findings = tuple(findings)


class PacketTypeError(GraphError, ValueError):
    """A packet holds another type than the stream or side packet was declared with."""

    code = Code.INVALID_ARGUMENT


class TimestampError(GraphError, ValueError):
    """A timestamp is not allowed in a stream, or lies before what the stream already promised."""

    code = Code.INVALID_ARGUMENT


class StateError(GraphError):
    """The call is right, the moment is not: before the run, during it, or after it."""

    code = Code.FAILED_PRECONDITION


class NotFoundError(GraphError):
    """No such stream, side packet, calculator or service; the text lists the nearest names."""

    code = Code.NOT_FOUND


class CalculatorError(GraphError):
    """A calculator's ``open``, ``process`` or ``close`` failed.

    ``node`` is the node's canonical name, ``phase`` the method, ``time`` the input timestamp of
    ``process`` (None elsewhere, and for sources). The calculator's own exception is the
    ``__cause__``; only its text, ``reason``, is part of the message.
    """

    def __init__(
        self,
        node: str,
        phase: str,
        reason: str,
        *,
        code: Code = Code.UNKNOWN,
        time: int | None = None,
    ) -> None:
        where = "" if time is None else f" (at input timestamp {debug_string(time)})"
        super().__init__(
            f'Calculator::{phase}() for node "{node}" failed: {reason}{where}', code=code
        )
        self.node = node
        self.phase = phase
        self.reason = reason
        self.time = time


class Cancelled(GraphError):
    """The application cancelled the run. MediaPipe's text is empty."""

    code = Code.CANCELLED

    def __init__(self, text: str = "the run was cancelled") -> None:
        super().__init__(text)


class RunError(GraphError):
    """A run has failed. ``errors`` holds every recorded error, in order of arrival."""

    PREFIX = "CalculatorGraph::Run() failed: "

    def __init__(self, errors: Sequence[GraphError], prefix: str = PREFIX) -> None:
        super().__init__(
            prefix + "\n" + "\n".join(str(error) for error in errors), code=common_code(errors)
        )
        self.errors = tuple(errors)


def common_code(errors: Iterable[GraphError]) -> Code:
    """Return the code that all errors share, else UNKNOWN (MediaPipe ``tool/status_util.cc``)."""
    codes = {error.code for error in errors}
    return codes.pop() if len(codes) == 1 else Code.UNKNOWN
