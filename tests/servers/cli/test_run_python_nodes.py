"""`graphrt run` on graphs with Python nodes: handlers are loaded as a server does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calculators.tensors.python.running import GENERATIVE
from tests.calculators.tensors.python.test_generators import WORDS
from tests.servers.cli.process import graphrt, lines

FEED = '{"stream": "text", "ts": 0, "value": "a b"}\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "graph.pbtxt").write_text(GENERATIVE)
    return tmp_path


def test_a_handler_runs_beside_its_graph(site: Path) -> None:
    (site / "node" / "model.py").write_text("print('loaded')\n" + WORDS)
    done = graphrt("run", "node/graph.pbtxt", "--feed", "-", cwd=site, feed=FEED)
    assert done.returncode == 0, done.stderr
    packets = [(line["stream"], line["ts"], line["value"]) for line in lines(done.stdout)]
    assert packets == [("uppercase", 0, [ord("A")]), ("uppercase", 1, [ord("B")])]


def test_a_handler_that_cannot_be_loaded_is_told(site: Path) -> None:
    done = graphrt("run", "node/graph.pbtxt", "--feed", "-", cwd=site, feed=FEED)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'node/graph.pbtxt: node "node": handler_path "model.py": no such file' in done.stderr


def test_a_handler_that_raises_fails_the_line(site: Path) -> None:
    handler = WORDS.replace("for word in", "raise ValueError('not today')\n        for word in")
    (site / "node" / "model.py").write_text(handler)
    done = graphrt("run", "node/graph.pbtxt", "--feed", "-", cwd=site, feed=FEED)
    assert done.returncode == 1
    assert 'the handler of node "node" failed: ValueError: not today' in done.stderr
