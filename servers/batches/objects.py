"""Files and batches as they are kept, and the objects of OpenAI's API that show them.

Time limits of files and batches outlive processes and restarts of the machine, so they are compared
with the wall clock. No other time limits are.

A wall clock may jump: somebody sets it, or a machine starts with a wrong one until the network has
told it the time. What expires by a jump is lost for good, so a jump counts only when it has lasted
(`SteadyClock`). A process that starts meanwhile receives its parent's offset (`clock_of_child`).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct, field

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    STRING,
    Enumeration,
    Integer,
    Members,
    Value,
    honoured,
    read_members,
    table,
)
from calculators.kit.requests.schema import anything, record, string, word
from graph_runtime import Code, GraphError

#: Seconds by which clocks may drift apart without a jump: a correction in small steps.
_DRIFT: Final = 5.0
#: Seconds after which the clock that jumped is believed.
_SETTLING: Final = 600.0
#: The variable with the offset that a parent believes.
_INHERITED: Final = "GRAPHRT_CLOCK_OFFSET"


class SteadyClock:
    """The wall clock without jumps that last less than `_SETTLING`. Safe in any thread."""

    def __init__(self, offset: float | None = None) -> None:
        """``offset``: wall clock minus steady clock, as another process believes it."""
        self._lock = threading.Lock()
        #: Wall clock minus steady clock, as it is believed. guarded by: self._lock
        self._offset = time.time() - _steady() if offset is None else offset
        #: The same after a jump, and when that was first seen.
        self._jumped: tuple[float, float] | None = None

    def seconds(self) -> float:
        """Return Unix time."""
        with self._lock:
            steady = _steady()
            offset = time.time() - steady
            if abs(offset - self._offset) <= _DRIFT:
                self._offset, self._jumped = offset, None
            elif self._jumped is None or abs(offset - self._jumped[0]) > _DRIFT:
                self._jumped = offset, steady
            elif steady - self._jumped[1] >= _SETTLING:
                self._offset, self._jumped = offset, None
            return self._offset + steady

    def offset(self) -> float:
        """Return the wall clock minus the steady clock, as it is believed."""
        self.seconds()
        with self._lock:
            return self._offset


def _steady() -> float:
    """Return seconds that nobody sets; they go on while the machine sleeps, where it tells them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _inherited() -> float | None:
    try:
        return float(os.environ[_INHERITED])
    except (KeyError, ValueError):
        return None


_CLOCK: Final = SteadyClock(_inherited())


def clock_of_child() -> Mapping[str, str]:
    """Return variables for the environment of a process that is started now."""
    return {_INHERITED: repr(_CLOCK.offset())}


def unix_seconds() -> int:
    """Return Unix time in whole seconds, as OpenAI's objects have it."""
    return int(_CLOCK.seconds())


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The directory and the limits of files and batches.

    Attributes:
        directory: holds the store; made if it is missing.
        width: requests of batches that run at a time.
        max_requests: lines of one batch.
        max_file_bytes: the largest file.
        max_line_bytes: the longest line of an input file; a longer one gets an error.
        worker_command: starts the process that answers the requests of batches. It works in
            ``directory`` until there is nothing to do, and ends when its standard input does.
        is_idle: the worker has the lowest priority.
        is_shared: several servers on one port use the directory; one of them starts the worker.
    """

    directory: Path
    width: int = 32
    max_requests: int = 1_000_000
    max_file_bytes: int = 16 << 30
    max_line_bytes: int = 8 << 20
    worker_command: tuple[str, ...] = ()
    is_idle: bool = True
    is_shared: bool = False


class StoreError(GraphError):
    """The store cannot be used; the text says why.

    Attributes:
        option: the flag that names its directory.
    """

    code = Code.UNAVAILABLE
    option: ClassVar[str] = "batch_dir"


class StorageFullError(StoreError):
    """The disk of the store is full. Nothing was written."""


class ContentError(StoreError):
    """The content of one file is missing or damaged. Other files are not concerned."""


class NotStoredError(GraphError):
    """The file or batch does not exist, or belongs to another client."""

    code = Code.NOT_FOUND


class NotNowError(GraphError):
    """The state of the file or batch does not allow this."""

    code = Code.ALREADY_EXISTS


class DamagedStoreError(StoreError):
    """The database is not a database, or its structure is damaged."""


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: SQLite's errors of a full disk. A write beyond a limit of the file's size, a log whose index
#: cannot grow, and a synchronization that finds no room are errors of input and output.
_FULL_NAMES = frozenset(
    {
        "SQLITE_FULL",
        "SQLITE_IOERR_WRITE",
        "SQLITE_IOERR_FSYNC",
        "SQLITE_IOERR_DIR_FSYNC",
        "SQLITE_IOERR_TRUNCATE",
        "SQLITE_IOERR_SHMSIZE",
        "SQLITE_IOERR_SHMMAP",
    }
)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise a `StoreError` for errors of the disk and of SQLite.

    Raises:
        StorageFullError: the disk is full.
        DamagedStoreError: the database is damaged.
        StoreError: any other reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("the disk for files and batches is full") from error
        raise StoreError("the files of batches cannot be read or written") from error
    except sqlite3.Error as error:
        name, code = _sqlite_error(error)
        if name in _FULL_NAMES:
            raise StorageFullError("the disk for files and batches is full") from error
        # The low byte of SQLite's extended codes is the error that they detail.
        if code & 0xFF in _DAMAGED:
            raise DamagedStoreError("the database of files and batches is damaged") from error
        raise StoreError("the store of batches cannot be read or written") from error


def write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Let a database write ahead (WAL), as `pragma journal_mode`; wait for others that do it too.

    SQLite does not wait here, whatever its time-out is: of three processes that opened a new
    database at once, one in seven got "database is locked".

    Args:
        seconds: to wait.

    Raises:
        sqlite3.Error: it cannot be, or not in this time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            _, code = _sqlite_error(error)
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def _sqlite_error(error: sqlite3.Error) -> tuple[str, int]:
    """Return name and code of an error; those that Python's module raises itself have none."""
    return getattr(error, "sqlite_errorname", ""), getattr(error, "sqlite_errorcode", 0)


