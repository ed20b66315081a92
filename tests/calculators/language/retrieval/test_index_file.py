"""The index: written whole or not at all, and refused by name when it cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calculators.language.retrieval.index_file import (
    IndexFile,
    IndexFileError,
    IndexMeta,
    ModelIdentity,
    Vectors,
)
from calculators.language.retrieval.indexing import IndexWriter
from calculators.language.retrieval.passages import Passage, PassageSize

META = IndexMeta(ModelIdentity("tiny", "digest", "MEAN"), 4, PassageSize())


def unit(count: int, seed: int = 0, size: int = 4) -> Vectors:
    made = np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def put(writer: IndexWriter, path: str, digest: str, texts: Sequence[str], seed: int = 0) -> None:
    passages = [Passage(1 + place, f"{path}: title", text) for place, text in enumerate(texts)]
    writer.put([(path, digest)], [passages], unit(len(texts), seed))


def made(out: Path, **files: Sequence[str]) -> Path:
    with IndexWriter(out, META) as writer:
        for seed, (path, texts) in enumerate(files.items()):
            put(writer, path, f"digest of {path}", texts, seed)
        writer.finish()
    return out


def texts_of(out: Path) -> list[str]:
    with closing(IndexFile(out, out.name)) as index:
        ids, _ = index.vectors()
        return [each.text for each in index.passages((int(number), 0.0) for number in ids)]


def refusal(out: Path) -> str:
    with pytest.raises(IndexFileError) as caught:
        IndexFile(out, out.name).vectors()
    return str(caught.value)


def changed(out: Path, statement: str) -> None:
    with closing(sqlite3.connect(out)) as connection, connection:
        connection.execute(statement)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one", "two"], b=["three"], c=[])
    with closing(IndexFile(out, "docs.db")) as index:
        assert (index.count, index.meta) == (3, META)
        ids, vectors = index.vectors()
        np.testing.assert_array_equal(vectors, np.concatenate([unit(2, 0), unit(1, 1)]))
        (found,) = index.passages([(int(ids[2]), 0.75)])
        assert found == ("b", 1, "b: title", "three", 0.75)
    assert os.listdir(tmp_path) == ["docs.db"]


def test_an_index_that_is_replaced_stays_readable(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    with closing(IndexFile(out, "docs.db")) as index:
        with IndexWriter(out, META) as writer:
            put(writer, "a", "another digest", ["changed"])
            writer.finish()
        ((number,), _) = index.vectors()
        assert [each.text for each in index.passages([(int(number), 0)])] == ["one"]
    assert texts_of(out) == ["changed"]


def test_an_interrupted_run_leaves_the_old_index_and_is_continued(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    with IndexWriter(out, META) as writer:
        assert writer.kept == {"a": "digest of a"}
        put(writer, "b", "digest of b", ["two"])
    assert texts_of(out) == ["one"]
    with IndexWriter(out, META) as writer:
        assert set(writer.kept) == {"a", "b"}
        assert writer.keep_only({"b"}) == 1
        assert writer.finish() == 1
    assert texts_of(out) == ["two"]


@pytest.mark.parametrize(
    "other",
    [
        replace(META, model=ModelIdentity("tiny", "another", "MEAN")),
        replace(META, model=ModelIdentity("tiny", "digest", "CLS")),
        replace(META, size=PassageSize(10, 20)),
        replace(META, dimension=8),
    ],
)
def test_nothing_is_kept_of_another_model_or_size(tmp_path: Path, other: IndexMeta) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    with IndexWriter(out, META) as writer:
        put(writer, "b", "digest of b", ["two"])
    with IndexWriter(out, other) as writer:
        assert writer.kept == {}


def test_a_second_run_at_the_same_time_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "docs.db"
    with IndexWriter(out, META) as writer:
        with pytest.raises(IndexFileError, match=r'another run of .* writes "docs\.db\.part"'):
            IndexWriter(out, META)
        put(writer, "a", "digest", ["one"])
        writer.finish()
    assert texts_of(out) == ["one"]


def test_an_index_without_passages_is_not_made(tmp_path: Path) -> None:
    with (
        IndexWriter(tmp_path / "docs.db", META) as writer,
        pytest.raises(IndexFileError, match="there is no text in these files"),
    ):
        writer.finish()
    assert not (tmp_path / "docs.db").exists()


def test_a_failed_write_leaves_nothing_of_its_files(tmp_path: Path) -> None:
    out = tmp_path / "docs.db"
    with IndexWriter(out, META) as writer:
        put(writer, "a", "digest", ["one"])
        with pytest.raises(StopIteration):  # a vector is missing
            writer.put([("b", "digest")], [[Passage(1, "", "two")]], unit(0))
        writer.finish()
    assert texts_of(out) == ["one"]


def test_damage_of_the_part_costs_a_new_start_only(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    (tmp_path / "docs.db.part").write_bytes(b"garbage" * 1000)
    with IndexWriter(out, META) as writer:
        assert set(writer.kept) == {"a"}
    out.write_bytes(b"garbage")
    (tmp_path / "docs.db.part").write_bytes(b"garbage" * 1000)
    with IndexWriter(out, META) as writer:
        assert writer.kept == {}


def test_a_missing_index_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    assert refusal(tmp_path / "docs.db") == (
        'there is no index "docs.db": `graphrt index FILES --model DIR --out docs.db` makes it'
    )


def test_a_half_written_index_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "docs.db"
    with IndexWriter(out, META) as writer:
        put(writer, "a", "digest", ["one"])
    shutil.move(tmp_path / "docs.db.part", out)
    assert refusal(out) == '"docs.db" is half-written: run `graphrt index` again'


def test_an_index_of_another_version_is_refused(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    changed(out, "UPDATE meta SET value = '7' WHERE name = 'schema'")
    assert "has version 7 of the index, and this graphrt reads 1" in refusal(out)


@pytest.mark.parametrize("content", [b"", b"Hello", b"SQLite format 3\0" + b"x" * 5000])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "docs.db"
    out.write_bytes(content)
    assert refusal(out).startswith(('"docs.db" is not an index', '"docs.db" is damaged'))
    out.unlink()
    changed(out, "CREATE TABLE meta (name, value)")
    assert refusal(out).startswith('"docs.db" is not an index')
    out.unlink()
    out.mkdir()
    assert refusal(out).startswith('"docs.db" cannot be read')


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    out = made(tmp_path / "docs.db", a=["text " * 200] * 50)
    content = out.read_bytes()
    out.write_bytes(content[: int(share * len(content))])
    assert refusal(out) == '"docs.db" is damaged: run `graphrt index` again'


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE passages SET vector = x'00' WHERE id = 1",
        "UPDATE passages SET vector = x'0000c07f0000c07f0000c07f0000c07f' WHERE id = 1",
        "DELETE FROM meta WHERE name = 'dimension'",
        "UPDATE meta SET value = 'x' WHERE name = 'overlap'",
    ],
)
def test_damaged_rows_are_refused(tmp_path: Path, statement: str) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    changed(out, statement)
    assert refusal(out) == '"docs.db" is damaged: run `graphrt index` again'


def test_an_index_that_lost_its_passages_is_refused(tmp_path: Path) -> None:
    out = made(tmp_path / "docs.db", a=["one"])
    changed(out, "DELETE FROM passages")
    assert refusal(out) == '"docs.db" has no passages: run `graphrt index` again'


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match=r'"docs.db.part" cannot be written'):
        IndexWriter(tmp_path / "missing" / "docs.db", META)
