"""The index: a SQLite file with passages, their sources and their vectors, and the search in it.

The rows are the truth; `calculators.language.retrieval.indexing` writes them. They name the
embedding model that made the vectors (`ModelIdentity`), because vectors of another model cannot be
compared.

Up to `MOST_EXACT` vectors NumPy compares all of them. A larger index has a second file beside it,
which is made from the rows: a graph of near neighbours (HNSW) of the library usearch, whose numbers
have 16 bits. Without the library, the extra ``retrieval``, large indexes are searched exactly too.
``bench/retrieval.py`` measures both.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from calculators.kit.installed_points import is_installed
from calculators.language.retrieval.passages import PassageSize
from calculators.text.embeddings.servable import EmbeddingsOptions, embeddings_options
from calculators.text.text_models.model_options import TextModelOptions
from graphrt_base.regular_file import open_regular_file

#: The uses of texts, by which a model's prompts are chosen.
PASSAGE: Final = "passage"
QUESTION: Final = "query"

#: The files that decide the vectors: weights, and the tokenizer's, of which one kind is there.
_WEIGHTS: Final = "openvino_model.bin"
_TOKENIZER: Final = "tokenizer.json"
_OPENVINO_TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The identity of an embedding model.

    Attributes:
        name: the name of its directory, for people.
        digest: the SHA-256 of its weights and its tokenizer, in hexadecimal digits.
        pooling: "CLS", "LAST" or "MEAN".
    """

    name: str
    digest: str
    pooling: str


def identify(options: EmbeddingsOptions) -> ModelIdentity:
    """Return the identity of a model; reads its files: for a thread.

    Raises:
        OSError: a file cannot be read.
    """
    directory = options.model.directory
    has_tokenizer = (directory / _TOKENIZER).is_file()
    files = (_WEIGHTS, *((_TOKENIZER,) if has_tokenizer else _OPENVINO_TOKENIZER))
    digest = hashlib.sha256()
    for name in files:
        with open_regular_file(directory / name) as file:
            # The digest of each, so that no byte can move from one file to the next.
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return ModelIdentity(directory.resolve().name, digest.hexdigest(), options.pooling)


def hidden_size(model: TextModelOptions) -> int | None:
    """Return the numbers of a vector as config.json says; None if it does not."""
    size = model.config.get("hidden_size", model.config.get("d_model"))
    return size if type(size) is int else None


def embedder_options(
    models_path: str,
    graph_directory: Path,
    *,
    target_device: str = "",
    plugin_config: str = "",
    pooling: str = "",
) -> EmbeddingsOptions:
    """Check the options of an index's model: vectors of length 1, and long texts are cut off.

    Raises:
        ResourceError: with the field, what is wrong, and what would be right.
    """
    return embeddings_options(
        models_path,
        graph_directory,
        target_device=target_device,
        plugin_config=plugin_config,
        pooling=pooling,
        normalizes=True,
        truncates=True,
    )


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
        raise IndexFileError(f'"{name}" is not an index: `graphrt index` makes one')
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
        raise IndexFileError(f'"{name}" is not an index: `graphrt index` makes one')
    # Immutable: no lock files, and the directory need not be writable.
    address = f"file:{quote(os.fspath(path.absolute()))}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def _damaged(name: str) -> IndexFileError:
    return IndexFileError(f'"{name}" is damaged: run `graphrt index` again')


#: Vectors that NumPy compares in some milliseconds.
MOST_EXACT: Final = 20_000
#: The library's parameters: edges of a vector, and vectors that are looked at when one is added and
#: when one is searched (docs/decisions/0055-sqlite-and-usearch.md).
_EDGES: Final = 16
_LOOKED_AT_ADDING: Final = 128
_LOOKED_AT_SEARCHING: Final = 64


class Search(Protocol):
    """A search for the nearest of many vectors. Safe for threads."""

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """Return the ids of the nearest vectors with their cosine similarity, the nearest first.

        Args:
            vector: shape ``[dimension]``, of length 1.
        """


class ExactSearch:
    """Compares with every vector."""

    def __init__(self, ids: NDArray[np.int64], vectors: Vectors) -> None:
        self._ids = ids
        self._vectors = vectors

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """See `Search.nearest`."""
        scores = self._vectors @ vector
        count = min(count, len(scores))
        places = np.argpartition(-scores, count - 1)[:count]
        places = places[np.lexsort((places, -scores[places]))]
        return [(int(self._ids[place]), float(scores[place])) for place in places]


class ApproximateSearch:
    """Searches usearch's graph of near neighbours."""

    def __init__(self, index: Any) -> None:
        """``index``: a ``usearch.index.Index``."""
        self._index = index

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[tuple[int, float]]:
        """See `Search.nearest`."""
        found = self._index.search(vector, count)
        return [
            (int(key), 1.0 - float(distance))
            for key, distance in zip(found.keys, found.distances, strict=True)
        ]

    def save(self, file: Path) -> None:
        """Write the search file."""
        self._index.save(str(file))


def has_library() -> bool:
    """Return whether usearch is installed."""
    return is_installed("usearch")


def search_file(index: Path) -> Path:
    """Return the path of an index's search file."""
    return index.with_name(f"{index.name}.usearch")


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; "" if it cannot be read."""
    try:
        with open_regular_file(file) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def make_search(ids: NDArray[np.int64], vectors: Vectors) -> ApproximateSearch:
    """Make the graph of near neighbours, on all processors; of 100,000 vectors it takes a while."""
    index = _empty(vectors.shape[1])
    index.add(ids, vectors)
    return ApproximateSearch(index)


def open_search(file: Path, dimension: int, count: int) -> ApproximateSearch | None:
    """Map a search file; None if the file is something else, or for another number of vectors."""
    index = _empty(dimension)
    try:
        index.view(str(file))
    except Exception:  # the library raises plain ones
        return None
    return ApproximateSearch(index) if (len(index), index.ndim) == (count, dimension) else None


def _empty(dimension: int) -> Any:
    # Imported here: only large indexes need it.
    from usearch.index import Index

    return Index(
        ndim=dimension,
        metric="cos",
        dtype="f16",
        connectivity=_EDGES,
        expansion_add=_LOOKED_AT_ADDING,
        expansion_search=_LOOKED_AT_SEARCHING,
    )
