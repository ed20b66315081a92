"""`GraphError` and its `Code`, which every process of graphrt reports.

``code`` is transport-free: fronts map it to theirs. Every error survives pickling, because errors
cross process boundaries. The runtime's own errors, by cause, are in `graph_runtime.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any


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


class UnavailableError(GraphError):
    """The graph is throttled, or the value is not there yet. Trying later can succeed."""

    code = Code.UNAVAILABLE


class ResourceError(GraphError):
    """A node's resource cannot be made; the text says which node, what, and what would be right."""

    code = Code.FAILED_PRECONDITION


#: Longest name that is compared: clients send any length, and comparing costs time by length.
_LONGEST_NAME = 256


#: The similarity of words with other first letters.
_MOSTLY = 0.75


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
    # Imported here: help of commands needs none of it.
    import difflib

    if len(name) > _LONGEST_NAME:
        return ""
    by_key = {key(candidate).lower(): candidate for candidate in sorted(candidates, reverse=True)}
    word = key(name).lower()
    near = [
        each
        for each in difflib.get_close_matches(word, by_key, n=limit, cutoff=0.6)
        # People get the first letter right: "detector" has most of "mergetovector", and is not it.
        if word[:1] == each[:1]
        or word[1:] == each[1:]
        or difflib.SequenceMatcher(None, each, word).ratio() >= _MOSTLY
    ]
    if not near:
        return ""
    return " Did you mean " + " or ".join(f'"{by_key[each]}"' for each in near) + "?"


def reason_of(error: BaseException) -> str:
    """One line for a foreign exception: its text, with the type's name where that says more."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # an author's `__str__` may raise anything, which would hide its node
        return name
    if isinstance(error, GraphError):
        return text
    return f"{name}: {text}" if text else name
