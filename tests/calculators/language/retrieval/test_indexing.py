"""Files become an index with a real embedding model; a second run embeds only what has changed."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.language.retrieval.index_file import IndexFile, IndexFileError, embedder_options
from calculators.language.retrieval.indexing import Indexed, IndexingProgress, build_index
from calculators.language.retrieval.passages import DocumentError, find_documents
from calculators.text.embeddings.servable import Embedded, EmbeddingsServable
from graph_runtime import ResourceError
from tests.calculators.text.embeddings.tiny_embedder import MAX_TOKENS, expected, make_model, tokens
from tests.support.patience import PATIENCE


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, in_process_engine: None) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny", pooling="mean_tokens")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents; their names are relative to this directory."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.md").write_text("# Cats\n\nCats sleep on mats.\n")
    (tmp_path / "docs" / "dogs.txt").write_text("Dogs run.\r\n\r\nThey bark.\r\n")
    (tmp_path / "README.md").write_text("\ufeffHello, reader.\n")
    return tmp_path


def built(
    folder: Path, model: Path, *names: str, progress: list[IndexingProgress] | None = None
) -> Indexed:
    documents = find_documents(
        [str(folder / name) for name in names or ("docs", "README.md")], folder
    )
    reports = (lambda _: None) if progress is None else progress.append
    building = build_index(
        documents, folder / "docs.db", embedder_options(str(model), Path()), reports=reports
    )
    return asyncio.run(asyncio.wait_for(building, PATIENCE))


def contents(folder: Path) -> dict[tuple[str, int], str]:
    """Return the passages of the index by path and line; check their vectors."""
    with closing(IndexFile(folder / "docs.db", "docs.db")) as index:
        ids, vectors = index.vectors()
        found = index.passages((int(number), 0.0) for number in ids)
    for passage, vector in zip(found, vectors, strict=True):
        embedded = f"{passage.title}\n{passage.text}" if passage.title else passage.text
        np.testing.assert_allclose(vector, expected(embedded, "MEAN"), atol=1e-4)
    return {(each.path, each.line): each.text for each in found}


def test_files_and_directories_are_indexed(folder: Path, model: Path) -> None:
    progress: list[IndexingProgress] = []
    assert built(folder, model, progress=progress) == Indexed(3, 3, 0, 0)
    assert contents(folder) == {
        ("docs/cats.md", 1): "# Cats\n\nCats sleep on mats.",
        ("docs/dogs.txt", 1): "Dogs run.\n\nThey bark.",
        ("README.md", 1): "Hello, reader.",
    }
    assert progress[0] == IndexingProgress(0, 3, 0)
    assert progress[-1] == IndexingProgress(3, 3, 3)


def test_passages_fit_into_the_model(folder: Path, model: Path) -> None:
    text = "\n".join(f"Line {number} is about the thing." for number in range(60))
    (folder / "long.md").write_text(text)
    built(folder, model, "long.md")
    found = contents(folder)
    assert len(found) > 5
    for (_, line), each in found.items():
        assert MAX_TOKENS / 3 <= len(tokens(each)) <= MAX_TOKENS
        assert each.split("\n")[0] == text.split("\n")[line - 1]
    assert set("\n".join(found.values()).split("\n")) == set(text.split("\n"))


def test_only_what_has_changed_is_embedded_again(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(folder, model)
    embedded: list[str] = []
    embed = EmbeddingsServable.embed

    async def counted(self: EmbeddingsServable, texts: Any, **kwargs: Any) -> Embedded:
        embedded.extend(texts)
        return await embed(self, texts, **kwargs)

    monkeypatch.setattr(EmbeddingsServable, "embed", counted)
    assert built(folder, model) == Indexed(3, 0, 3, 0)
    (folder / "docs" / "cats.md").write_text("Cats purr.\n")
    (folder / "docs" / "dogs.txt").unlink()
    assert built(folder, model) == Indexed(2, 1, 1, 1)
    assert [text for text in embedded if text != "dimension"] == ["Cats purr."]
    assert contents(folder) == {
        ("docs/cats.md", 1): "Cats purr.",
        ("README.md", 1): "Hello, reader.",
    }


def test_another_model_begins_anew(folder: Path, model: Path, tmp_path: Path) -> None:
    built(folder, model)
    other = make_model(tmp_path / "other", pooling="mean_tokens", added=2.0)
    # The weights are in the model's operations; real models differ in their weights.
    (other / "openvino_model.bin").write_bytes((other / "openvino_model.bin").read_bytes() + b" ")
    assert built(folder, other) == Indexed(3, 3, 0, 0)


def test_a_run_that_ends_in_the_middle_is_continued(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calculators.language.retrieval.indexing._AT_A_TIME", 1)
    (folder / "docs" / "elks.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentError, match=r'"docs/elks.txt" is not text in UTF-8 \(byte 0\)'):
        built(folder, model)
    assert sorted(os.listdir(folder)) == ["README.md", "docs", "docs.db.part"]
    (folder / "docs" / "elks.txt").write_text("Elks walk.")
    assert built(folder, model) == Indexed(4, 2, 2, 0)
    assert len(contents(folder)) == 4
    assert "docs.db.part" not in os.listdir(folder)


def test_files_without_text_are_refused_together_only(folder: Path, model: Path) -> None:
    (folder / "empty.md").write_text("\n \n")
    with pytest.raises(IndexFileError, match="there is no text in these files"):
        built(folder, model, "empty.md")
    assert built(folder, model, "empty.md", "README.md") == Indexed(1, 1, 1, 0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.md", "no such file or directory"),
        ("nothing", "has no files with the endings .md, .markdown, .rst, .txt"),
        ("zeros.md", "is not text: convert it first"),
    ],
)
def test_files_that_cannot_be_indexed_are_named(
    folder: Path, model: Path, name: str, reason: str
) -> None:
    (folder / "nothing" / ".hidden").mkdir(parents=True)
    (folder / "nothing" / ".hidden" / "a.md").write_text("a")
    (folder / "nothing" / "a.png").write_text("a")
    (folder / "zeros.md").write_bytes(b"a\0b")
    with pytest.raises(DocumentError, match=reason) as caught:
        built(folder, model, name)
    assert name in str(caught.value)


def test_sources_are_relative_to_the_root(folder: Path) -> None:
    names = [str(folder / "docs"), str(folder / "README.md"), str(folder / "docs" / "cats.md")]
    found = [each.path for each in find_documents(names, folder / "docs")]
    assert found == ["cats.md", "dogs.txt", (folder / "README.md").as_posix()]


def test_a_directory_without_a_model_is_refused(folder: Path) -> None:
    with pytest.raises(ResourceError, match=r"has no openvino_model\.xml"):
        embedder_options(str(folder), Path())


def test_the_prompt_of_passages_leaves_less_room(folder: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "prompts", pooling="mean_tokens")
    options = replace(
        embedder_options(str(model), Path()), prompts={"passage": "a passage about things: "}
    )
    text = "\n".join(f"Line {number}." for number in range(40))
    (folder / "long.md").write_text(text)
    documents = find_documents([str(folder / "long.md")], folder)
    asyncio.run(asyncio.wait_for(build_index(documents, folder / "docs.db", options), PATIENCE))
    with closing(IndexFile(folder / "docs.db", "docs.db")) as index:
        ids, vectors = index.vectors()
        for passage, vector in zip(
            index.passages((int(number), 0.0) for number in ids), vectors, strict=True
        ):
            prompted = "a passage about things: " + passage.text
            assert len(tokens(prompted)) <= MAX_TOKENS
            np.testing.assert_allclose(vector, expected(prompted, "MEAN"), atol=1e-4)


def test_a_large_index_reports_the_making_of_its_search(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("usearch", reason="the extra `retrieval` is not installed")
    monkeypatch.setattr("calculators.language.retrieval.indexing.MOST_EXACT", 2)
    progress: list[IndexingProgress] = []
    assert built(folder, model, progress=progress).passages == 3
    assert [each.makes_search for each in progress][-2:] == [False, True]
    assert (folder / "docs.db.usearch").is_file()
