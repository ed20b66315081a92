"""Search among the passages of an index: NumPy, which compares all, beside usearch.

    python -m bench.passage_search [--vectors N ...]

The vectors have 384 numbers and are clustered, as those of texts are: without clusters a search is
harder than any that texts need. Both are searched as `RetrievalCalculator` does, in one thread.
usearch is the extra ``retrieval``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bench.machine import describe_machine
from calculators.language.retrieval.index_file import (
    ExactSearch,
    Search,
    Vectors,
    has_library,
    make_search,
    open_search,
)

_NUMBERS: Final = 384
_CLUSTERS: Final = 1000
#: The share of a vector that its cluster does not decide.
_SPREAD: Final = 0.6
_QUESTIONS: Final = 200
_NEAREST: Final = 10


def clustered(count: int, source: np.random.Generator) -> Vectors:
    """Return vectors of length 1."""
    centres = source.standard_normal((_CLUSTERS, _NUMBERS), np.float32)
    made = centres[source.integers(_CLUSTERS, size=count)]
    return unit(made + _SPREAD * source.standard_normal((count, _NUMBERS), np.float32))


def unit(vectors: Vectors) -> Vectors:
    """Return vectors, each divided by its length."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def milliseconds(search: Search, questions: Vectors) -> float:
    """Return the median time of a search."""
    times = []
    for question in questions:
        begun = time.perf_counter()
        search.nearest(question, _NEAREST)
        times.append(time.perf_counter() - begun)
    return float(np.median(times)) * 1000


def found(search: Search, questions: Vectors) -> list[set[int]]:
    """Return the ids of the nearest vectors of each question."""
    return [{number for number, _ in search.nearest(each, _NEAREST)} for each in questions]


def rows(count: int) -> Sequence[str]:
    """Return the rows of the table for so many vectors."""
    source = np.random.default_rng(0)
    vectors = clustered(count, source)
    ids = np.arange(count)
    near = vectors[source.integers(count, size=_QUESTIONS)]
    questions = unit(near + 0.03 * source.standard_normal(near.shape, np.float32))
    exact = ExactSearch(ids, vectors)
    wanted = found(exact, questions)
    made = [f"| {count:,} | NumPy | - | {milliseconds(exact, questions):.2f} ms | 1 | - |"]
    if has_library():
        begun = time.perf_counter()
        search = make_search(ids, vectors)
        seconds = time.perf_counter() - begun
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "search.usearch")
            search.save(file)
            opened = open_search(file, _NUMBERS, count)
            assert opened is not None
            size = file.stat().st_size / 1e6
            pairs = zip(found(opened, questions), wanted, strict=True)
            recall = np.mean([len(got & right) / _NEAREST for got, right in pairs])
            took = milliseconds(opened, questions)
        made.append(
            f"| {count:,} | usearch | {seconds:.0f} s | {took:.2f} ms | {recall:.3f} "
            f"| {size:.0f} MB |"
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.passage_search")
    parser.add_argument("--vectors", type=int, nargs="+", default=[1_000, 20_000, 100_000])
    words = parser.parse_args()
    print(describe_machine(), end="\n\n")
    print("| passages | search | made in | a question | found of the nearest ten | file |")
    print("|---|---|---|---|---|---|")
    for count in words.vectors:
        print(*rows(count), sep="\n", flush=True)


if __name__ == "__main__":
    main()
