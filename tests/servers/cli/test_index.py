"""`graphrt index`: documents in, an index out, and errors that say what would help."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from calculators.language.retrieval.index_file import IndexFile
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

MODEL = ROOT / "examples" / "models" / "docs_embedder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "start.md").write_text("# Start\n\nBegin with the graph.\n")
    (tmp_path / "notes.txt").write_text("Streams are ordered.\n")
    return tmp_path


def test_documents_become_an_index(folder: Path) -> None:
    done = graphrt("index", "guide", "notes.txt", "--model", MODEL, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "docs.db: 2 passages; 2 new or changed files, 0 unchanged\n"
    with closing(IndexFile(folder / "docs.db", "docs.db")) as index:
        assert index.meta.model.name == "docs_embedder"
        assert {each.path for each in index.passages([(1, 0), (2, 0)])} == {
            "guide/start.md",
            "notes.txt",
        }
    again = graphrt("index", "guide", "--model", MODEL, "--out", "docs.db", cwd=folder)
    assert again.stdout == ("docs.db: 1 passages; 0 new or changed files, 1 unchanged, 1 removed\n")


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (
            ("notes.txt",),
            2,
            "which embedding model is to be used?\nhint: graphrt index notes.txt --model DIR",
        ),
        (("missing.md", "--model", str(MODEL)), 1, '"missing.md": no such file or directory'),
        (("notes.txt", "--model", "guide"), 1, '--model: "guide" has no openvino_model.xml'),
        (("notes.txt", "--model", str(MODEL), "--out", "guide"), 2, "--out guide is a directory"),
        (("notes.txt", "--model", str(MODEL), "--out", "no/a.db"), 1, "no such directory"),
        (("notes.txt", "--model", str(MODEL), "--pooling", "MAX"), 2, "CLS, LAST, MEAN"),
    ],
)
def test_errors_say_what_would_help(
    folder: Path, words: tuple[str, ...], status: int, reason: str
) -> None:
    done = graphrt("index", *words, cwd=folder)
    assert (done.returncode, done.stdout) == (status, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
