"""`graphrt describe`: text, JSON and pictures of a graph."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.servers.cli.process import graphrt

DESCRIBE = ["describe", "graph.pbtxt", "--calculators", "calcs.py"]

LOOP = """\
num_threads: 3
input_stream: "IN:number"
output_stream: "OUT:four"
node {
  name: "twice"
  calculator: "Twice"
  input_stream: "IN:number"
  output_stream: "OUT:four"
}
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:number"
  input_stream: "LOOP:four"
  input_stream_info { tag_index: "LOOP" back_edge: true }
  output_stream: "PREV_LOOP:previous"
}
node {
  calculator: "Counter"
  input_side_packet: "LIMIT:limit"
  output_stream: "count"
}
"""
TWICE = """\
type: "Twice"
input_stream: "IN:a"
output_stream: "OUT:c"
node { name: "one" calculator: "Double" input_stream: "a" output_stream: "b" }
node { name: "two" calculator: "Double" input_stream: "b" output_stream: "c" }
"""


@pytest.fixture
def loop(place: Path) -> Path:
    (place / "graph.pbtxt").write_text(LOOP)
    (place / "twice.pbtxt").write_text(TWICE)
    return place


def test_the_text_tells_nodes_streams_types_and_back_edges(loop: Path) -> None:
    done = graphrt(*DESCRIBE, cwd=loop)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for part in (
        "graph.pbtxt: 3 nodes, 4 streams",
        "IN:number int",
        "limit int",
        "(default) ThreadPoolExecutor 3 threads",
        "twice (Twice, subgraph)",
        "Counter (Counter, source)",
        "LOOP:four (int) [back edge]",
        "four int twice -> PreviousLoopbackCalculator",
        "number int (graph) -> twice, PreviousLoopbackCalculator",
        "count int Counter -> (nobody)",
    ):
        assert part in text


def test_expanded_subgraphs_show_their_nodes(loop: Path) -> None:
    done = graphrt(*DESCRIBE, "--expand", cwd=loop)
    assert "graph.pbtxt: 4 nodes, 5 streams" in done.stdout
    assert "in subgraph twice (Twice):" in done.stdout
    assert "twice__b" in done.stdout
    folded = graphrt(*DESCRIBE, "--fold", cwd=loop)
    assert "twice__b" not in folded.stdout


def test_json_has_it_all(loop: Path) -> None:
    graph = json.loads(graphrt(*DESCRIBE, "--format", "json", "--expand", cwd=loop).stdout)
    assert graph["is_valid"] is True
    assert graph["groups"] == [{"path": ["twice"], "type": "Twice"}]
    nodes = {node["name"]: node for node in graph["nodes"]}
    assert nodes["one"]["group"] == ["twice"]
    assert nodes["Counter"]["kind"] == "source"
    (loop_port,) = [
        port for port in nodes["PreviousLoopbackCalculator"]["inputs"] if port["is_back_edge"]
    ]
    assert (loop_port["tag"], loop_port["name"], loop_port["type"]) == ("LOOP", "four", "int")
    streams = {stream["name"]: stream for stream in graph["streams"]}
    assert streams["twice__b"] == {
        "name": "twice__b",
        "type": "int",
        "producer": "twice/one",
        "is_graph_input": False,
        "consumers": ["twice/two"],
    }
    assert graph["input_side_packets"] == [{"name": "limit", "type": "int", "is_optional": False}]


def test_mermaid_dashes_the_back_edge_and_frames_the_subgraph(loop: Path) -> None:
    done = graphrt(*DESCRIBE, "--format", "mermaid", "--expand", cwd=loop)
    assert done.stdout.startswith("flowchart TD\n")
    assert 'subgraph g0["twice (Twice)"]' in done.stdout
    assert '-.->|"four: int"|' in done.stdout
    assert '==>|"limit: int"|' in done.stdout


def test_dot_dashes_the_back_edge_and_frames_the_subgraph(loop: Path) -> None:
    done = graphrt(*DESCRIBE, "--format", "dot", "--expand", cwd=loop)
    assert done.stdout.startswith('digraph "graph.pbtxt" {')
    assert "subgraph cluster_0 {" in done.stdout
    assert 'label="four: int", style=dashed' in done.stdout


def test_svg_is_xml_with_every_node(loop: Path) -> None:
    done = graphrt(*DESCRIBE, "--format", "svg", "--expand", cwd=loop)
    root = ElementTree.fromstring(done.stdout)
    nodes = {each.get("data-node") for each in root.iter() if each.get("data-node")}
    assert nodes == {"twice/one", "twice/two", "PreviousLoopbackCalculator", "Counter"}


@pytest.mark.parametrize("form", ["text", "json", "mermaid", "dot", "svg"])
def test_a_graph_that_cannot_run_is_drawn_all_the_same(loop: Path, form: str) -> None:
    (loop / "graph.pbtxt").write_text(LOOP.replace("Counter", "Nowhere"))
    done = graphrt(*DESCRIBE, "--format", form, cwd=loop)
    assert done.returncode == 1
    assert "Nowhere" in done.stdout
    assert "error: graph.pbtxt:17:1: No registered object with name: Nowhere" in done.stderr


def test_names_that_break_the_grammar_are_shown_as_they_are(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """node { calculator: "Double" input_stream: "Bad name" output_stream: "A:0:x"
               input_stream_info { tag_index: "?" back_edge: true } }"""
    )
    done = graphrt(*DESCRIBE, "--expand", cwd=place)
    assert done.returncode == 1
    assert "Bad name" in done.stdout


def test_a_graph_that_does_not_parse_is_an_error(place: Path) -> None:
    (place / "graph.pbtxt").write_text("node {")
    done = graphrt(*DESCRIBE, cwd=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "graph.pbtxt:1:" in done.stderr


def test_single_subgraphs_are_opened_by_the_names_of_their_nodes(loop: Path) -> None:
    done = graphrt(*DESCRIBE, "--format", "svg", "--open", "twice", "--theme", "dark", cwd=loop)
    assert 'data-group="twice"' in done.stdout
    assert "prefers-color-scheme" not in done.stdout
    done = graphrt(*DESCRIBE, "--format", "svg", "--open", "other", "--direction", "down", cwd=loop)
    assert (done.returncode, "data-group" in done.stdout) == (0, False)
