"""Search among vectors: exact by NumPy, approximate by usearch for large indexes."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from calculators.language.retrieval import indexing, retrieval_calculator
from calculators.language.retrieval.index_file import (
    ApproximateSearch,
    ExactSearch,
    IndexFile,
    IndexMeta,
    ModelIdentity,
    Vectors,
    search_file,
)
from calculators.language.retrieval.indexing import IndexWriter
from calculators.language.retrieval.passages import Passage, PassageSize
from calculators.language.retrieval.retrieval_calculator import make_index_search

SIZE = 32
COUNT = 500
META = IndexMeta(ModelIdentity("tiny", "digest", "MEAN"), SIZE, PassageSize())


def unit(count: int, seed: int) -> Vectors:
    made = np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


VECTORS = unit(COUNT, 0)


def made(out: Path) -> Path:
    passages = [Passage(1 + place, "", f"text {place}") for place in range(COUNT)]
    with IndexWriter(out, META) as writer:
        writer.put([("a", "digest")], [passages], VECTORS)
        writer.finish()
    return out


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexes be large from 100 vectors on."""
    pytest.importorskip("usearch", reason="the extra `retrieval` is not installed")
    monkeypatch.setattr(indexing, "MOST_EXACT", 100)
    monkeypatch.setattr(retrieval_calculator, "MOST_EXACT", 100)


def test_the_nearest_come_first() -> None:
    ids = np.arange(COUNT) * 10
    search = ExactSearch(ids, VECTORS)
    for question in unit(20, 1):
        scores = VECTORS @ question
        best = np.argsort(-scores)[:5]
        found = search.nearest(question, 5)
        assert [number for number, _ in found] == (best * 10).tolist()
        np.testing.assert_allclose([score for _, score in found], scores[best], rtol=1e-6)


def test_fewer_vectors_than_wanted_are_all_found() -> None:
    search = ExactSearch(np.array([5, 3]), VECTORS[:2])
    assert [number for number, _ in search.nearest(VECTORS[1], 10)] == [3, 5]


def test_equal_vectors_are_in_the_order_of_the_index() -> None:
    search = ExactSearch(np.arange(4), np.repeat(VECTORS[:1], 4, axis=0))
    assert [number for number, _ in search.nearest(VECTORS[0], 4)] == [0, 1, 2, 3]


def test_a_small_index_is_searched_exactly(tmp_path: Path) -> None:
    with closing(IndexFile(made(tmp_path / "docs.db"), "docs.db")) as index:
        assert isinstance(make_index_search(index), ExactSearch)
    assert not search_file(tmp_path / "docs.db").exists()


@pytest.mark.usefixtures("large")
def test_a_large_index_has_a_search_file(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["docs.db", "docs.db.usearch"]
    with closing(IndexFile(out, "docs.db")) as index:
        search = make_index_search(index)
        assert isinstance(search, ApproximateSearch)
        exact = ExactSearch(*index.vectors())
        same = 0
        for question in unit(50, 1):
            wanted = dict(exact.nearest(question, 10))
            found = dict(search.nearest(question, 10))
            # Which of them it finds is not certain; their scores are those of the vectors.
            for number in wanted.keys() & found.keys():
                same += 1
                assert abs(found[number] - wanted[number]) < 0.01
        assert same / 500 > 0.95


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage", "another"])
def test_a_search_file_that_does_not_fit_is_made_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    out = made(tmp_path / "docs.db")
    file = search_file(out)
    if damage == "missing":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:1000])
    elif damage == "garbage":
        file.write_bytes(b"garbage" * 100)
    else:
        (tmp_path / "other").mkdir()
        file.write_bytes(search_file(made(tmp_path / "other" / "docs.db")).read_bytes() + b" ")
    with closing(IndexFile(out, "docs.db")) as index, caplog.at_level(logging.WARNING):
        search = make_index_search(index)
        assert isinstance(search, ApproximateSearch)
        ((number, score),) = search.nearest(VECTORS[7], 1)
        assert score > 0.99
        assert index.passages([(number, score)])[0].text == "text 7"
    assert '"docs.db.usearch" does not belong to the index "docs.db"' in caplog.text


@pytest.mark.usefixtures("large")
def test_an_index_that_became_small_loses_its_search_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = made(tmp_path / "docs.db")
    monkeypatch.setattr(indexing, "MOST_EXACT", 10_000)
    with IndexWriter(out, META) as writer:
        writer.finish()
    assert not search_file(out).exists()


def test_without_the_library_a_large_index_is_searched_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(indexing, "has_library", lambda: False)
    monkeypatch.setattr(retrieval_calculator, "has_library", lambda: False)
    monkeypatch.setattr(indexing, "MOST_EXACT", 100)
    monkeypatch.setattr(retrieval_calculator, "MOST_EXACT", 100)
    out = made(tmp_path / "docs.db")
    with closing(IndexFile(out, "docs.db")) as index, caplog.at_level(logging.WARNING):
        assert isinstance(make_index_search(index), ExactSearch)
    assert "pip install 'graphrt[retrieval]'" in caplog.text