#: The time that a batch has, the only one that OpenAI's API knows.
WINDOW: Final = "24h"
WINDOW_SECONDS: Final = 24 * 3600
#: An input file is kept so long unless its upload says otherwise.
INPUT_SECONDS: Final = 30 * 24 * 3600
#: Bounds of ``expires_after.seconds``.
LEAST_SECONDS: Final = 3600
MOST_SECONDS: Final = INPUT_SECONDS

INPUT_PURPOSE: Final = "batch"
#: The purposes of files that requests name as documents, in OpenAI's words.
DOCUMENT_PURPOSES: Final = ("user_data", "assistants", "vision")
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

    def to_object(self) -> dict[str, object]:
        """Return OpenAI's ``file`` object."""
        return {
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


class BatchError(Struct, frozen=True, kw_only=True):
    """The reason why a whole batch failed. ``line``: of the input file, from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None

    def to_object(self) -> dict[str, object]:
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

    def to_object(self) -> dict[str, object]:
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

    def to_object(self) -> dict[str, object]:
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


class BatchAnswer(Struct, frozen=True, kw_only=True):
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


class UploadPiece(NamedTuple):
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


_MOST_PAIRS: Final = 16
_LONGEST_KEY: Final = 64
_LONGEST_VALUE: Final = 512
_SECONDS: Final = Integer(minimum=LEAST_SECONDS, maximum=MOST_SECONDS)
ANCHOR: Final = "created_at"


def read_metadata(value: Any, path: str) -> dict[str, str]:
    """Return checked metadata.

    Raises:
        RequestError: it has too many pairs, or one that is too long or no text.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    if len(value) > _MOST_PAIRS:
        raise fields.invalid(path, f"more than {_MOST_PAIRS} pairs")
    for key, text in value.items():
        if not isinstance(text, str):
            raise fields.wrong_type(path, "strings as values", text)
        if len(key) > _LONGEST_KEY or len(text) > _LONGEST_VALUE:
            raise fields.invalid(
                path,
                f"a key of more than {_LONGEST_KEY} or a value of more than {_LONGEST_VALUE} "
                "characters",
            )
    return value


def read_expiry(value: Any, path: str) -> int:
    """Return the seconds of ``{"anchor": "created_at", "seconds": N}``.

    Raises:
        RequestError: it is something else.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    anchor = value.get("anchor")
    if anchor != ANCHOR:
        raise fields.invalid(f"{path}.anchor", f'"{ANCHOR}" is the only anchor')
    return _SECONDS.read(value.get("seconds"), f"{path}.seconds")


def seconds_of(text: str, path: str) -> int:
    """Return the seconds that a field of a form has.

    Raises:
        RequestError: it is not a number, or none in the range.
    """
    digits = text.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
    return _SECONDS.read(int(digits) if is_number else text, path)


EXPIRY_SCHEMA: Final = record(
    {"anchor": word((ANCHOR,)), "seconds": _SECONDS.schema("")}, required=("anchor", "seconds")
)
METADATA_SCHEMA: Final = anything(
    f"At most {_MOST_PAIRS} pairs of texts.",
    additionalProperties=string(maxLength=_LONGEST_VALUE),
    propertyNames={"maxLength": _LONGEST_KEY},
    maxProperties=_MOST_PAIRS,
)

BATCH_MEMBERS: Final[Members] = table(
    honoured(
        "input_file_id", STRING, "A file of purpose `batch`, a request per line.", is_required=True
    ),
    honoured("endpoint", STRING, "The path that every line names as its `url`.", is_required=True),
    honoured(
        "completion_window",
        Enumeration((WINDOW,)),
        "The time until the batch expires.",
        is_required=True,
    ),
    honoured("metadata", Value(METADATA_SCHEMA, read_metadata), "For the client's own use."),
    honoured(
        "output_expires_after",
        Value(EXPIRY_SCHEMA, read_expiry),
        "How long the results are kept; by default until they are deleted.",
    ),
)


class BatchCreation(Struct, frozen=True, kw_only=True):
    """A checked request for a new batch. `servers.batches.objects.Batch` describes the members."""

    input_file_id: str
    endpoint: str
    metadata: dict[str, str] | None
    output_seconds: int | None


def read_creation(body: Mapping[str, Any]) -> BatchCreation:
    """Return the request of a body.

    Raises:
        RequestError: a member is missing, unknown or wrong.
    """
    members = read_members(body, BATCH_MEMBERS)
    for name, member in BATCH_MEMBERS.items():
        if member.is_required and members.get(name) is None:
            raise fields.missing(name)
    return BatchCreation(
        input_file_id=members["input_file_id"],
        endpoint=members["endpoint"],
        metadata=members.get("metadata"),
        output_seconds=members.get("output_expires_after"),
    )
