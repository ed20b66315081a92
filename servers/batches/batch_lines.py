"""The lines of a batch's files: requests that are read one at a time, and answers."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from calculators.kit.requests.json_depth import MOST_DEPTH, nests_deeper
from calculators.kit.tasks import without_prefix
from servers.batches.contents import (
    content_error,
    drop_file,
    keep_file,
    open_content,
    remove_content,
)
from servers.batches.objects import (
    OUTPUT_PURPOSE,
    Batch,
    BatchError,
    ContentError,
    Status,
    StoredFile,
    new_id,
    storage_errors,
)
from servers.batches.store import BatchStore

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
LONGEST_ID: Final = 512
LONGEST_PATH: Final = 2048
#: RFC 3986's path of a URI: no query, fragment, blank or control character.
_PATH: Final = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+")
#: Errors that a failed batch shows.
_MOST_ERRORS: Final = 20
_COMMIT_EVERY: Final = 20_000
#: Levels of an answer, which may repeat what its request has.
_MOST_ANSWER_DEPTH: Final = 2 * MOST_DEPTH

_LOOKED_THROUGH: Final = 4096
_TOKENS: Final = re.compile(
    rb'"custom_id"[ \t]*:[ \t]*(?P<custom_id>"(?:[^"\\]|\\.)*")|"(?:[^"\\]|\\.)*"|[][{}]'
)


class InputLine(Struct, frozen=True):
    """One line as it stands in the file.

    Attributes:
        number: from 1; blank lines count.
        text: None if the line is longer than the limit.
        end: the offset of the next line in the file, in bytes.
    """

    number: int
    text: bytes | None
    end: int


class BatchRequest(Struct, frozen=True):
    """The request of a line.

    Attributes:
        url: path of the endpoint.
        body: a JSON object, as it was written.
        model: the body's ``model``; "" without one.
    """

    custom_id: str
    url: str
    body: bytes
    model: str


class LineError(Exception):
    """A line is not a request; the text says why.

    Attributes:
        custom_id: of the line, if it can be read.
        param: the member at fault.
        code: a word for programs.
    """

    def __init__(
        self,
        message: str,
        custom_id: str | None = None,
        param: str | None = None,
        code: str = "invalid_request",
    ) -> None:
        super().__init__(message)
        self.custom_id = custom_id
        self.param = param
        self.code = code


class LineReader:
    """Reads a file of lines from one of them on. Never holds more than a line in memory."""

    def __init__(
        self,
        path: Path,
        *,
        most_bytes: int,
        number: int = 1,
        offset: int = 0,
        size: int | None = None,
    ) -> None:
        """
        Args:
            most_bytes: a longer line has no text.
            number, offset: the first line to read, and where it begins.
            size: the bytes that the file must have; None: unknown.

        Raises:
            ContentError: the file cannot be opened, or has another size.
        """
        self._path = path
        self._most = most_bytes
        self._number = number
        self._offset = offset
        self._file = open_content(path, size)
        self._file.seek(offset)

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[InputLine]:
        return self

    def __next__(self) -> InputLine:
        """Return the next line that is not blank.

        Raises:
            ContentError: the file cannot be read.
        """
        while True:
            try:
                text, size = self._read()
            except OSError as error:
                raise content_error(self._path, error) from error
            if not size:
                raise StopIteration
            number = self._number
            self._number += 1
            self._offset += size
            if text is None:
                return InputLine(number, None, self._offset)
            if number == 1:
                text = text.removeprefix(_BOM)
            text = text.strip(_BLANKS)
            if text:
                return InputLine(number, text, self._offset)

    def _read(self) -> tuple[bytes | None, int]:
        """Return the next line, None for one that is too long, and its size."""
        text = self._file.readline(self._most + 1)
        size = len(text)
        if size <= self._most or text.endswith(b"\n"):
            return text, size
        while text and not text.endswith(b"\n"):
            text = self._file.readline(1 << 20)
            size += len(text)
        return None, size


class _Line(Struct):
    custom_id: Any = UNSET
    method: Any = UNSET
    url: Any = UNSET
    body: Raw | UnsetType = UNSET


class _Body(Struct):
    model: Any = UNSET
    stream: Any = UNSET


_Identifier = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]

_line_decoder: Final = msgspec.json.Decoder(_Line)
_body_decoder: Final = msgspec.json.Decoder(_Body)


def request_of(line: InputLine, endpoint: str) -> BatchRequest:
    """Return the request of a line.

    ``endpoint``: the batch's; "": any.

    Raises:
        LineError: the line is not a request. Other lines are not concerned, whatever is wrong here.
    """
    try:
        return _request_of(line, endpoint)
    except LineError:
        raise
    except Exception:
        _log.exception("line %d of a batch cannot be read", line.number)
        raise LineError(f"line {line.number} cannot be read", code="invalid_line") from None


def custom_id_of(line: InputLine) -> str | None:
    """Return the identifier of a line; None if it cannot be read."""
    try:
        return request_of(line, "").custom_id
    except LineError as error:
        return error.custom_id


def is_path(text: str) -> bool:
    """Return whether a text is the path of a URL, without query and fragment."""
    return len(text) <= LONGEST_PATH and _PATH.fullmatch(text) is not None


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes, what: str, error: LineError) -> T:
    """Return decoded JSON.

    ``what``: the name of the text in an error.

    Raises:
        LineError: it nests too deeply, or ``error``.
    """
    try:
        if nests_deeper(text, MOST_DEPTH + 1):  # the line is a level of its own
            raise RecursionError
        return decoder.decode(text)
    except RecursionError:
        custom_id = error.custom_id or _custom_id_in(text)
        raise LineError(f"{what} nests too deeply", custom_id, error.param) from None
    except (msgspec.DecodeError, ValueError):  # of UTF-8 too
        raise error from None


def _custom_id_in(text: bytes) -> str | None:
    """Return the identifier that stands near the beginning of a line that cannot be decoded."""
    depth = 0
    for found in _TOKENS.finditer(text, 0, _LOOKED_THROUGH):
        if found["custom_id"] is None:
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(found[0], 0)
        elif depth == 1:
            try:
                return msgspec.json.decode(found["custom_id"], type=_Identifier)
            except ValueError:
                return None
    return None


def _request_of(line: InputLine, endpoint: str) -> BatchRequest:
    place = f"line {line.number}"
    if line.text is None:
        raise LineError(f"{place} is longer than a request may be", code="line_too_long")
    error = LineError(f"{place} is not a JSON object", code="invalid_json_line")
    found = _decoded(_line_decoder, line.text, place, error)
    custom_id = found.custom_id
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= LONGEST_ID:
        text = f"{place} needs a `custom_id`, a string of at most {LONGEST_ID} characters"
        raise LineError(text, param="custom_id")
    if found.method is not UNSET and found.method != "POST":
        raise LineError(f'{place}: `method` must be "POST"', custom_id, "method")
    url = found.url
    if not isinstance(url, str) or not is_path(url):
        text = f"{place} needs a `url`, the path of an endpoint such as /v1/chat/completions"
        raise LineError(text, custom_id, "url", "invalid_url")
    # A line may name another prefix than its batch.
    if endpoint and without_prefix(url) != without_prefix(endpoint):
        text = f"{place}: `url` is not the endpoint of the batch, {endpoint}"
        raise LineError(text, custom_id, "url", "invalid_url")
    if found.body is UNSET:
        raise LineError(f"{place} needs a `body`, a JSON object", custom_id, "body")
    body = bytes(found.body)
    error = LineError(f"{place}: `body` must be a JSON object", custom_id, "body")
    members = _decoded(_body_decoder, body, f"{place}: `body`", error)
    if members.stream not in (UNSET, None, False):
        text = f"{place}: `stream` must be false, because a batch has whole answers"
        raise LineError(text, custom_id, "body.stream")
    model = members.model if isinstance(members.model, str) else ""
    return BatchRequest(custom_id, url, body, model)


def error_body(message: str, param: str | None, code: str | None) -> dict[str, object]:
    """Return OpenAI's error object for a line."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return {"error": error}


