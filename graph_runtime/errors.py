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
      - DescriptorsExhaustedError   ... no file can be opened (`graph_runtime.regular_file`)
    + CalculatorError           a calculator's open, process or close raised
    + Cancelled                 the run was cancelled by the application
    + RunError                  a run has failed, with one or more of the above

MediaPipe's Python binding raises ``ValueError`` for INVALID_ARGUMENT and ``RuntimeError`` for the
rest; every error here is a ``RuntimeError``, and those of INVALID_ARGUMENT are ``ValueError`` too,
so code written against either catches them. ``code`` is transport-free: fronts map it to theirs.
Every error survives pickling, because errors cross process boundaries.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from graph_runtime.timestamp import debug_string


class Code(StrEnum):
    """Canonical status codes, with the names of ``absl::StatusCode``."""

    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class GraphError(RuntimeError):
    """Base of all errors that graphrt reports."""

    code: Code = Code.UNKNOWN

    def __init__(self, message: str = "", *, code: Code | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        """The text, without any prefix."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive the default protocol, which calls cls(*args).
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[GraphError], args: tuple[Any, ...], state: dict[str, Any]) -> GraphError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


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


class UnavailableError(GraphError):
    """The graph is throttled, or the value is not there yet. Trying later can succeed."""

    code = Code.UNAVAILABLE


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
    """The code that all errors share, else UNKNOWN (MediaPipe ``tool/status_util.cc``)."""
    codes = {error.code for error in errors}
    return codes.pop() if len(codes) == 1 else Code.UNKNOWN


#: Longest name that is compared: clients send any length, and comparing costs time by length.
_LONGEST_NAME = 256


def did_you_mean(
    name: str,
    candidates: Iterable[str],
    *,
    limit: int = 3,
    key: Callable[[str], str] = str,
) -> str:
    """A hint, `` Did you mean "a" or "b"?`` with its leading space, or the empty string.

    ``key`` picks the part of a name to compare. A name of more than 256 characters gets no hint.
    """
    if len(name) > _LONGEST_NAME:
        return ""
    by_key = {key(candidate).lower(): candidate for candidate in sorted(candidates, reverse=True)}
    near = difflib.get_close_matches(key(name).lower(), by_key, n=limit, cutoff=0.6)
    if not near:
        return ""
    return " Did you mean " + " or ".join(f'"{by_key[each]}"' for each in near) + "?"


def reason_of(error: BaseException) -> str:
    """One line for a foreign exception: its text, with the type's name where that says more."""
    text = str(error)
    if isinstance(error, GraphError):
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name
