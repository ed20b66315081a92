"""Every example graph, run through the command line, gives what its file of expectations says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.servers.cli.process import graphrt

GRAPHS = ROOT / "examples" / "graphs"
NAMES = sorted(path.name.removesuffix(".feed.jsonl") for path in GRAPHS.glob("*.feed.jsonl"))
#: Used by other graphs only.
SUBGRAPHS = {"moving_average": "smooth_twice.py"}


def calculators_of(name: str) -> list[str]:
    module = SUBGRAPHS.get(name, f"{name}.py")
    return ["--calculators", module] if (GRAPHS / module).exists() else []


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_does_what_it_says(name: str) -> None:
    done = graphrt(
        "run", f"{name}.pbtxt", *calculators_of(name), "--feed", f"{name}.feed.jsonl", cwd=GRAPHS
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (GRAPHS / f"{name}.expected.jsonl").read_text(encoding="utf-8")


def test_every_graph_is_run_or_used() -> None:
    graphs = {path.stem for path in GRAPHS.glob("*.pbtxt")}
    assert graphs == {*NAMES, *SUBGRAPHS}


@pytest.mark.parametrize("name", [*NAMES, *SUBGRAPHS])
def test_the_graph_is_valid(name: str) -> None:
    done = graphrt("validate", f"{name}.pbtxt", *calculators_of(name), cwd=GRAPHS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_the_comment_tells_the_command_that_runs_it(name: str) -> None:
    command = " ".join(
        ["graphrt run", f"{name}.pbtxt", *calculators_of(name), "--feed", f"{name}.feed.jsonl"]
    )
    text = (GRAPHS / f"{name}.pbtxt").read_text(encoding="utf-8")
    assert f"#   {command}\n" in text


@pytest.mark.parametrize("name", [*NAMES, *SUBGRAPHS])
def test_the_table_lists_the_graph(name: str) -> None:
    assert f"({name}.pbtxt)" in (GRAPHS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.pbtxt")), ids=lambda path: path.stem)
def test_every_stream_of_the_graph_has_a_comment(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines):
        if line.startswith(("input_stream:", "output_stream:")):
            above = lines[place - 1]
            assert above.startswith(("#", "input_stream:", "output_stream:")), line
