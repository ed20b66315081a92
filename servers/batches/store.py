"""`BatchStore`: files and batches in a directory that survives the end of any process.

::

    DIR/store.sqlite    files, batches, answers
    DIR/files/ID        the contents of files
    DIR/uploads/        files that are being written; emptied at the start
    DIR/*.lock          who serves the directory, and who answers its batches
    DIR/in_hand         what the worker does now (`servers.batch_work.work_in_hand`)

An answer and the fact that it exists are one row, so a request is answered once: an answer that is
committed is never computed again, and one that was not committed before a crash is computed again.
Contents are written and synchronized before their rows. Decision "Batches in SQLite" has the
reasons.

Rows are read one at a time, each as far as it can be read, so that a damaged one is an error of its
batch or file and of no other.
"""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from servers.batches.contents import open_content, remove_content
from servers.batches.objects import (
    CANCELLABLE,
    UNFINISHED,
    Batch,
    BatchAnswer,
    BatchError,
    NotNowError,
    NotStoredError,
    Phase,
    Status,
    StoredFile,
    UploadPiece,
    Watermark,
    storage_errors,
    unix_seconds,
    write_ahead,
)
from servers.batches.store_schema import (
    batch_of,
    file_of,
    make_tables,
    readable_row,
    readable_rows,
    row_of,
)

#: Seconds that a statement waits while another process writes.
_BUSY_SECONDS: Final = 60.0
_FILE_COLUMNS: Final = "id, owner, filename, purpose, size, created_at, expires_at"
_UNFINISHED: Final = ", ".join(f"'{each}'" for each in UNFINISHED)
_CANCELLABLE: Final = ", ".join(f"'{each}'" for each in CANCELLABLE)
#: The times that states have.
_TIMES: Final = {
    Status.IN_PROGRESS: "in_progress_at",
    Status.FINALIZING: "finalizing_at",
    Status.COMPLETED: "completed_at",
    Status.FAILED: "failed_at",
    Status.EXPIRED: "expired_at",
    Status.CANCELLED: "cancelled_at",
}
_ROWS_AT_A_TIME: Final = 256


class StoreCounts(msgspec.Struct, frozen=True):
    """Sums over all batches, for metrics. ``batches``: their number by status."""

    batches: dict[str, int] = {}
    completed: int = 0
    failed: int = 0
    waiting: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    files: int = 0
    file_bytes: int = 0


