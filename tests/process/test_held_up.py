"""A node that does not return holds up a server; a log that nobody reads does not."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess

_CALCULATOR = '''\
from pathlib import Path

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator("tests.Reads")
class Reads(Calculator):
    """Reads a named pipe on the event loop, until somebody writes to it."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        pipe = Path(cc.get(self.request).parsed_json["pipe"])
        cc.emit(self.response, pipe.read_text())
'''
_GRAPH = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "reader"
  calculator: "tests.Reads"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def test_the_node_is_named_in_the_log_and_in_the_config(tmp_path: Path) -> None:
    (tmp_path / "graph.pbtxt").write_text(_GRAPH)
    (tmp_path / "reads.py").write_text(_CALCULATOR)
    entry = {"name": "slow", "base_path": ".", "python_path": "reads.py"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"mediapipe_config_list": [entry]}))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ServerProcess(config) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.client.post, CHAT, model="slow", pipe=str(pipe))
        line = server.wait_for_log("the event loop has not turned for 5 s")
        assert 'held by node "reader" of graph "slow"' in line.string
        server.wait_for_log("in process")  # the stack is logged
        pipe.write_text("at last")
        assert asked.result().body == b"at last"
        status = server.client.get("/v1/config").json["slow"]["model_version_status"][0]
        assert status["state"] == "AVAILABLE"
        assert status["status"]["error_code"] == "OK"
        told = status["status"]["error_message"]
        assert told.startswith('its node "reader" held up the whole server for ')
        assert server.is_ready()


def test_a_log_that_nobody_reads_holds_up_no_request() -> None:
    requests = 1_000  # lines of more bytes than a pipe and its reader hold
    with ServerProcess("demo") as server:
        with server.unread_log():
            for number in range(requests):
                headers = {"X-Request-Id": f"{number:0128}"}
                assert server.client.ask("GET", "/v1/config", headers=headers).status == 200
        server.wait_for_log(f"request_id={requests - 1:0128}")
