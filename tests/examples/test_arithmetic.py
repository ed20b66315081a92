"""`examples/graphs/arithmetic`, served: tensors, a parameter, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

CONFIG = "examples/graphs/arithmetic/config.json"
MODEL = "/v2/models/arithmetic"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, CONFIG, calculators=()) as serving:
        yield serving.wait_until_serving()


def numbers(name: str, data: list[float], datatype: str = "FP32") -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": [len(data)], "data": data}


def infer(server: Serving, *inputs: dict[str, Any], **members: Any) -> tuple[int, Any]:
    body = {"parameters": {"weight": 0.5}, "inputs": inputs, **members}
    with server.request("POST", f"{MODEL}/infer", body) as response:
        return response.status, json.loads(response.read())


def test_the_commands_of_the_comment_work() -> None:
    text = (ROOT / CONFIG).with_name("graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {CONFIG}\n" in text


def test_the_config_is_valid() -> None:
    done = graphrt("validate", CONFIG, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{CONFIG}: ok (1 graph)\n", "")


def test_the_metadata_describe_the_tensors(server: Serving) -> None:
    status, metadata = server.get(MODEL)
    assert status == 200
    told = [(each["name"], each["datatype"]) for each in metadata["inputs"] + metadata["outputs"]]
    assert told == [("left", "FP32"), ("right", "FP32"), ("sum", "FP32"), ("largest", "FP64")]


def test_the_request_of_the_comment_is_answered(server: Serving) -> None:
    status, answer = infer(server, numbers("left", [1, 2]), numbers("right", [10, 20]), id="7")
    assert (status, answer["id"], answer["model_version"]) == (200, "7", "1")
    outputs = {each["name"]: each for each in answer["outputs"]}
    assert outputs["sum"]["data"] == [6.0, 12.0]
    assert (outputs["largest"]["shape"], outputs["largest"]["data"]) == ([1], [12.0])


def test_one_output_can_be_requested(server: Serving) -> None:
    inputs = numbers("left", [1, 2]), numbers("right", [10, 20])
    status, answer = infer(server, *inputs, outputs=[{"name": "largest"}])
    assert (status, [each["name"] for each in answer["outputs"]]) == (200, ["largest"])


@pytest.mark.parametrize(
    ("inputs", "members", "said"),
    [
        ([numbers("left", [1])], {}, 'needs the input "right"'),
        ([numbers("left", [1], "FP64"), numbers("right", [1])], {}, 'input "left": FP32 is'),
        ([numbers("left", [1]), numbers("right", [1, 2])], {}, "left has the shape (1,)"),
        ([numbers("left", []), numbers("right", [])], {}, "no largest element of nothing"),
        ([numbers("left", [1]), numbers("right", [1])], {"parameters": {}}, '"weight" is missing'),
        (
            [numbers("left", [1]), numbers("right", [1])],
            {"parameters": {"weight": "much"}},
            'the parameter "weight" is string; the graph needs float',
        ),
    ],
)
def test_wrong_requests_are_refused(
    server: Serving, inputs: list[dict[str, Any]], members: dict[str, Any], said: str
) -> None:
    status, answer = infer(server, *inputs, **members)
    assert status == 400
    assert said in answer["error"]
