"""The output file and the error file of a batch, written from its answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, Final

from servers.batches.contents import drop_file, keep_file, remove_content
from servers.batches.errors import ContentError, storage_errors
from servers.batches.objects import OUTPUT_PURPOSE, Batch, BatchError, Status, StoredFile, new_id
from servers.batches.request_lines import LineReader, answer_line, custom_id_of
from servers.batches.store import BatchStore

_log: Final = logging.getLogger(__name__)

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

    A batch that never began has no results.
    """
    if status not in _NOT_RUN or batch.in_progress_at is None:
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
