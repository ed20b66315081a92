"""Every example graph, run by the command line, gives the packets of its expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt, packets
from tests.support.checkout import ROOT

GRAPHS = ROOT / "examples" / "graphs"
NAMES = sorted(path.name.removesuffix(".feed.jsonl") for path in GRAPHS.glob("*.feed.jsonl"))
WAIT = '{"wait_until_idle": true}\n'
#: Used by other graphs only.
SUBGRAPHS = {"moving_average": "smooth_twice.py"}


def calculators_of(name: str) -> list[str]:
    module = SUBGRAPHS.get(name, f"{name}.py")
    return ["--calculators", module] if (GRAPHS / module).exists() else []


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_gives_the_expected_packets(name: str) -> None:
    done = graphrt(
        "run", f"{name}.pbtxt", *calculators_of(name), "--feed", f"{name}.feed.jsonl", cwd=GRAPHS
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (GRAPHS / f"{name}.expected.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "place", "seen"),
    [
        ("join", 1, {"sum": 1}),
        ("join", 2, {"sum": 2}),
        ("flow_limiter", 1, {"result": 0, "is_used": 3}),
        ("flow_limiter", 2, {"result": 1, "is_used": 4}),
    ],
)
def test_packets_are_out_when_the_feed_says_so(name: str, place: int, seen: dict[str, int]) -> None:
    """The feed is cut after its wait number ``place``, and the run cancelled."""
    parts = (GRAPHS / f"{name}.feed.jsonl").read_text(encoding="utf-8").split(WAIT)
    feed = WAIT.join([*parts[:place], '{"cancel": true}\n'])
    command = ["run", f"{name}.pbtxt", *calculators_of(name), "--observe", *seen, "--feed", "-"]
    done = graphrt(*command, cwd=GRAPHS, feed=feed)
    assert "the run was cancelled" in done.stderr
    assert {stream: len(packets(done.stdout, stream)) for stream in seen} == seen


def test_every_graph_is_run_or_used() -> None:
    graphs = {path.stem for path in GRAPHS.glob("*.pbtxt")}
    assert graphs == {*NAMES, *SUBGRAPHS}


@pytest.mark.parametrize("name", [*NAMES, *SUBGRAPHS])
def test_the_graph_is_valid(name: str) -> None:
    done = graphrt("validate", f"{name}.pbtxt", *calculators_of(name), cwd=GRAPHS)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_the_comment_has_the_command_that_runs_the_graph(name: str) -> None:
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
