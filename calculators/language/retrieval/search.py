"""Search of the nearest vectors: exact for small indexes, approximate for large ones.

Up to `MOST_EXACT` vectors NumPy compares all of them. A larger index has a file of the library
usearch, a graph of near neighbours (HNSW) whose numbers have 16 bits. Without the library, the
extra ``retrieval``, large indexes are searched exactly too. ``bench/passage_search.py`` measures
both.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from calculators.language.retrieval.index_file import Vectors
from graphrt_base.regular_file import open_regular_file

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
    return find_spec("usearch") is not None


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
    """Map a search file; None if it is no such file, or not for so many vectors."""
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
