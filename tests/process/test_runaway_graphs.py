"""Graphs that never end are cut off at the request's time limit, and disturb no other request.

For nodes that never return to the event loop, see `tests.process.test_held_up`.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE

_CALCULATORS: Final = '''\
import asyncio
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator("tests.ForEver")
class ForEver(Calculator):
    """Feeds itself, and sends an event each time."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[int]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[int]("LOOPBACK")
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        at = 0 if cc.is_empty(self.again) else cc.get(self.again) + 1
        if at % 1000 == 0:
            cc.emit(self.response, f"data: {at}\\n\\n", at=at)
        cc.emit(self.loopback, at, at=at)


@calculator("tests.Never")
class Never(Calculator):
    """Waits for what does not come."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.Event().wait()


@calculator("tests.Stuck")
class Stuck(Calculator):
    """Reads a named pipe in a thread, until somebody writes to it."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        Path(cc.get(self.request).parsed_json["pipe"]).read_text()


@calculator("tests.Source")
class Source(Calculator):
    """Always has more packets, whether or not a request waits for them."""

    number = Out[int]()

    def process(self, cc: CalculatorContext) -> None:
        self.at = getattr(self, "at", -1) + 1
        cc.emit(self.number, self.at, at=self.at)


@calculator("tests.Echo")
class Echo(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, cc.get(self.request).body)
'''
_STREAMS: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
_PLAIN: Final = """\
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
_LOOP: Final = (
    _PLAIN
    + """\
  input_stream: "LOOPBACK:loop"
  output_stream: "LOOPBACK:loop"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
"""
)
_HANDLER: Final = """\
import itertools


class OvmsPythonModel:
    def execute(self, inputs):
        if inputs[0].parsed_json.get("is_brief"):
            return "brief"
        for _ in itertools.count():
            pass
"""
_GRAPHS: Final = {
    "for_ever": f'node {{ calculator: "tests.ForEver"\n{_LOOP}}}\n',
    "never": f'node {{ calculator: "tests.Never"\n{_PLAIN}}}\n',
    "source": 'node { calculator: "tests.Source" output_stream: "numbers" }\n'
    f'node {{ calculator: "tests.Never"\n{_PLAIN}}}\n',
    "handler": f"""\
node {{
  name: "py" calculator: "PythonExecutorCalculator" input_side_packet: "PYTHON_NODE_RESOURCES:py"
{_PLAIN}
  node_options {{
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] {{ handler_path: "handler.py" }}
  }}
}}
""",
    "stuck": 'executor { name: "pool" type: "ThreadPoolExecutor" options { '
    "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }\n"
    f'node {{ name: "reader" calculator: "tests.Stuck" executor: "pool"\n{_PLAIN}}}\n',
    "echo": f'node {{ calculator: "tests.Echo"\n{_PLAIN}}}\n',
}
_RUNAWAYS: Final = ("for_ever", "never", "source", "handler")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    place = tmp_path_factory.mktemp("runaways")
    (place / "runaways.py").write_text(_CALCULATORS)
    for name, nodes in _GRAPHS.items():
        (place / name).mkdir()
        (place / name / "graph.pbtxt").write_text(_STREAMS + nodes)
    (place / "handler" / "handler.py").write_text(_HANDLER)
    graphs = [{"name": name} for name in _GRAPHS]
    config = place / "config.json"
    config.write_text(json.dumps({"python_path": "runaways.py", "mediapipe_config_list": graphs}))
    with ServerProcess(config) as running:
        yield running


def ask(server: ServerProcess, model: str, seconds: float, **members: object) -> tuple[int, bytes]:
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    ) as connection:
        headers = {"Content-Type": "application/json", "X-Request-Timeout": str(seconds)}
        body = json.dumps({"model": model, "stream": model == "for_ever", **members})
        connection.request("POST", CHAT, body, headers)
        with connection.getresponse() as response:
            return response.status, response.read()


def in_flight(server: ServerProcess, model: str) -> float:
    metrics = server.client.get("/metrics").body.decode().splitlines()
    name = f'ovms_current_graphs{{name="{model}"}} '
    (value,) = (line.removeprefix(name) for line in metrics if line.startswith(name))
    return float(value)


@pytest.mark.parametrize("model", _RUNAWAYS)
def test_a_runaway_graph_is_cut_off_and_leaves_nothing(server: ServerProcess, model: str) -> None:
    status, body = ask(server, model, seconds=3.0)
    if model == "for_ever":  # its stream had begun
        assert status == 200
        *events, error, done = body.decode().rstrip("\n").split("\n\n")
        assert len(events) > 1
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "timeout"
        assert done == "data: [DONE]"
    else:
        assert status == 504
        assert json.loads(body)["error"]["code"] == "timeout"
    wait_until(lambda: in_flight(server, model) == 0, "none in flight")
    assert server.client.post(CHAT, model="echo").status == 200
    wait_until(server.is_ready, "ready")


def test_a_handler_that_was_cut_off_answers_again(server: ServerProcess) -> None:
    assert ask(server, "handler", seconds=0.5)[0] == 504

    def is_back() -> bool:
        return server.client.post(CHAT, model="handler", is_brief=True).status == 200

    wait_until(is_back, "the handler is back")


def test_a_thread_that_does_not_return_is_named_and_its_request_ends(
    server: ServerProcess, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert ask(server, "stuck", seconds=0.5, pipe=str(pipe))[0] == 504
    server.wait_for_log('stuck: a run does not end .* node "reader" has not returned for 5 s')

    def told() -> str:
        (status,) = server.client.get("/v1/config").json["stuck"]["model_version_status"]
        assert status["state"] == "AVAILABLE"
        message: str = status["status"]["error_message"]
        return message

    assert told().startswith('a run that was cancelled does not end: node "reader"')
    assert server.client.post(CHAT, model="echo").status == 200
    pipe.write_text("at last")
    server.wait_for_log("stuck: a run has ended after all")
    assert told() == "OK"


def test_other_requests_are_answered_meanwhile(server: ServerProcess) -> None:
    with server.client.open("POST", CHAT, {"model": "for_ever", "stream": True}) as endless:
        assert endless.readline() == b"data: 0\n"
        for _ in range(20):
            assert server.client.post(CHAT, model="echo").status == 200
    wait_until(lambda: in_flight(server, "for_ever") == 0, "none in flight")