class BatchStore:
    """The store in a directory. Methods block, and may be called from any thread.

    Each method is one transaction. Several processes may use one directory.

    Raises:
        StoreError: the constructor and every method; `StorageFullError` if the disk is full.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files = directory / "files"
        self.uploads = directory / "uploads"
        self._lock = threading.Lock()
        with storage_errors():
            for folder in (directory, self._files, self.uploads):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                directory / "store.sqlite",
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.row_factory = sqlite3.Row
            # A flipped byte in a text must fail its own batch, and not every list that has it.
            self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            self._prepare()

    def _prepare(self) -> None:
        run = self._connection.execute
        run("pragma auto_vacuum = incremental")  # before anything is written
        # With the log readers do not wait for the worker's commits. FULL in groups of 50 commits
        # 6,067 answers a second, one by one 578 (decision 0064).
        write_ahead(self._connection, _BUSY_SECONDS)
        # A commit is on the disk: NORMAL would lose the last ones when the power fails.
        run("pragma synchronous = full")
        with self._transaction():
            make_tables(self._connection, unix_seconds())

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with storage_errors(), self._lock:
            self._connection.execute("begin immediate")
            try:
                yield self._connection
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with storage_errors(), self._lock:
            yield self._connection

    @property
    def version(self) -> int:
        """A number that changes when another process has committed something."""
        with self._reading() as connection:
            (version,) = connection.execute("pragma data_version").fetchone()
        return int(version)

    # Files ----------------------------------------------------------------------------------------

    def path_of(self, file_id: str) -> Path:
        """Return the path of a file's content. ``file_id``: one that the store gave."""
        return self._files / file_id

    def place_for_writing(self, file_id: str) -> Path:
        """Return the path at which a content is written, in a directory that exists."""
        with storage_errors():
            self.uploads.mkdir(mode=0o700, exist_ok=True)
        return self.uploads / file_id

    def content(self, file: StoredFile) -> bytes:
        """Return the content of a file.

        Raises:
            ContentError: it cannot be read.
        """
        with storage_errors(), open_content(self.path_of(file.id), file.size) as content:
            return content.read(file.size)

    def size_of(self, file_id: str) -> int | None:
        """Return the bytes of a content as it was written; None if that is not known."""
        with self._reading() as connection:
            row = readable_row(connection, "select size from files where id = ?", (file_id,))
        return row["size"] if row is not None and isinstance(row["size"], int) else None

    def add_file(self, file: StoredFile) -> None:
        """Add a file, whose content is in place."""
        with self._transaction() as connection:
            _insert_file(connection, file)

    def file(self, file_id: str, owner: str, now: int) -> StoredFile:
        """Return a client's file.

        Raises:
            NotStoredError: there is none, or it has expired.
        """
        with self._reading() as connection:
            return _find_file(connection, file_id, owner, now)

    def files(
        self, owner: str, now: int, *, purpose: str | None, after: str, limit: int, ascending: bool
    ) -> tuple[list[StoredFile], bool]:
        """Return a page of a client's files, and True if there are more after it.

        Raises:
            NotStoredError: there is no file ``after``.
        """
        where = "owner = ? and (expires_at is null or expires_at > ?)"
        values: list[Any] = [owner, now]
        if purpose is not None:
            where += " and purpose = ?"
            values.append(purpose)
        with self._reading() as connection:
            rows, has_more = _page(
                connection, "files", _FILE_COLUMNS, where, values, after, limit, ascending=ascending
            )
        return [file_of(row) for row in rows], has_more

    def delete_file(self, file_id: str, owner: str, now: int) -> None:
        """Delete a client's file.

        Raises:
            NotStoredError: there is none.
            NotNowError: a batch that is not finished reads it.
        """
        with self._transaction() as connection:
            _find_file(connection, file_id, owner, now)
            reader = connection.execute(
                f"select id from batches where input_file_id = ? and status in ({_UNFINISHED})",
                (file_id,),
            ).fetchone()
            if reader is not None:
                raise NotNowError(
                    f"the file is the input of {reader['id']}, which is not finished: cancel the "
                    "batch first"
                )
            connection.execute("delete from files where id = ?", (file_id,))
        # After the row: a content without a row is removed at the next start, a row without a
        # content would be a broken file (decision 0064).
        remove_content(self.path_of(file_id))

    def remove_expired(self, now: int) -> int:
        """Remove files whose time is over, except inputs of unfinished batches. Return how many."""
        with self._transaction() as connection:
            rows = connection.execute(
                "delete from files where expires_at <= ? and id not in (select input_file_id from"
                f" batches where status in ({_UNFINISHED})) returning id",
                (now,),
            ).fetchall()
        for row in rows:
            remove_content(self.path_of(row["id"]))
        return len(rows)

    def tidy(self, before: float = math.inf) -> None:
        """Remove what a killed process left: parts of files, and contents without a row.

        Only for the process that owns the directory, while no worker writes results. Contents that
        are older than the database stay: they belong to one that was lost, and that a backup may
        bring back.

        ``before``: Unix time; files that were written later stay, as other servers may write them.
        """
        with self._reading() as connection:
            known = {row["id"] for row in connection.execute("select id from files")}
            (made_at,) = connection.execute(
                "select coalesce(max(made_at), 0) from store"
            ).fetchone()
        with storage_errors():
            strays = [(path, 0) for path in self.uploads.iterdir()]
            strays += [(path, made_at) for path in self._files.iterdir() if path.name not in known]
            for path, after in strays:
                with suppress(FileNotFoundError):
                    if after <= path.lstat().st_mtime < before:
                        remove_content(path)

    # Batches --------------------------------------------------------------------------------------

    def add_batch(self, batch: Batch) -> Batch:
        """Add a batch whose input file exists, and return it with its number.

        Raises:
            NotStoredError: its owner has no such file.
        """
        with self._transaction() as connection:
            _find_file(connection, batch.input_file_id, batch.owner, batch.created_at)
            row = row_of(batch)
            del row["number"]
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            cursor = connection.execute(
                f"insert into batches ({names}) values ({marks})", tuple(row.values())
            )
            return msgspec.structs.replace(batch, number=cursor.lastrowid)

    def batch(self, batch_id: str, owner: str) -> Batch:
        """Return a client's batch.

        Raises:
            NotStoredError: there is none.
        """
        with self._reading() as connection:
            return _find_batch(connection, batch_id, owner)

    def numbered(self, number: int) -> Batch:
        """Return the batch with a number.

        Raises:
            NotStoredError: there is none.
        """
        with self._reading() as connection:
            row = connection.execute("select * from batches where number = ?", (number,)).fetchone()
        if row is None:
            raise NotStoredError("there is no such batch")
        return batch_of(row)

    def batches(
        self,
        owner: str,
        *,
        after: str,
        limit: int,
        endpoints: Sequence[str] = (),
        ascending: bool = False,
    ) -> tuple[list[Batch], bool]:
        """Return a page of a client's batches, the newest first, and True if there are more.

        ``endpoints``: only the batches of these.

        Raises:
            NotStoredError: there is no batch ``after``.
        """
        where = "owner = ?"
        if endpoints:
            where += f" and endpoint in ({', '.join('?' * len(endpoints))})"
        with self._reading() as connection:
            rows, has_more = _page(
                *(connection, "batches", "*", where, [owner, *endpoints], after, limit),
                ascending=ascending,
            )
        return [batch_of(row) for row in rows], has_more

    def delete_batch(self, batch_id: str, owner: str) -> None:
        """Delete a client's batch that is finished, with its files.

        Raises:
            NotStoredError: there is none.
            NotNowError: it is not finished.
        """
        with self._transaction() as connection:
            batch = _find_batch(connection, batch_id, owner)
            if not batch.is_finished:
                raise NotNowError("the batch is not finished: cancel it first")
            files = [batch.output_file_id, batch.error_file_id]
            others = connection.execute(
                "select 1 from batches where input_file_id = ? and id <> ?",
                (batch.input_file_id, batch_id),
            ).fetchone()
            if others is None:
                files.append(batch.input_file_id)
            connection.execute("delete from batches where number = ?", (batch.number,))
            removed = [
                row["id"]
                for file_id in files
                for row in connection.execute(
                    "delete from files where id = ? and owner = ? returning id", (file_id, owner)
                )
            ]
        for file_id in removed:
            remove_content(self.path_of(file_id))

    def unfinished(self) -> list[Batch]:
        """Return all unfinished batches, the oldest first."""
        with self._reading() as connection:
            rows = readable_rows(
                connection,
                f"from batches where status in ({_UNFINISHED}) order by number",
                "select * from batches where number = ?",
            )
        return [batch_of(row) for row in rows]

    def has_unfinished(self) -> bool:
        """Return whether there is a batch that a worker can process, or end."""
        return bool(self.unfinished())

    def cancel(self, batch_id: str, owner: str, now: int) -> Batch:
        """Begin to cancel a client's batch. Does nothing to one that is being cancelled.

        Raises:
            NotStoredError: there is none.
            NotNowError: it is finished, or about to be.
        """
        with self._transaction() as connection:
            batch = _find_batch(connection, batch_id, owner)
            if batch.status in (Status.CANCELLING, Status.CANCELLED):
                return batch
            if batch.status not in CANCELLABLE:
                raise NotNowError(f"a batch that is {batch.status} cannot be cancelled")
            connection.execute(
                "update batches set status = ?, cancelling_at = ? where number = ?",
                (Status.CANCELLING, now, batch.number),
            )
            return _find_batch(connection, batch_id, owner)

    def begin(
        self, number: int, total: int, model: str | None, now: int, *, is_checked: bool = True
    ) -> bool:
        """Put a batch in progress, or note how far the check of one in progress is.

        ``total``: requests found yet; of the whole file if it ``is_checked``.

        Return False if the batch was cancelled meanwhile.
        """
        with self._transaction() as connection:
            cursor = connection.execute(
                "update batches set status = ?, in_progress_at = coalesce(in_progress_at, ?),"
                " total = max(total, ?), model = coalesce(model, ?), is_checked = ?"
                f" where number = ? and status in ({_CANCELLABLE})",
                (Status.IN_PROGRESS, now, total, model, is_checked, number),
            )
        return cursor.rowcount == 1

    def fail(self, number: int, errors: Sequence[BatchError], now: int) -> None:
        """End a batch whose check found faults, unless it was cancelled meanwhile."""
        with self._transaction() as connection:
            connection.execute(
                "update batches set status = ?, failed_at = ?, errors = ?"
                f" where number = ? and status in ({_CANCELLABLE})",
                (Status.FAILED, now, msgspec.json.encode(list(errors)).decode(), number),
            )

    def begin_finalizing(self, number: int, now: int) -> None:
        """Note that no request of a batch runs any more. One that is cancelled stays so."""
        with self._transaction() as connection:
            connection.execute(
                "update batches set status = ?, finalizing_at = ? where number = ? and status = ?",
                (Status.FINALIZING, now, number, Status.IN_PROGRESS),
            )

    def finish(
        self,
        number: int,
        status: Status,
        results: Sequence[StoredFile],
        now: int,
        *,
        total: int = 0,
        errors: Sequence[BatchError] = (),
    ) -> None:
        """End a batch whose results are in place.

        Args:
            results: the output file and the error file; the latter's name ends so.
            total: lines in them, which the check may not have found when the batch was stopped.
            errors: why it failed.
        """
        with self._transaction() as connection:
            for file in results:
                _insert_file(connection, file)
                column = "error" if file.filename.endswith("_error.jsonl") else "output"
                connection.execute(
                    f"update batches set {column}_file_id = ? where number = ?", (file.id, number)
                )
            connection.execute(
                f"update batches set status = ?, {_TIMES[status]} = ?, total = max(total, ?),"
                " errors = ? where number = ?",
                (status, now, total, msgspec.json.encode(list(errors)).decode(), number),
            )

    # Answers --------------------------------------------------------------------------------------

    def add_answers(self, answers: Iterable[BatchAnswer], marks: Iterable[Watermark]) -> int:
        """Commit answers; one that exists stays as it is. Return the number of new ones."""
        added = 0
        with self._transaction() as connection:
            for each in answers:
                cursor = connection.execute(
                    "insert into answers (batch, line, is_error, text) values (?, ?, ?, ?)"
                    # An answer and the fact that it exists are one row: after a crash only requests
                    # without a committed answer run again (decision 0064).
                    " on conflict do nothing",
                    (each.batch, each.line, each.is_error, each.text),
                )
                if cursor.rowcount != 1:
                    continue
                added += 1
                column = "failed" if each.is_error else "completed"
                usage = each.usage
                connection.execute(
                    f"update batches set {column} = {column} + 1,"
                    " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
                    " cached_tokens = cached_tokens + ?, reasoning_tokens = reasoning_tokens + ?"
                    " where number = ?",
                    (
                        usage.input_tokens,
                        usage.output_tokens,
                        usage.cached_tokens,
                        usage.reasoning_tokens,
                        each.batch,
                    ),
                )
            for mark in marks:
                connection.execute(
                    "update batches set next_line = ?, next_offset = ? where number = ?",
                    (mark.line, mark.offset, mark.batch),
                )
        return added

    def answered_lines(self, number: int, line: int) -> set[int]:
        """Return the lines from ``line`` on that have an answer."""
        with self._reading() as connection:
            rows = connection.execute(
                "select line from answers where batch = ? and line >= ?", (number, line)
            ).fetchall()
        return {row["line"] for row in rows}

    def answers(self, number: int) -> Iterator[BatchAnswer]:
        """Yield the answers of a batch in the order of its lines, a few in memory at a time."""
        line = 0
        while True:
            with self._reading() as connection:
                rows = connection.execute(
                    "select batch, line, is_error, text from answers"
                    " where batch = ? and line > ? order by line limit ?",
                    (number, line, _ROWS_AT_A_TIME),
                ).fetchall()
            for row in rows:
                yield BatchAnswer(
                    batch=row["batch"],
                    line=row["line"],
                    is_error=bool(row["is_error"]),
                    text=row["text"],
                )
            if len(rows) < _ROWS_AT_A_TIME:
                return
            # By the key and not by OFFSET, which would read all rows before it again for each page.
            line = rows[-1]["line"]

    def drop_answers(self) -> None:
        """Remove the answers of finished batches, whose results are in their files."""
        unfinished = f"(select number from batches where status in ({_UNFINISHED}))"
        removed = _ROWS_AT_A_TIME
        while removed == _ROWS_AT_A_TIME:
            with self._transaction() as connection:
                removed = connection.execute(
                    "delete from answers where rowid in (select answers.rowid from answers"
                    " join batches on batches.number = answers.batch"
                    f" where batches.status not in ({_UNFINISHED}) limit ?)",
                    (_ROWS_AT_A_TIME,),
                ).rowcount
        with self._transaction() as connection:
            connection.execute(f"delete from suspects where batch not in {unfinished}")
        with self._reading() as connection:
            # Deleted rows would stay in the file: results are on the disk twice while a batch is
            # finalized (decision 0064).
            connection.execute("pragma incremental_vacuum").fetchall()

    # Ends of the worker ---------------------------------------------------------------------------

    def note_ends(self, pieces: Iterable[tuple[UploadPiece, int]]) -> None:
        """Note the pieces that a worker had in hand when it ended, and what each end counts."""
        with self._transaction() as connection:
            for piece, weight in pieces:
                connection.execute(
                    "insert into suspects (batch, phase, line, ends) values (?, ?, ?, ?)"
                    " on conflict do update set ends = ends + excluded.ends",
                    (*piece, weight),
                )

    def suspects(self) -> dict[UploadPiece, int]:
        """Return the pieces of unfinished batches that were in hand at the end of a worker, each
        with what its ends count."""
        with self._reading() as connection:
            rows = connection.execute(
                "select batch, phase, line, ends from suspects where batch in"
                f" (select number from batches where status in ({_UNFINISHED}))"
            ).fetchall()
        return {
            UploadPiece(row["batch"], Phase(row["phase"]), row["line"]): row["ends"] for row in rows
        }

    def clear_suspect(self, piece: UploadPiece) -> None:
        """Forget a piece that has ended without harm."""
        with self._transaction() as connection:
            connection.execute(
                "delete from suspects where batch = ? and phase = ? and line = ?", piece
            )

    def counts(self) -> StoreCounts:
        """Return the sums for metrics."""
        with self._reading() as connection:
            by_status = connection.execute(
                "select status, count(*) as batches from batches group by status"
            ).fetchall()
            sums = connection.execute(
                "select coalesce(sum(completed), 0) as completed, coalesce(sum(failed), 0) as"
                " failed, coalesce(sum(input_tokens), 0) as input_tokens,"
                " coalesce(sum(output_tokens), 0) as output_tokens, coalesce(sum(case when status"
                f" in ({_CANCELLABLE}) then total - completed - failed else 0 end), 0) as waiting"
                " from batches"
            ).fetchone()
            kept = connection.execute(
                "select count(*) as files, coalesce(sum(size), 0) as file_bytes from files"
            ).fetchone()
        batches = {row["status"]: row["batches"] for row in by_status}
        return StoreCounts(batches, **dict(sums), **dict(kept))


