"""`examples/graphs/sensor`, served: a stream of requests, by tritonclient in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

CONFIG = "examples/graphs/sensor/config.json"

#: Sends the requests in its argument, and prints one line for each answer until the stream ends.
CLIENT = """
import json
import sys
from functools import partial

import numpy as np
import tritonclient.grpc as triton

def show(result, error):
    if error is not None:
        print(json.dumps(["error", str(error)]), flush=True)
        return
    response = result.get_response()
    (output,) = response.outputs
    time = response.parameters["OVMS_MP_TIMESTAMP"].int64_param
    values = result.as_numpy(output.name).tolist()
    print(json.dumps([response.id, time, output.name, values]), flush=True)

def tensor(name, value):
    made = triton.InferInput(name, [1], "FP64")
    made.set_data_from_numpy(np.array([value]))
    return made

with triton.InferenceServerClient(sys.argv[1]) as client:
    client.start_stream(callback=show)
    for request_id, time, inputs in json.loads(sys.argv[2]):
        parameters = {} if time is None else {"OVMS_MP_TIMESTAMP": time}
        tensors = [tensor(*each) for each in inputs.items()]
        client.async_stream_infer("sensor", tensors, request_id=request_id, parameters=parameters)
    client.stop_stream()
"""


@pytest.fixture(scope="module")
def answers() -> list[list[Any]]:
    """Return the answers to a stream of requests."""
    requests: list[tuple[str, int | None, dict[str, float]]] = [
        ("both", 10, {"temperature": 300.0, "pressure": 86115.0}),
        ("warmer", 20, {"temperature": 400.0}),
        ("press", 20, {"pressure": 114820.0}),
        ("late", 15, {"temperature": 1.0}),
        ("alone", 30, {"temperature": 200.0}),
        ("wrong", 40, {"humidity": 1.0}),
        ("next", None, {"temperature": 100.0, "pressure": 28705.0}),
    ]
    with Serving(ROOT, CONFIG, "--port", "auto", calculators=()) as server:
        address = server.wait_for("graphrt serves grpc://").partition("//")[2].strip()
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, address, json.dumps(requests)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / CONFIG).with_name("graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {CONFIG} --port 9000\n" in text


def test_the_config_is_valid() -> None:
    done = graphrt("validate", CONFIG, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{CONFIG}: ok (1 graph)\n", "")


def test_each_temperature_has_an_average_at_its_timestamp(answers: list[list[Any]]) -> None:
    found = [(time, values) for _, time, name, values in told(answers) if name == "average"]
    assert found == [(10, [300.0]), (20, [350.0]), (30, [300.0]), (31, [250.0])]


def test_each_timestamp_with_both_inputs_has_a_density(answers: list[list[Any]]) -> None:
    found = [(time, values) for _, time, name, values in told(answers) if name == "density"]
    assert found == [(10, [pytest.approx(1)]), (20, [pytest.approx(1)]), (31, [pytest.approx(1)])]


def test_answers_have_the_ids_of_their_requests(answers: list[list[Any]]) -> None:
    densities = [each for each, _, name, _ in told(answers) if name == "density"]
    assert densities == ["both", "press", "next"]


def test_wrong_requests_fail_alone(answers: list[list[Any]]) -> None:
    errors = [each[1] for each in answers if each[0] == "error"]
    assert len(errors) == 2
    assert "the timestamp 15 is not after 20" in errors[0]
    assert 'no input "humidity"' in errors[1]


def told(answers: list[list[Any]]) -> list[list[Any]]:
    return [each for each in answers if each[0] != "error"]
