"""`IndexWriter`: makes an index beside its final place, and puts it there when it is whole.

An index that grows is the file ``NAME.part``. A run that was interrupted leaves it behind, and the
next one goes on with it; a new run over a complete index begins with a copy of it. Either way files
that have not changed keep their passages.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calculators.language.retrieval.index_file import (
    COMPLETE,
    SCHEMA,
    IndexFile,
    IndexFileError,
    IndexMeta,
    Vectors,
)
from calculators.language.retrieval.passages import Passage
from calculators.language.retrieval.search import (
    MOST_EXACT,
    digest_of,
    has_library,
    make_search,
    search_file,
)

#: The row of `meta` that changes with the vectors, and not with the model.
_SEARCH_DIGEST = "search_digest"


class IndexWriter:
    """An index that is being made. Use it as a context manager: leaving it closes the file.

    It may be used in any thread, in one at a time.

    Attributes:
        kept: the digests of the files whose passages are there already, by path.
    """

    def __init__(self, out: Path, meta: IndexMeta) -> None:
        """Open ``NAME.part``, with what can be kept of it or of the index itself.

        Args:
            out: the index that is to be.
            meta: its model and the size of its passages.

        Raises:
            IndexFileError: the file cannot be written, or another run writes it.
        """
        self._out = out
        self._part = out.with_name(f"{out.name}.part")
        self._meta = meta
        with self._naming_errors():
            self._connection = self._opened()
        self.kept: dict[str, str] = dict(self._rows("SELECT path, digest FROM files"))

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def put(
        self,
        files: Sequence[tuple[str, str]],
        passages: Sequence[Sequence[Passage]],
        vectors: Vectors,
    ) -> None:
        """Write files with their passages, in place of what was known of them. All or none.

        Args:
            files: path and digest of each.
            passages: of each file.
            vectors: a row for each passage of all files.
        """
        rows = iter(vectors.astype("<f4", copy=False))
        with self._naming_errors(), self._connection as connection:
            for (path, digest), found in zip(files, passages, strict=True):
                connection.execute("DELETE FROM files WHERE path = ?", (path,))
                number = connection.execute(
                    "INSERT INTO files (path, digest) VALUES (?, ?)", (path, digest)
                ).lastrowid
                connection.executemany(
                    "INSERT INTO passages (file, line, title, text, vector) VALUES (?, ?, ?, ?, ?)",
                    [
                        (number, each.line, each.title, each.text, next(rows).tobytes())
                        for each in found
                    ],
                )
            self.kept.update(files)

    def keep_only(self, paths: Collection[str]) -> int:
        """Remove files that are not among these; returns their number."""
        gone = [path for path in self.kept if path not in paths]
        with self._naming_errors(), self._connection as connection:
            connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in gone])
        for path in gone:
            del self.kept[path]
        return len(gone)

    def is_large(self) -> bool:
        """Return whether `finish` will make a search file, which takes a while."""
        [(count,)] = self._rows("SELECT count(*) FROM passages")
        return count > MOST_EXACT and has_library()

    def finish(self) -> int:
        """Make the search file if the index is large, and put the index into its place.

        Returns:
            The number of passages.

        Raises:
            IndexFileError: there are no passages; a file cannot be written.
        """
        with self._naming_errors():
            [(count,)] = self._rows("SELECT count(*) FROM passages")
            if not count:
                raise IndexFileError("there is no text in these files, so there is no index")
            self._connection.commit()
            made = self._make_search(count) if self.is_large() else None
            digest = "" if made is None else digest_of(made)
            with self._connection as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                    [(_SEARCH_DIGEST, digest), (COMPLETE, "1")],
                )
            self._connection.close()
            if made is not None:
                os.replace(made, search_file(self._out))
            os.replace(self._part, self._out)
            if made is None:
                search_file(self._out).unlink(missing_ok=True)
        return int(count)

    def _make_search(self, count: int) -> Path:
        """Write the search file beside its place."""
        ids = np.empty(count, np.int64)
        vectors = np.empty((count, self._meta.dimension), np.float32)
        rows = self._rows("SELECT id, vector FROM passages ORDER BY id")
        for place, (number, vector) in enumerate(rows):
            ids[place] = number
            vectors[place] = np.frombuffer(vector, "<f4")
        made = search_file(self._part)
        make_search(ids, vectors).save(made)
        return made

    def _opened(self) -> sqlite3.Connection:
        """Return the connection to ``NAME.part``, locked, with tables and `meta`."""
        connection = self._continued()
        if connection is not None:
            return connection
        for file in (self._part, self._part.with_name(f"{self._part.name}-journal")):
            file.unlink(missing_ok=True)
        has_tables = self._fits(self._out)
        if has_tables:
            shutil.copyfile(self._out, self._part)
        connection = self._connected()
        try:
            with connection:
                if not has_tables:
                    connection.executescript(SCHEMA)
                rows = {**self._meta.rows(), COMPLETE: "0"}
                connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows.items())
        except BaseException:
            connection.close()
            raise
        return connection

    def _continued(self) -> sqlite3.Connection | None:
        """Return the connection to the ``NAME.part`` of an earlier run; None if it is of no use."""
        if not self._part.exists():
            return None
        try:
            connection = self._connected()
            try:
                if _has_passages_of(connection, self._meta):
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
        except sqlite3.DatabaseError:
            pass
        return None

    def _fits(self, index: Path) -> bool:
        """Return whether an index is whole, and has passages of this model and size."""
        try:
            with closing(IndexFile(index, index.name)) as opened:
                return replace(opened.meta, search_digest="") == self._meta
        except IndexFileError:
            return False

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._part, timeout=0, check_same_thread=False)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            # The lock is held until the connection is closed, so two runs cannot mix.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.commit()
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, statement: str) -> Iterator[tuple[Any, ...]]:
        return self._connection.execute(statement)

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        name = self._part.name
        try:
            yield
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise IndexFileError(f'another run of graphrt index writes "{name}"') from None
            raise IndexFileError(f'"{name}" cannot be written: {error}') from None
        except OSError as error:
            raise IndexFileError(f'"{name}" cannot be written: {error.strerror}') from None


def _has_passages_of(connection: sqlite3.Connection, meta: IndexMeta) -> bool:
    """Return whether an index in the making has passages of a model and a size.

    Raises:
        sqlite3.DatabaseError: it is no index, or damaged.
    """
    found = dict(connection.execute("SELECT name, value FROM meta"))
    connection.execute("SELECT 1 FROM passages JOIN files").fetchone()
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        return False
    wanted = meta.rows()
    return all(found.get(name) == wanted[name] for name in wanted if name != _SEARCH_DIGEST)
