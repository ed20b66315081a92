"""``python_path`` of a config that is served: calculators of all graphs, and of each its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.servers.cli.serving import ECHO, Serving

NODES = '''\
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class {name}(Calculator):
    """Answers every request."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, '"{text}"')
'''


def make_graph(folder: Path, name: str, calculator: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "graph.pbtxt").write_text(ECHO.replace("Echo", calculator))


def answer(server: Serving, model: str) -> tuple[int, str]:
    with server.request("POST", "/v3/x", {"model": model}) as response:
        return response.status, response.read().decode()


def test_calculators_of_all_graphs_and_of_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_graph(tmp_path, name, "Own")
        (tmp_path / name / "nodes.py").write_text(NODES.format(name="Own", text=f"own of {name}"))
    make_graph(tmp_path, "c", "Shared")
    (tmp_path / "nodes.py").write_text(NODES.format(name="Shared", text="shared"))
    (tmp_path / "config.json").write_text(
        """{"python_path": "nodes.py", "mediapipe_config_list": [
            {"name": "a", "python_path": "a"},
            {"name": "b", "python_path": ["b/nodes.py"]},
            {"name": "c"}
        ]}"""
    )
    with Serving(tmp_path, "config.json", calculators=()) as server:
        server.wait_until_serving()
        assert answer(server, "a") == (200, '"own of a"')
        assert answer(server, "b") == (200, '"own of b"')
        assert answer(server, "c") == (200, '"shared"')


def test_what_cannot_be_imported_fails_the_graphs_that_need_it(tmp_path: Path) -> None:
    make_graph(tmp_path, "well", "Own")
    make_graph(tmp_path, "ill", "Shared")
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "own.py").write_text(NODES.format(name="Own", text="well"))
    (tmp_path / "nodes" / "shared.py").write_text("import this_is_not_there\n")
    (tmp_path / "config.json").write_text(
        """{"python_path": "nodes", "mediapipe_config_list": [{"name": "well"}, {"name": "ill"}]}"""
    )
    with Serving(tmp_path, "config.json", calculators=()) as server:
        line = server.wait_for("cannot be imported")
        reason = "ModuleNotFoundError: No module named 'this_is_not_there'"
        assert line.rstrip().endswith(f"nodes/shared.py:1: {reason}")
        server.wait_until_serving()
        assert answer(server, "well") == (200, '"well"')
        status, text = answer(server, "ill")
        assert status == 503
        assert f"(modules that failed to import: shared.py: line 1: {reason})" in text
        statuses: Any = server.get("/v1/config")[1]
        message = statuses["ill"]["model_version_status"][0]["status"]["error_message"]
        assert reason in message
        assert str(tmp_path) not in message
