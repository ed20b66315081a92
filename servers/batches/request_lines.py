"""The lines of an input file: read one at a time, and checked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from calculators.tasks import without_prefix
from servers.batches.errors import storage_errors
from servers.batches.objects import BatchError

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
LONGEST_ID: Final = 512
#: Errors that a failed batch shows.
_MOST_ERRORS: Final = 20
_COMMIT_EVERY: Final = 20_000


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
    """A line is no request; the text says why.

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

    def __init__(self, path: Path, *, most_bytes: int, number: int = 1, offset: int = 0) -> None:
        """
        Args:
            most_bytes: a longer line has no text.
            number, offset: the first line to read, and where it begins.

        Raises:
            StoreError: the file cannot be opened.
        """
        self._most = most_bytes
        self._number = number
        self._offset = offset
        with storage_errors():
            self._file = path.open("rb")
            self._file.seek(offset)

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[InputLine]:
        return self

    def __next__(self) -> InputLine:
        """Return the next line that is not blank.

        Raises:
            StoreError: the file cannot be read.
        """
        while True:
            with storage_errors():
                text = self._file.readline(self._most + 1)
                size = len(text)
                is_long = size > self._most and not text.endswith(b"\n")
                while is_long and not text.endswith(b"\n"):
                    text = self._file.readline(1 << 20)
                    size += len(text)
                    if not text:
                        break
            if not size:
                raise StopIteration
            number = self._number
            self._number += 1
            self._offset += size
            if number == 1:
                text = text.removeprefix(_BOM)
            if is_long:
                return InputLine(number, None, self._offset)
            text = text.strip(_BLANKS)
            if text:
                return InputLine(number, text, self._offset)


class _Line(Struct):
    custom_id: Any = UNSET
    method: Any = UNSET
    url: Any = UNSET
    body: Raw | UnsetType = UNSET


class _Body(Struct):
    model: Any = UNSET
    stream: Any = UNSET


_line_decoder: Final = msgspec.json.Decoder(_Line)
_body_decoder: Final = msgspec.json.Decoder(_Body)


def request_of(line: InputLine, endpoint: str) -> BatchRequest:
    """Return the request of a line.

    ``endpoint``: the batch's; "": any.

    Raises:
        LineError: the line is no request.
    """
    place = f"line {line.number}"
    if line.text is None:
        raise LineError(f"{place} is longer than a request may be", code="line_too_long")
    try:
        found = _line_decoder.decode(line.text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise LineError(f"{place} is not a JSON object", code="invalid_json_line") from None
    custom_id = found.custom_id
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= LONGEST_ID:
        text = f"{place} needs a `custom_id`, a string of at most {LONGEST_ID} characters"
        raise LineError(text, param="custom_id")
    if found.method is not UNSET and found.method != "POST":
        raise LineError(f'{place}: `method` must be "POST"', custom_id, "method")
    url = found.url
    if not isinstance(url, str) or not url.startswith("/"):
        text = f"{place} needs a `url`, the path of an endpoint such as /v1/chat/completions"
        raise LineError(text, custom_id, "url", "invalid_url")
    # A line may name another prefix than its batch.
    if endpoint and without_prefix(url) != without_prefix(endpoint):
        text = f"{place}: `url` is not the endpoint of the batch, {endpoint}"
        raise LineError(text, custom_id, "url", "invalid_url")
    if found.body is UNSET:
        raise LineError(f"{place} needs a `body`, a JSON object", custom_id, "body")
    body = bytes(found.body)
    try:
        members = _body_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = f"{place}: `body` must be a JSON object"
        raise LineError(text, custom_id, "body") from None
    if members.stream not in (UNSET, None, False):
        text = f"{place}: `stream` must be false, because a batch has whole answers"
        raise LineError(text, custom_id, "body.stream")
    model = members.model if isinstance(members.model, str) else ""
    return BatchRequest(custom_id, url, body, model)


def error_body(message: str, param: str | None, code: str | None) -> dict[str, Any]:
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
    """Return JSON on one line; None if it is no JSON."""
    try:
        raw = msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    found = bytes(raw).strip(_BLANKS)
    if b"\n" in found or b"\r" in found:  # in JSON only between values
        return json.dumps(json.loads(found), ensure_ascii=False).encode()
    return found


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
