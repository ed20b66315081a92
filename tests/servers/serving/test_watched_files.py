"""Files of a graph, and which changes of them count."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import calculators
from graph_runtime import REGISTRY, Registry
from servers.config import GraphEntry, find_graph
from servers.serving.watched_files import WatchedFiles, files_around, files_of, source_of
from tests.servers.serving.served_graphs import http_graph, make_registry, write_graph

HANDLER = """
node {
  name: "NAME" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "IN:input" output_stream: "OUT:NAME"
  node_options {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] { handler_path: "PATH" }
  }
}
"""


@pytest.fixture
def registry() -> Registry:
    calculators.register_all(REGISTRY)
    return make_registry()


def handler(name: str, path: str) -> str:
    return HANDLER.replace("NAME", name).replace("PATH", path)


def test_a_graphs_subgraphs_and_handlers_are_watched(tmp_path: Path, registry: Registry) -> None:
    inner = 'input_stream: "input" output_stream: "deep"' + handler("deep", "deep.py")
    outer = (
        'input_stream: "input" node { calculator: "Inner" input_stream: "input" '
        'output_stream: "x" }' + handler("near", "near.py") + handler("far", "/srv/far.py")
    )
    entry = write_graph(tmp_path, "g", outer)
    (entry.directory / "inner.pbtxt").write_text(f'type: "Inner" {inner}')
    (entry.directory / "other.pbtxt").write_text(f'type: "Other" {inner}')
    found = files_of(entry, source_of(entry, registry))
    assert set(found.files) == {
        entry.directory / "graph.pbtxt",
        entry.directory / "inner.pbtxt",
        entry.directory / "near.py",
        entry.directory / "deep.py",
        Path("/srv/far.py"),
    }


def test_a_generated_graph_has_only_modules(tmp_path: Path, registry: Registry) -> None:
    entry = GraphEntry(
        "g", tmp_path, tmp_path / "graph.pbtxt", tmp_path / "subconfig.json", "node {}", (tmp_path,)
    )
    shared = (tmp_path / "shared.py",)
    assert files_of(entry, source_of(entry, registry), shared) == WatchedFiles(
        folders=(*shared, tmp_path)
    )


def test_a_graph_that_does_not_parse_has_only_its_file(tmp_path: Path, registry: Registry) -> None:
    entry = write_graph(tmp_path, "g", "node {")
    assert files_of(entry, source_of(entry, registry)).files == (entry.graph_path,)
    gone = find_graph(tmp_path / "gone")
    assert files_of(gone, source_of(gone, registry)).files == (gone.graph_path,)


def test_the_content_decides_and_not_the_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    files = WatchedFiles((path,))
    before, status = files.digest(), path.stat()
    os.utime(path, ns=(0, 0))
    assert files.digest() == before
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert files.digest() != before
    path.unlink()
    gone = files.digest()
    assert gone != before
    path.mkdir()
    assert files.digest() != gone
    path.rmdir()
    path.write_text("one")
    assert files.digest() == before


def test_modules_may_come_go_and_change_however_deep_they_lie(tmp_path: Path) -> None:
    package = tmp_path / "modules" / "package"
    package.mkdir(parents=True)
    files = WatchedFiles(folders=(tmp_path / "modules", tmp_path / "one.py"))
    seen = [files.digest()]
    for path in (package / "deep.py", tmp_path / "modules" / "near.py", tmp_path / "one.py"):
        path.write_text("")
        seen.append(files.digest())
        path.write_text("x = 1")
        seen.append(files.digest())
    (package / "deep.py").rename(package / "other.py")
    seen.append(files.digest())
    assert len(set(seen)) == len(seen)
    (package / "data.txt").write_text("no module")
    assert files.digest() == seen[-1]


def test_files_of_other_graphs_in_the_folder_do_not_count(
    tmp_path: Path, registry: Registry
) -> None:
    entry = write_graph(tmp_path, "g", http_graph("Ecko"))
    files = files_of(entry, source_of(entry, registry))
    around = files_around(entry, files)
    before = files.digest(), around.digest()
    (entry.directory / "ecko.pbtxt").write_text('type: "Ecko"')
    assert files.digest() == before[0]
    assert around.digest() != before[1]


def test_a_module_beside_a_handler_belongs_to_its_graph(tmp_path: Path, registry: Registry) -> None:
    text = 'input_stream: "input" output_stream: "n"' + handler("n", "code/model.py")
    entry = write_graph(tmp_path, "g", text)
    code = entry.directory / "code"
    (code / "package").mkdir(parents=True)
    files = files_of(entry, source_of(entry, registry))
    seen = [files.digest()]
    for path in ("model.py", "near.py", "package/__init__.py", "package/deep.py"):
        (code / path).write_text("")
        seen.append(files.digest())
    assert len({*seen}) == len(seen)
    shutil.rmtree(code)
    assert files.digest() == seen[0]