def answer_line(
    request_id: str,
    custom_id: str | None,
    *,
    status: int | None = None,
    body: bytes = b"null",
    error: tuple[str, str] | None = None,
) -> bytes:
    """Return a line of an output or error file, without its end.

    Args:
        status: of the answer; None: the request did not run.
        body: the answer's JSON.
        error: code and text, for a request that did not run.
    """
    answered = b"null"
    if status is not None:
        head = {"status_code": status, "request_id": request_id}
        answered = msgspec.json.encode({**head, "body": Raw(body)})
    failed = None if error is None else {"code": error[0], "message": error[1]}
    return msgspec.json.encode(
        {
            "id": f"batch_req_{request_id}",
            "custom_id": custom_id,
            "response": Raw(answered),
            "error": failed,
        }
    )


def one_line(text: bytes) -> bytes | None:
    """Return JSON on one line; None if it is not JSON, or nests too deeply."""
    try:
        text.decode()  # what is not decoded is not checked either
        if nests_deeper(text, _MOST_ANSWER_DEPTH):
            return None
        raw = msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # In JSON, ends of lines stand only between values.
    return bytes(raw).strip(_BLANKS).replace(b"\n", b" ").replace(b"\r", b" ")


class Findings(Struct):
    """The outcome of `check_lines`.

    Attributes:
        total: lines that are not blank.
        model: the model of the first good line.
        errors: why the batch cannot begin.
    """

    total: int = 0
    model: str | None = None
    errors: list[BatchError] = []


