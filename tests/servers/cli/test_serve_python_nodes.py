"""`graphrt serve` on graphs with Python nodes: failures, and clients that go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calculators.tensors.python.test_http_payloads import GRAPH
from tests.servers.cli.serving import Serving

CHAT = "/v3/chat/completions"

HANDLER = """
class OvmsPythonModel:
    def execute(self, inputs):
        request = inputs[0].parsed_json
        if "pipe" in request:
            return self.forever(request["pipe"])
        raise OSError("no weights in /srv/models/tiny/weights.bin\\nand more")

    def forever(self, pipe):
        try:
            while True:
                yield {"more": True}
        finally:
            with open(pipe, "w") as file:
                file.write("closed")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    """Two graphs: "node" works as above, "broken" cannot be loaded."""
    for name, text in (("node", HANDLER), ("broken", "import no_such_module_here")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.pbtxt").write_text(GRAPH)
        (tmp_path / name / "model.py").write_text(text)
    (tmp_path / "config.json").write_text(
        '{"model_config_list": [], "mediapipe_config_list": [{"name": "node"}, {"name": "broken"}]}'
    )
    with Serving(tmp_path, "config.json", calculators=()) as serving:
        yield serving.wait_until_serving()


def test_a_handler_that_raises_is_a_500_with_its_first_line(server: Serving) -> None:
    with server.request("POST", CHAT, {"model": "node"}) as response:
        assert response.status == 500
        error = json.loads(response.read())["error"]
    assert error["message"] == ('the handler of node "node" failed: OSError: no weights in <path>')
    assert (error["type"], error["code"]) == ("server_error", "internal_error")


def test_a_handler_that_cannot_be_loaded_stops_no_other_graph(server: Serving) -> None:
    shown = "".join(server.log)
    assert 'handler_path "model.py": line 1: ModuleNotFoundError: No module named' in shown
    with server.request("POST", CHAT, {"model": "broken"}) as response:
        assert response.status == 503
    with server.request("POST", CHAT, {"model": "node"}) as response:
        assert response.status == 500


def test_a_client_that_goes_closes_the_generator(server: Serving, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    body = {"model": "node", "stream": True, "pipe": str(pipe)}
    with server.request("POST", CHAT, body) as response:
        assert response.readline() == b'data: {"more": true}\n'
    # Opening it waits until the generator opens it too.
    assert pipe.read_text() == "closed"
