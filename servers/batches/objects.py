"""Files and batches as they are kept, and the objects of OpenAI's API that show them."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

#: The time that a batch has, the only one that OpenAI's API knows.
WINDOW: Final = "24h"
WINDOW_SECONDS: Final = 24 * 3600
#: An input file is kept so long unless its upload says otherwise.
INPUT_SECONDS: Final = 30 * 24 * 3600
#: Bounds of ``expires_after.seconds``.
LEAST_SECONDS: Final = 3600
MOST_SECONDS: Final = INPUT_SECONDS

INPUT_PURPOSE: Final = "batch"
OUTPUT_PURPOSE: Final = "batch_output"


class Status(StrEnum):
    """The states of a batch.

    ::

        VALIDATING -> IN_PROGRESS -> FINALIZING -> COMPLETED
            |              |  time is over: FINALIZING -> EXPIRED
            |              |  cancelled: CANCELLING -> CANCELLED (from VALIDATING too)
            +-> FAILED
    """

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


UNFINISHED: Final = (
    Status.VALIDATING,
    Status.IN_PROGRESS,
    Status.FINALIZING,
    Status.CANCELLING,
)
CANCELLABLE: Final = (Status.VALIDATING, Status.IN_PROGRESS)


class StoredFile(Struct, frozen=True, kw_only=True):
    """One file.

    Attributes:
        owner: the client that uploaded it or made the batch; "" where no keys are needed.
        size: bytes.
        expires_at: when it is removed, Unix time in seconds; None: never.
    """

    id: str
    owner: str
    filename: str
    purpose: str
    size: int
    created_at: int
    expires_at: int | None = None

    def to_object(self) -> dict[str, Any]:
        """Return OpenAI's ``file`` object."""
        shown: dict[str, Any] = {
            "id": self.id,
            "object": "file",
            "bytes": self.size,
            "created_at": self.created_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
            "expires_at": self.expires_at,
        }
        return shown


class BatchError(Struct, frozen=True, kw_only=True):
    """The reason why a whole batch failed. ``line``: of the input file, from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None

    def to_object(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "line": self.line,
            "message": self.message,
            "param": self.param,
        }


class TokenUsage(Struct, frozen=True):
    """Sums of tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def to_object(self) -> dict[str, Any]:
        """Return the ``usage`` of OpenAI's ``batch`` object."""
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": self.cached_tokens},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.input_tokens + self.output_tokens,
        }


class Batch(Struct, frozen=True, kw_only=True):
    """One batch.

    Attributes:
        number: its place in the order of creation; the key of its answers.
        endpoint: the path that its lines name; "": each line names its own.
        output_seconds: how long its results are kept; None: until they are deleted.
        model: the model of its first good line.
        total, completed, failed: requests. Those that did not run are in neither of the last two.
        is_checked: ``total`` is the number of requests in the file; before, the number found yet.
        damage: columns of its row that cannot be read, and have their defaults here.
        next_line, next_offset: every line before this one has its answer. Lines count from 1,
            ``next_offset`` is where ``next_line`` begins in the input file, in bytes.
        *_at: Unix time in seconds.
    """

    number: int = 0
    id: str
    owner: str
    endpoint: str
    input_file_id: str
    metadata: dict[str, str] | None = None
    output_seconds: int | None = None
    status: Status = Status.VALIDATING
    created_at: int
    expires_at: int | None = None
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: list[BatchError] = []
    model: str | None = None
    total: int = 0
    is_checked: bool = False
    completed: int = 0
    failed: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    next_line: int = 1
    next_offset: int = 0
    damage: tuple[str, ...] = ()

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    def to_object(self) -> dict[str, Any]:
        """Return OpenAI's ``batch`` object."""
        errors = None
        if self.errors:
            errors = {"object": "list", "data": [each.to_object() for each in self.errors]}
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "model": self.model,
            "errors": errors,
            "input_file_id": self.input_file_id,
            "completion_window": WINDOW,
            "status": self.status.value,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "in_progress_at": self.in_progress_at,
            "expires_at": self.expires_at,
            "finalizing_at": self.finalizing_at,
            "completed_at": self.completed_at,
            "failed_at": self.failed_at,
            "expired_at": self.expired_at,
            "cancelling_at": self.cancelling_at,
            "cancelled_at": self.cancelled_at,
            "request_counts": {
                "total": self.total,
                "completed": self.completed,
                "failed": self.failed,
            },
            "usage": self.usage.to_object(),
            "metadata": self.metadata,
        }


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to one line of a batch.

    Attributes:
        batch: the batch's `Batch.number`.
        line: the number of the line, from 1.
        is_error: it belongs into the error file.
        text: the line for the output file or the error file, as JSON without a line end.
        usage: the tokens of this request.
    """

    batch: int
    line: int
    is_error: bool
    text: bytes
    usage: TokenUsage = field(default_factory=TokenUsage)


class Phase(StrEnum):
    """The phases of a batch in which its content decides what the worker does."""

    CHECK = "check"
    ANSWER = "answer"
    RESULTS = "results"


class Piece(NamedTuple):
    """A piece of a worker's work. ``line``: for `Phase.ANSWER`; else 0."""

    batch: int
    phase: Phase
    line: int


class Watermark(Struct, frozen=True):
    """Every line of a batch before ``line``, which begins at byte ``offset``, has its answer."""

    batch: int
    line: int
    offset: int


def new_id(prefix: str) -> str:
    """Return an identifier that nobody can guess, such as ``file-`` with 32 digits."""
    return prefix + os.urandom(16).hex()