def _insert_file(connection: sqlite3.Connection, file: StoredFile) -> None:
    connection.execute(
        f"insert into files ({_FILE_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",
        msgspec.structs.astuple(file),
    )


def _find_file(connection: sqlite3.Connection, file_id: str, owner: str, now: int) -> StoredFile:
    row = connection.execute(
        f"select {_FILE_COLUMNS} from files where id = ? and owner = ?"
        " and (expires_at is null or expires_at > ?)",
        (file_id, owner, now),
    ).fetchone()
    if row is None:
        raise NotStoredError("there is no such file")
    return file_of(row)


def _find_batch(connection: sqlite3.Connection, batch_id: str, owner: str) -> Batch:
    row = connection.execute(
        "select * from batches where id = ? and owner = ?", (batch_id, owner)
    ).fetchone()
    if row is None:
        raise NotStoredError("there is no such batch")
    return batch_of(row)


def _page(
    connection: sqlite3.Connection,
    table: str,
    columns: str,
    where: str,
    values: list[Any],
    after: str,
    limit: int,
    *,
    ascending: bool,
) -> tuple[list[sqlite3.Row], bool]:
    """Return rows, and True if there are more. The first of ``values`` is their owner.

    Where a page is damaged, the numbers come from an index, and rows are read one at a time.
    """
    owner = values[0]
    bound, bounds = "", []
    if after:
        start = connection.execute(
            f"select number from {table} where id = ? and owner = ?", (after, owner)
        ).fetchone()
        if start is None:
            raise NotStoredError("there is no object with the id of `after`")
        bound, bounds = f"and number {'>' if ascending else '<'} ?", [start["number"]]
    bound += f" order by number {'asc' if ascending else 'desc'}"
    with suppress(sqlite3.DatabaseError):
        rows = connection.execute(
            f"select {columns} from {table} where {where} {bound} limit ?",
            (*values, *bounds, limit + 1),
        ).fetchall()
        return rows[:limit], len(rows) > limit
    rows = []
    reading = f"select {columns} from {table} where {where} and number = ?"
    numbering = f"select number from {table} where owner = ? {bound}"
    for (number,) in connection.execute(numbering, (owner, *bounds)):
        row = readable_row(connection, reading, (*values, number))
        if row is None:
            continue
        if len(rows) == limit:
            return rows, True
        rows.append(row)
    return rows, False
