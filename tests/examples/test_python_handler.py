"""`examples/graphs/python_handler`, served: a handler of OpenVINO Model Server behind KServe."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/python_handler"


def infer(server: Serving, shape: list[int], data: list[float]) -> tuple[int, Any]:
    scores = {"name": "scores", "datatype": "FP32", "shape": shape, "data": data}
    body = {"inputs": [scores]}
    with server.request("POST", "/v2/models/python_handler/infer", body) as response:
        return response.status, json.loads(response.read())


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER}\n" in text


def test_the_graph_is_valid() -> None:
    done = graphrt("validate", f"{FOLDER}/graph.pbtxt", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_scores_become_probabilities_and_labels(server: Serving) -> None:
    status, answer = infer(server, [2, 3], [0.5, 2.5, 1.0, 7.0, 7.0, 9.0])
    assert status == 200
    outputs = {each["name"]: each for each in answer["outputs"]}
    labels, probabilities = outputs["labels"], outputs["probabilities"]
    assert (labels["datatype"], labels["shape"]) == ("BYTES", [2])
    assert labels["data"] == ["banana", "cherry"]
    assert (probabilities["datatype"], probabilities["shape"]) == ("FP32", [2, 3])
    assert probabilities["data"][:3] == pytest.approx([0.0996, 0.7361, 0.1643], abs=1e-4)
    assert sum(probabilities["data"]) == pytest.approx(2)


def test_an_exception_of_the_handler_is_reported(server: Serving) -> None:
    status, answer = infer(server, [1, 2], [1.0, 2.0])
    assert status == 500
    assert "ValueError: scores have the shape (1, 2), not (n, 3)" in json.dumps(answer)
    assert infer(server, [1, 3], [1.0, 2.0, 0.0])[0] == 200
