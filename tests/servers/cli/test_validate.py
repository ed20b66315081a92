"""`graphrt validate`: every error of every file, with its place."""

from __future__ import annotations

import json
from pathlib import Path

from graph_runtime import graph_to_binary, parse_graph_text
from tests.servers.cli.process import graphrt

VALIDATE = ["validate", "--calculators", "calcs.py"]


def test_a_good_graph_is_ok(place: Path) -> None:
    done = graphrt(*VALIDATE, "graph.pbtxt", cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "graph.pbtxt: ok (1 node)\n", "")


def test_a_binary_graph_is_checked_too(place: Path) -> None:
    config = parse_graph_text((place / "graph.pbtxt").read_text())
    (place / "graph.binarypb").write_bytes(graph_to_binary(config))
    done = graphrt(*VALIDATE, "graph.binarypb", cwd=place)
    assert (done.returncode, done.stdout) == (0, "graph.binarypb: ok (1 node)\n")
    del config.node[0].input_stream[:]
    (place / "bad.binarypb").write_bytes(graph_to_binary(config))
    done = graphrt(*VALIDATE, "bad.binarypb", cwd=place)
    assert done.returncode == 1
    assert done.stderr.startswith("bad.binarypb: error: Double::GetContract failed")


def test_every_error_of_a_file_is_reported_with_line_and_node(place: Path) -> None:
    (place / "bad.pbtxt").write_text(
        """input_stream: "number"
node { calculator: "Dubble" input_stream: "number" output_stream: "a" }
node {
  name: "second"
  calculator: "Double"
  input_stream: "numbr"
  output_stream: "b"
}
node { calculator: "Double" input_stream: "number" output_stream: "NotAName" }
"""
    )
    done = graphrt(*VALIDATE, "bad.pbtxt", cwd=place)
    assert (done.returncode, done.stdout) == (1, "")
    starts = [line for line in done.stderr.splitlines() if line.startswith("bad.pbtxt")]
    assert [line.split(": error: ")[0] for line in starts] == [
        "bad.pbtxt:2:20",
        "bad.pbtxt:6:17",
        "bad.pbtxt:9:67",
    ]
    assert 'Did you mean "Double"?' in starts[0]
    assert 'Did you mean "number"?' in starts[1]
    assert 'node "second"' in starts[1]
    assert '"NotAName" does not match' in done.stderr
    assert "hint: calculators of your own are loaded with" in done.stderr


def test_a_text_that_does_not_parse(place: Path) -> None:
    (place / "bad.pbtxt").write_text('node { calculatr: "x" }')
    done = graphrt(*VALIDATE, "bad.pbtxt", cwd=place)
    assert done.returncode == 1
    assert done.stderr.startswith("bad.pbtxt:1:8: error: ")
    assert 'hint: Did you mean "calculator"?' in done.stderr


def test_all_files_are_checked_although_one_fails(place: Path) -> None:
    (place / "bad.pbtxt").write_text("node {")
    (place / "empty").mkdir()
    done = graphrt(*VALIDATE, "none.pbtxt", "bad.pbtxt", "graph.pbtxt", ".", "empty", cwd=place)
    assert (done.returncode, done.stdout) == (1, "graph.pbtxt: ok (1 node)\n" * 2)
    assert "none.pbtxt: error: no such file" in done.stderr
    assert "bad.pbtxt:1:" in done.stderr
    assert "empty/graph.pbtxt: error: no such file" in done.stderr


def test_a_warning_does_not_fail(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "number"
        node { calculator: "Double" input_stream: "number" output_stream: "doubled"
               input_stream_info { tag_index: ":0" back_edge: true } }"""
    )
    done = graphrt(*VALIDATE, "graph.pbtxt", cwd=place)
    assert (done.returncode, done.stdout) == (0, "graph.pbtxt: ok (1 node)\n")
    assert 'warning: node "Double": back_edge of input stream "number" is not needed' in done.stderr


def test_findings_as_json(place: Path) -> None:
    (place / "bad.pbtxt").write_text('\nnode { name: "x" calculator: "Dubble" }')
    done = graphrt(*VALIDATE, "--format", "json", "graph.pbtxt", "bad.pbtxt", cwd=place)
    assert (done.returncode, done.stderr) == (1, "")
    good, bad = json.loads(done.stdout)
    assert good == {"file": "graph.pbtxt", "valid": True, "content": "1 node", "findings": []}
    assert bad["valid"] is False
    (finding,) = bad["findings"]
    assert finding["severity"] == "error"
    assert (finding["line"], finding["column"], finding["node"]) == (2, 30, "x")
    assert (finding["end_line"], finding["end_column"]) == (2, 38)
    assert finding["field"] == "node.calculator"


def test_subgraphs_beside_the_graph_are_found_by_their_type(place: Path) -> None:
    (place / "four.pbtxt").write_text(
        """type: "TimesFour" input_stream: "IN:a" output_stream: "OUT:c"
        node { calculator: "TimesTwo" input_stream: "IN:a" output_stream: "OUT:b" }
        node { calculator: "TimesTwo" input_stream: "IN:b" output_stream: "OUT:c" }"""
    )
    (place / "two.pbtxt").write_text(
        """type: 'TimesTwo' input_stream: "IN:a" output_stream: "OUT:b"
        node { calculator: "Double" input_stream: "a" output_stream: "b" }"""
    )
    (place / "broken.pbtxt").write_text('type: "Other" node {')
    (place / "use.pbtxt").write_text(
        """input_stream: "x" output_stream: "y"
        node { calculator: "TimesFour" input_stream: "IN:x" output_stream: "OUT:y" }"""
    )
    done = graphrt(*VALIDATE, "use.pbtxt", cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "use.pbtxt: ok (2 nodes)\n", "")


def test_a_broken_subgraph_beside_the_graph_is_named_where_it_is_needed(place: Path) -> None:
    (place / "sub.pbtxt").write_text('type: "Sub"\nnode {')
    (place / "use.pbtxt").write_text('node { calculator: "Sub" }')
    done = graphrt(*VALIDATE, "use.pbtxt", cwd=place)
    assert done.returncode == 1
    assert "sub.pbtxt:2:" in done.stderr


def test_subgraphs_from_elsewhere_are_given_by_file(place: Path) -> None:
    (place / "lib").mkdir()
    text = """input_stream: "IN:a" output_stream: "OUT:b"
        node { calculator: "Double" input_stream: "a" output_stream: "b" }"""
    (place / "lib" / "typed.pbtxt").write_text('type: "Typed"' + text)
    (place / "lib" / "Untyped.pbtxt").write_text(text)
    (place / "use.pbtxt").write_text(
        """input_stream: "x" output_stream: "z"
        node { calculator: "Typed" input_stream: "IN:x" output_stream: "OUT:y" }
        node { calculator: "Untyped" input_stream: "IN:y" output_stream: "OUT:z" }"""
    )
    given = ["--subgraph", "lib/typed.pbtxt", "--subgraph", "lib/Untyped.pbtxt"]
    done = graphrt(*VALIDATE, "use.pbtxt", *given, cwd=place)
    assert (done.returncode, done.stdout) == (0, "use.pbtxt: ok (2 nodes)\n")
    done = graphrt(*VALIDATE, "use.pbtxt", "--subgraph", "lib/none.pbtxt", cwd=place)
    assert (done.returncode, done.stderr) == (1, "error: lib/none.pbtxt: no such file\n")