def check_lines(
    reader: LineReader,
    endpoint: str,
    most_requests: int,
    is_wanted: Callable[[Findings, int], bool],
) -> Findings:
    """Check the lines of a file. The identifiers are kept on disk, not in memory.

    A line that is no request gets its error among the results, and does not stop the others. A
    batch fails only if it has no line or too many, an identifier twice, or another endpoint's path.

    Args:
        is_wanted: called before each line but the first, with the findings so far and the line's
            offset in the file; False ends the check.
    """
    findings = Findings()
    with closing(_Identifiers()) as identifiers:
        offset = 0
        for line in reader:
            if offset and not is_wanted(findings, offset):
                break
            offset = line.end
            findings.total += 1
            if findings.total > most_requests:
                text = f"the file has more than {most_requests} requests"
                findings.errors.append(BatchError(code="too_many_requests", message=text))
                break
            error = None
            try:
                request = request_of(line, endpoint)
                custom_id: str | None = request.custom_id
                if findings.model is None and request.model:
                    findings.model = request.model
            except LineError as raised:
                custom_id = raised.custom_id
                if raised.code == "invalid_url" and endpoint:
                    error = BatchError(
                        code=raised.code, message=str(raised), line=line.number, param="url"
                    )
            if custom_id is not None and not identifiers.add(custom_id):
                text = f"line {line.number}: an earlier line has the same `custom_id`"
                error = BatchError(
                    code="duplicate_custom_id", message=text, line=line.number, param="custom_id"
                )
            if error is not None:
                findings.errors.append(error)
                if len(findings.errors) >= _MOST_ERRORS:
                    break
    if not findings.total:
        findings.errors.append(BatchError(code="empty_file", message="the file has no requests"))
    return findings


