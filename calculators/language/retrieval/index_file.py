"""The index: a SQLite file with passages, their sources and their vectors.

The rows are the truth. Beside a large index there is a file for approximate search
(`calculators.language.retrieval.search`), which is made from the rows.
`calculators.language.retrieval.indexing` writes both.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from calculators.language.retrieval.embedder import ModelIdentity
from calculators.language.retrieval.passages import PassageSize
from graphrt_base.regular_file import open_regular_file

#: Vectors of length 1, shape ``[n, dimension]``.
Vectors = NDArray[np.float32]

SCHEMA_VERSION: Final = "1"
#: The statements that make an empty index.
SCHEMA: Final = """\
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, digest TEXT NOT NULL);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
    line INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    vector BLOB NOT NULL
);
CREATE INDEX passages_of_file ON passages (file);
"""
#: The word of `meta` that is written last; "1" in an index that is whole.
COMPLETE: Final = "complete"
#: SQLite's own mark at the beginning of each of its files.
_MAGIC: Final = b"SQLite format 3\x00"


class IndexFileError(Exception):
    """An index that cannot be used; the text says why, and what would help."""


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """The facts that an index keeps about itself.

    Attributes:
        model: the model of its vectors.
        dimension: the numbers of a vector.
        size: the size of its passages.
        search_digest: the SHA-256 of its search file; "" if it has none.
    """

    model: ModelIdentity
    dimension: int
    size: PassageSize
    search_digest: str = ""

    def rows(self) -> dict[str, str]:
        """Return the rows of the table ``meta``, without `COMPLETE`."""
        return {
            "schema": SCHEMA_VERSION,
            "model": self.model.name,
            "model_digest": self.model.digest,
            "pooling": self.model.pooling,
            "normalized": "1",
            "dimension": str(self.dimension),
            "least_tokens": str(self.size.least),
            "most_tokens": str(self.size.most),
            "overlap": str(self.size.overlap),
            "search_digest": self.search_digest,
        }


class FoundPassage(NamedTuple):
    """A passage of an index.

    Attributes:
        path: its file, as it was indexed.
        line: the number of its first line, from 1 on.
        title: the headings above it.
        score: cosine similarity to the question, -1 to 1.
    """

    path: str
    line: int
    title: str
    text: str
    score: float


def read_meta(connection: sqlite3.Connection, name: str) -> IndexMeta:
    """Return the facts of an index.

    Args:
        name: the index, for errors.

    Raises:
        IndexFileError: it is half-written, of another version, or no index.
        sqlite3.DatabaseError: the file is damaged.
    """
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not {"meta", "files", "passages"} <= tables:
        raise IndexFileError(f'"{name}" is no index: `graphrt index` makes one')
    found = dict(connection.execute("SELECT name, value FROM meta"))
    if found.get("schema") != SCHEMA_VERSION:
        raise IndexFileError(
            f'"{name}" has version {found.get("schema")} of the index, and this graphrt reads '
            f"{SCHEMA_VERSION}: run `graphrt index` again"
        )
    if found.get(COMPLETE) != "1":
        raise IndexFileError(f'"{name}" is half-written: run `graphrt index` again')
    try:
        return IndexMeta(
            ModelIdentity(found["model"], found["model_digest"], found["pooling"]),
            int(found["dimension"]),
            PassageSize(
                int(found["least_tokens"]), int(found["most_tokens"]), float(found["overlap"])
            ),
            found["search_digest"],
        )
    except (KeyError, ValueError):
        raise _damaged(name) from None


class IndexFile:
    """An index that is open for reading. Safe for threads.

    The file is never written in place: a new index replaces it, and this one stays readable.

    Attributes:
        path: the file.
        name: the index, for errors.
        meta: its facts.
        count: the number of its passages.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Open and check the file; reads all of it.

        Raises:
            IndexFileError: it is missing, half-written, damaged, empty, or of another version.
        """
        self.path = path
        self.name = name
        self._lock = threading.Lock()
        self._connection = _connect(path, name)
        try:
            with self._naming_damage():
                self.meta = read_meta(self._connection, name)
                (problem,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
                if problem != "ok":
                    raise _damaged(name)
                (self.count,) = self._connection.execute("SELECT count(*) FROM passages").fetchone()
            if not self.count:
                raise IndexFileError(f'"{name}" has no passages: run `graphrt index` again')
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def vectors(self) -> tuple[NDArray[np.int64], Vectors]:
        """Return the ids of all passages, and their vectors in the same order.

        Raises:
            IndexFileError: a vector has the wrong length, or numbers that are not finite.
        """
        ids = np.empty(self.count, np.int64)
        vectors = np.empty((self.count, self.meta.dimension), np.float32)
        with self._lock, self._naming_damage():
            rows = self._connection.execute("SELECT id, vector FROM passages ORDER BY id")
            for place, (number, vector) in enumerate(rows):
                if not isinstance(vector, bytes) or len(vector) != 4 * self.meta.dimension:
                    raise _damaged(self.name)
                ids[place] = number
                vectors[place] = np.frombuffer(vector, "<f4")
        if not np.isfinite(vectors).all():
            raise _damaged(self.name)
        return ids, vectors

    def passages(self, scores: Iterable[tuple[int, float]]) -> list[FoundPassage]:
        """Return the passages of ids with their scores, in the same order."""
        found = []
        with self._lock, self._naming_damage():
            for number, score in scores:
                row = self._connection.execute(
                    "SELECT path, line, title, text FROM passages JOIN files "
                    "ON files.id = passages.file WHERE passages.id = ?",
                    (number,),
                ).fetchone()
                if row is None:
                    raise _damaged(self.name)
                path, line, title, text = row
                found.append(FoundPassage(path, line, title, text, score))
        return found

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError:
            raise _damaged(self.name) from None


def _connect(path: Path, name: str) -> sqlite3.Connection:
    try:
        with open_regular_file(path) as file:
            beginning = file.read(len(_MAGIC))
    except FileNotFoundError:
        raise IndexFileError(
            f'there is no index "{name}": `graphrt index FILES --model DIR --out {name}` makes it'
        ) from None
    except OSError as error:
        raise IndexFileError(f'"{name}" cannot be read: {error.strerror}') from None
    if beginning != _MAGIC:
        raise IndexFileError(f'"{name}" is no index: `graphrt index` makes one')
    # Immutable: no lock files, and a directory that may not be written is no problem.
    address = f"file:{quote(os.fspath(path.absolute()))}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def _damaged(name: str) -> IndexFileError:
    return IndexFileError(f'"{name}" is damaged: run `graphrt index` again')
