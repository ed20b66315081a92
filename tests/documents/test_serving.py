"""docs/serving.md, docs/kserve.md and docs/operating.md: their commands, run on real servers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.snippets import GRPC_PORT, asked, run_python, run_shell, served
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands, text_of

SERVING = "docs/serving.md"
KSERVE = "docs/kserve.md"
OPERATING = "docs/operating.md"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture(scope="module")
def demo() -> Iterator[Serving]:
    with served("graphrt serve examples/config.json") as server:
        yield server


@pytest.fixture(scope="module")
def flowers() -> Iterator[Serving]:
    command = commands(KSERVE, "examples/graphs/flowers")[0]
    with served(command) as server:
        yield server


@pytest.mark.parametrize(("number", "name"), [(1, "demo"), (2, "mine")])
def test_each_command_serves_its_models(number: int, name: str) -> None:
    with served(commands(SERVING, "examples/config.json")[number]) as server:
        status, models = server.get("/v3/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, [name])


def test_the_first_command_serves_the_demo(demo: Serving) -> None:
    assert commands(SERVING, "examples/config.json")[0] == "graphrt serve examples/config.json"
    status, models = demo.get("/v3/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, ["demo"])


@needs_curl
def test_a_chat_with_a_picture_is_answered() -> None:
    serve, *ask = commands(SERVING, "red_circle.png")
    with served(serve) as server:
        answer = json.loads(asked("\n".join(ask), server))
    assert "circle" in answer["choices"][0]["message"]["content"]


def test_a_models_text_is_parsed(tmp_path: Path) -> None:
    (command,) = commands(SERVING, "parse-output")
    expected = block(SERVING, "console", "parse-output").split("\n", 1)[1]
    assert run_shell(command, tmp_path) == expected


def test_a_language_graph_is_tried_at_the_command_line() -> None:
    (command,) = commands(SERVING, "graphrt run examples/models/demo")
    assert run_shell(command, ROOT).strip()


def test_every_command_of_the_table_exists() -> None:
    rows = re.findall(r"^\| `graphrt ([a-z-]+)", text_of(SERVING), re.M)
    help_text = run_shell("graphrt --help", ROOT)
    assert len(rows) >= 12
    assert [row for row in rows if not re.search(rf"^\s+{row}\b", help_text, re.M)] == []


@needs_curl
def test_a_tensor_is_answered_over_rest(flowers: Serving) -> None:
    ask = commands(KSERVE, "examples/graphs/flowers")[1]
    (output,) = json.loads(asked(ask, flowers))["outputs"]
    assert output["name"] == "probabilities"
    assert max(range(3), key=output["data"].__getitem__) == 2


def test_a_tensor_is_answered_over_grpc(flowers: Serving, tmp_path: Path) -> None:
    found = re.search(r"grpc://127\.0\.0\.1:(\d+)", "".join(flowers.log))
    assert found is not None
    program = block(KSERVE, "python", "tritonclient").replace(GRPC_PORT, found[1])
    (tmp_path / "flowers.py").write_text(program, encoding="utf-8")
    assert run_python("flowers.py", tmp_path).startswith("[[")


@needs_curl
def test_text_is_answered_as_a_tensor(demo: Serving) -> None:
    (command,) = commands(KSERVE, "demo/generate")
    assert json.loads(asked(command, demo))["text_output"]


@needs_curl
def test_a_chat_is_sampled(demo: Serving) -> None:
    (command,) = commands("docs/tutorials/socket_to_engine.md", "min_p")
    answer = json.loads(asked(command, demo))
    assert answer["choices"][0]["message"]["content"].strip()


@needs_curl
def test_a_reload_without_changes_reports_the_models(demo: Serving) -> None:
    (command,) = commands(OPERATING, "config/reload")
    assert json.loads(asked(command, demo)).keys() == {"demo"}
