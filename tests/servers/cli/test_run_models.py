"""`graphrt run` on graphs with models of OpenVINO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.calculators.tensors.openvino.graphs import session_and_inference
from tests.calculators.tensors.openvino.tiny_models import matmul_model, save
from tests.servers.cli.process import graphrt, lines, packets


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A graph, and beside it the model that it names."""
    save(matmul_model(), tmp_path / "matmul" / "1" / "model.xml")
    path = tmp_path / "graph.pbtxt"
    path.write_text(session_and_inference("matmul", ["X:rows"], ["Y:products"]), encoding="utf-8")
    return path


def line(time: int, value: Any, kind: str = "ndarray<float32>") -> str:
    return json.dumps({"stream": "rows", "ts": time, "value": {"type": kind, "value": value}})


def test_the_model_beside_the_graph_is_run(graph: Path) -> None:
    feed = "\n".join([line(0, [[1, 0]]), line(5, [[0, 1], [0.5, 0.5]])])
    done = graphrt("run", graph, "--feed", "-", feed=feed)
    assert (done.returncode, done.stderr) == (0, "")
    assert packets(done.stdout, "products") == [(0, [[1, 2, 3]]), (5, [[4, 5, 6], [2.5, 3.5, 4.5]])]
    assert lines(done.stdout)[-1]["value"]["repr"] == '<Model "matmul" version 1>'


def test_a_tensor_that_does_not_fit_is_told_by_name(graph: Path) -> None:
    done = graphrt("run", graph, "--feed", "-", feed=line(0, [[1, 2, 3]]))
    assert done.returncode == 1
    assert 'tensor "X": the shape is [1,3], [?,2] is expected' in done.stderr


def test_a_model_that_is_not_there_is_told(graph: Path) -> None:
    graph.write_text(graph.read_text().replace('"matmul"', '"matmull"'), encoding="utf-8")
    done = graphrt("run", graph)
    assert done.returncode == 1
    assert 'there is no model "matmull"' in done.stderr
    assert 'Did you mean "matmul"?' in done.stderr


def test_the_graph_is_described_and_valid_without_its_model(graph: Path, tmp_path: Path) -> None:
    (tmp_path / "matmul" / "1" / "model.xml").unlink()
    assert graphrt("validate", graph).returncode == 0
    assert "OpenVINOInferenceCalculator" in graphrt("describe", graph).stdout
