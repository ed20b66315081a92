"""`graphrt validate config.json`: the config and the graphs that it names, without any model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import make_site

VALIDATE = ["validate", "--calculators", "calcs.py"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    make_site(tmp_path)
    return tmp_path


def test_a_good_config_is_ok(site: Path) -> None:
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert (done.returncode, done.stdout, done.stderr) == (0, "config.json: ok (2 graphs)\n", "")


def test_errors_in_the_graphs_are_errors_of_the_config(site: Path) -> None:
    (site / "echo" / "graph.pbtxt").write_text('\nnode { calculator: "Ecko" }')
    (site / "stream" / "graph.pbtxt").unlink()
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert (done.returncode, done.stdout) == (1, "")
    assert "echo/graph.pbtxt:2:1: error: " in done.stderr
    assert "stream/graph.pbtxt: error: no such file" in done.stderr


def test_findings_stand_file_by_file_and_by_line(site: Path) -> None:
    (site / "config.json").write_text(
        '{"mediapipe_config_list": [\n{"name": "echo"},\n\n{"name": "echo"},\n{"name": "stream"}]}'
    )
    for name in ("echo", "stream"):
        (site / name / "graph.pbtxt").write_text('node { calculator: "A" }\nnode {calculator: "B"}')
    done = graphrt(*VALIDATE, "--format", "json", "config.json", cwd=site)
    (result,) = json.loads(done.stdout)
    assert [(finding["file"], finding["line"]) for finding in result["findings"]] == [
        ("config.json", 4),
        ("echo/graph.pbtxt", 1),
        ("echo/graph.pbtxt", 2),
        ("stream/graph.pbtxt", 1),
        ("stream/graph.pbtxt", 2),
    ]


def test_errors_of_the_config_itself_have_their_line(site: Path) -> None:
    (site / "config.json").write_text('{\n"mediapipe_config_list": [{"nam": "echo"}]}')
    done = graphrt(*VALIDATE, "config.json", cwd=site)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "config.json:2:28: error: mediapipe_config_list[0].nam: unknown key",
        'hint: did you mean "name"?',
        'config.json:2:27: error: mediapipe_config_list[0]: the key "name" is missing',
    ]


def test_the_comment_of_the_graph_queue_is_checked(site: Path) -> None:
    graph = site / "echo" / "graph.pbtxt"
    graph.write_text("# made by a tool\n  # OVMS_GRAPH_QUEUE_MAX_SIZE: many\n" + graph.read_text())
    done = graphrt(*VALIDATE, "config.json", "echo/graph.pbtxt", cwd=site)
    assert done.returncode == 1
    message = (
        "echo/graph.pbtxt:2:32: error: OVMS_GRAPH_QUEUE_MAX_SIZE is many; a whole number from 0 "
        "on, or AUTO, is needed"
    )
    assert done.stderr.splitlines() == [message, message]


NODES = """\
from graph_runtime import calculator

@calculator
def Own(text: str) -> str:
    return text
"""
OWN = 'input_stream: "in" node { calculator: "Own" input_stream: "in" output_stream: "out" }'


def test_calculators_of_the_python_path_are_known(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "graph.pbtxt").write_text(OWN)
    (tmp_path / "nodes.py").write_text(NODES)
    for text in (
        '{"python_path": "nodes.py", "mediapipe_config_list": [{"name": "own"}]}',
        '{"mediapipe_config_list": [{"name": "own", "python_path": ["nodes.py"]}]}',
    ):
        (tmp_path / "config.json").write_text(text)
        done = graphrt("validate", "config.json", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "config.json: ok (1 graph)\n"), done.stderr


def test_what_cannot_be_imported_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "graph.pbtxt").write_text(OWN)
    (tmp_path / "nodes.py").write_text(f"print('loading')\n1 / 0\n{NODES}")
    (tmp_path / "config.json").write_text(
        '{"python_path": ["nodes.py", "nothing"], "mediapipe_config_list": [{"name": "own"}]}'
    )
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nodes.py:2: error: ZeroDivisionError: division by zero\n" in done.stderr
    assert "nothing: error: No such file or directory\n" in done.stderr
    assert 'Unable to find Calculator "Own".' in done.stderr


def test_a_python_path_is_one_path_or_several(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"python_path": 7, "mediapipe_config_list": [{"name": "own", "python_path": [""]}]}'
    )
    done = graphrt("validate", "config.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "python_path: a list is needed, not 7" in done.stderr
    assert "mediapipe_config_list[0].python_path[0]: a string that is not empty" in done.stderr