class _Identifiers:
    """A set of identifiers in a temporary database, of which SQLite keeps a part in memory."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("create table seen (digest blob primary key) without rowid")
        self._connection.execute("begin")
        self._added = 0

    def add(self, custom_id: str) -> bool:
        """Add an identifier. Return False if it is there already."""
        digest = blake2b(custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with storage_errors():
            cursor = self._connection.execute(
                "insert into seen values (?) on conflict do nothing", (digest,)
            )
            self._added += 1
            if self._added % _COMMIT_EVERY == 0:
                self._connection.execute("commit")
                self._connection.execute("begin")
        return cursor.rowcount == 1

    def close(self) -> None:
        self._connection.close()


#: The error of a request that did not run, by the status that its batch ends in.
_NOT_RUN: Final = {
    Status.EXPIRED: (
        "batch_expired",
        "This request could not be executed before the completion window expired.",
    ),
    Status.CANCELLED: (
        "batch_cancelled",
        "This request was not executed: the batch was cancelled.",
    ),
}


def end_batch(
    store: BatchStore,
    number: int,
    now: int,
    *,
    most_line_bytes: int,
    errors: Sequence[BatchError] = (),
    has_results: bool = True,
) -> Batch:
    """End an unfinished batch with the answers that it has, and return it.

    It is cancelled if that was asked for, failed if there are ``errors``, completed if every line
    has an answer, and expired otherwise. Without
    ``has_results`` its answers are dropped. A call that raised an error can be made again.

    Raises:
        StoreError: as `BatchStore`.
    """
    store.begin_finalizing(number, now)
    batch = store.numbered(number)
    if batch.is_finished:
        return batch
    if batch.status is Status.CANCELLING:
        status = Status.CANCELLED
    elif errors:
        status = Status.FAILED
    elif not batch.is_checked or batch.completed + batch.failed < batch.total:
        status = Status.EXPIRED
    else:
        status = Status.COMPLETED
    results: list[StoredFile] = []
    lines = 0
    if has_results:
        results, lines = write_results(store, batch, status, now, most_line_bytes=most_line_bytes)
    try:
        store.finish(number, status, results, now, total=lines, errors=errors)
    except BaseException:
        # Without rows nobody would find them.
        for file in results:
            remove_content(store.path_of(file.id))
        raise
    return store.numbered(number)


def write_results(
    store: BatchStore, batch: Batch, status: Status, now: int, *, most_line_bytes: int
) -> tuple[list[StoredFile], int]:
    """Write the results of a batch that ends in ``status``; return the files that have any, and
    the number of their lines.

    Their contents are in place and synchronized; `BatchStore.finish` makes them known.

    Raises:
        StoreError: as `BatchStore`.
    """
    output, errors = _Result(store, "output"), _Result(store, "error")
    with ExitStack() as opened:
        for each in (output, errors):
            opened.callback(each.discard)
        answered: set[int] = set()
        for answer in store.answers(batch.number):
            (errors if answer.is_error else output).write(answer.text)
            # All lines before it have answers: memory does not grow with the file (decision 0064).
            if answer.line >= batch.next_line:
                answered.add(answer.line)
        for line, text in _unanswered(store, batch, status, most_line_bytes):
            if line not in answered:
                errors.write(text)
        expires_at = None if batch.output_seconds is None else now + batch.output_seconds
        files = [each.finish(batch, now, expires_at) for each in (output, errors) if each.size]
        return files, output.lines + errors.lines


def _unanswered(
    store: BatchStore, batch: Batch, status: Status, most_line_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """Yield number and error of each line that may have no answer.

    A batch that never began has results only if its lines were counted when it was made, as
    Anthropic's are: the lines of others may be anything.
    """
    if status not in _NOT_RUN or not (batch.in_progress_at or batch.total):
        return
    try:
        reader = LineReader(
            store.path_of(batch.input_file_id),
            size=store.size_of(batch.input_file_id),
            most_bytes=most_line_bytes,
            number=batch.next_line,
            offset=batch.next_offset,
        )
        with closing(reader):
            for line in reader:
                text = answer_line(new_id(""), custom_id_of(line), error=_NOT_RUN[status])
                yield line.number, text
    except ContentError as error:
        # The batch ends nevertheless, with the answers that it has.
        _log.error("the error file of %s lacks lines: %s", batch.id, error)


class _Result:
    """One file of results, made with its first line."""

    def __init__(self, store: BatchStore, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._id = new_id("file-")
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self.size = 0
        self.lines = 0

    def write(self, line: bytes) -> None:
        with storage_errors():
            if self._file is None:
                self._path = self._store.place_for_writing(self._id)
                self._file = self._path.open("xb")
            self.size += self._file.write(line)
            self.size += self._file.write(b"\n")
        self.lines += 1

    def finish(self, batch: Batch, now: int, expires_at: int | None) -> StoredFile:
        assert self._file is not None
        assert self._path is not None
        keep_file(self._file, self._path, self._store.path_of(self._id))
        self._file = self._path = None
        return StoredFile(
            id=self._id,
            owner=batch.owner,
            filename=f"{batch.id}_{self._kind}.jsonl",
            purpose=OUTPUT_PURPOSE,
            size=self.size,
            created_at=now,
            expires_at=expires_at,
        )

    def discard(self) -> None:
        """Remove what was written unless it is finished."""
        if self._file is not None and self._path is not None:
            drop_file(self._file, self._path)
