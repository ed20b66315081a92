"""Subgraphs of a graph are files beside it, which come before built-in ones of their type."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import calculators
from graph_runtime import REGISTRY, GraphError
from servers.serving.graph_source import GraphSource

GRAPH = """
input_stream: "in"
output_stream: "out"
node { calculator: "%s" input_stream: "in" output_stream: "out" }
"""
INNER = """
type: "%s"
input_stream: "a"
output_stream: "c"
node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b" }
node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "c" }
"""


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    calculators.register_all(REGISTRY)


def nodes_of(folder: Path, kind: str) -> int:
    (folder / "graph.pbtxt").write_text(GRAPH % kind, encoding="utf-8")
    return len(GraphSource(str(folder / "graph.pbtxt"), REGISTRY).validate().nodes)


@pytest.mark.parametrize("place", ["", "subgraphs"])
@pytest.mark.parametrize("kind", ["Twice", "FlowLimiterCalculator", "FaceDetectionShortRange"])
def test_the_authors_file_wins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str, kind: str
) -> None:
    caplog.set_level(logging.INFO, logger="servers.serving.graph_source")
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "mine.pbtxt").write_text(INNER % kind, encoding="utf-8")
    assert nodes_of(tmp_path, kind) == 2
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (kind != "Twice")
    assert all(f'"{kind}"' in each and "mine.pbtxt" in each for each in said)


def test_a_file_of_a_built_ins_name_must_declare_it(tmp_path: Path) -> None:
    inner = (INNER % "x").replace('type: "x"', "")
    (tmp_path / "PassThroughCalculator.pbtxt").write_text(inner, encoding="utf-8")
    assert nodes_of(tmp_path, "PassThroughCalculator") == 1
    (tmp_path / "Twice.pbtxt").write_text(inner, encoding="utf-8")
    assert nodes_of(tmp_path, "Twice") == 2


def test_a_type_that_other_files_only_mention_is_not_theirs(tmp_path: Path) -> None:
    (tmp_path / "other.pbtxt").write_text('# type: "PassThroughCalculator"\nnode {', "utf-8")
    with pytest.raises(GraphError, match="other"):
        nodes_of(tmp_path, "PassThroughCalculator")
    (tmp_path / "other.pbtxt").write_text(INNER % "Other" + '# type: "Twice"', encoding="utf-8")
    assert nodes_of(tmp_path, "PassThroughCalculator") == 1


def test_the_files_beside_a_graph_come_first(tmp_path: Path) -> None:
    (tmp_path / "subgraphs").mkdir()
    (tmp_path / "subgraphs" / "a.pbtxt").write_text(INNER % "Twice", encoding="utf-8")
    once = INNER % "Twice"
    once = once.replace('output_stream: "b" }', 'output_stream: "c" }', 1)
    once = once[: once.rindex("node")]
    (tmp_path / "z.pbtxt").write_text(once, encoding="utf-8")
    assert nodes_of(tmp_path, "Twice") == 1


def test_folders_in_the_folder_of_subgraphs_are_searched(tmp_path: Path) -> None:
    deep = tmp_path / "subgraphs" / "hands" / "left"
    deep.mkdir(parents=True)
    (deep / "twice.pbtxt").write_text(INNER % "Twice", encoding="utf-8")
    (tmp_path / "subgraphs" / "outer.pbtxt").write_text(
        (INNER % "Outer").replace("PassThroughCalculator", "Twice"), encoding="utf-8"
    )
    assert nodes_of(tmp_path, "Outer") == 4


def test_a_file_among_subgraphs_needs_no_type_to_replace_a_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "subgraphs").mkdir()
    inner = (INNER % "x").replace('type: "x"', "")
    (tmp_path / "subgraphs" / "FlowLimiterCalculator.pbtxt").write_text(inner, encoding="utf-8")
    assert nodes_of(tmp_path, "FlowLimiterCalculator") == 2


def test_two_files_of_one_type_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for place in ("a", "b"):
        (tmp_path / "subgraphs" / place).mkdir(parents=True)
        (tmp_path / "subgraphs" / place / "twice.pbtxt").write_text(INNER % "Twice", "utf-8")
    (tmp_path / "subgraphs" / "c.pbtxt").write_text('type: "Twice" node {', encoding="utf-8")
    assert nodes_of(tmp_path, "Twice") == 2
    (said,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "a/twice.pbtxt; not used: " in said
    assert said.endswith("b/twice.pbtxt")
