"""The README: its example is served and asked, then each of the three paths is followed."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calculators.kit.tasks import Task, installed_tasks
from tests.calculators.images.image_generation import image_models
from tests.calculators.speech.text_to_speech import tone_model
from tests.documents.snippets import ADDRESS, asked, run_shell, served
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands, text_of
from tests.support.patience import PATIENCE

README = "README.md"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """Serve `examples/config.json` as `make serve` does."""
    with served("graphrt serve examples/config.json") as server:
        yield server


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) < 140


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("make serve", "graphrt serve examples/config.json --rest_port 8000"),
        ("make test", "pytest"),
    ],
)
def test_its_two_make_commands_exist(command: str, expected: str) -> None:
    assert commands(README, command) == [command]
    done = subprocess.run(
        ["make", "--dry-run", command.removeprefix("make ")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in done.stdout


def test_the_demo_is_served_from_anywhere(tmp_path: Path) -> None:
    # tests/release/test_wheel.py installs the wheel first.
    install, serve = commands(README, "pip install graphrt")
    assert install == "pip install graphrt"
    with served(serve, tmp_path) as server:
        status, models = server.get("/v3/models")
    assert (status, [model["id"] for model in models["data"]]) == (200, ["demo"])


@needs_curl
def test_the_curl_command_is_answered(server: Serving) -> None:
    (command,) = commands(README, "curl")
    answer = json.loads(asked(command, server))
    assert answer["model"] == "demo"
    assert answer["choices"][0]["message"]["content"].strip()
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_the_openai_client_streams_an_answer(server: Serving) -> None:
    script = block(README, "python", "from openai import OpenAI")
    done = subprocess.run(
        [sys.executable, "-c", script.replace(ADDRESS, f"http://127.0.0.1:{server.port}")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 3
    assert "graph" in done.stdout


def test_a_model_can_be_served_by_its_folder_and_talked_to(tmp_path: Path) -> None:
    _, command, chat = commands(README, "--model_name")
    assert run_shell(f"echo Hello | {chat}", tmp_path).strip()
    with served(command) as server:
        status, models = server.get("/v3/models")
    assert status == 200
    assert [model["id"] for model in models["data"]] == ["mine"]


def test_the_lines_of_the_table_serve_their_tasks(tmp_path: Path) -> None:
    lines = {task.name: _row(task).rsplit("`", 2)[1] for task in installed_tasks()}
    models = {shlex.split(line)[-1]: task for task, line in lines.items()}
    assert lines == {task: f"graphrt serve {model}" for model, task in models.items()}
    tone_model.make_model(tmp_path / "speech" / "speaker")
    image_models.make_model(tmp_path / "models" / "images")
    (command,) = commands(README, "docs_embedder")[:1]
    further = models.keys() - set(shlex.split(command))
    assert further == {"speech/speaker", "models/images"}
    with served(shlex.join([*shlex.split(command), *further]), tmp_path) as server:
        assert _tasks(server) == {Path(model).name: task for model, task in models.items()}
        body = {"model": "docs_embedder", "input": ["a graph", "a model"]}
        with server.request("POST", "/v1/embeddings", body) as reply:
            assert len(json.load(reply)["data"]) == 2
        documents = ["A calculator has ports.", "A server listens."]
        ranked = {"model": "docs_ranker", "query": "ports of a calculator", "documents": documents}
        with server.request("POST", "/v3/rerank", ranked) as reply:
            assert json.load(reply)["results"][0]["index"] == 0


def test_the_guard_is_served_as_its_page_says() -> None:
    (command,) = commands(README, "examples/graphs/guard")
    assert [command] == commands("docs/language_nodes.md", "examples/graphs/guard")


def _tasks(server: Serving) -> dict[str, str]:
    status, models = server.get("/v3/models")
    assert status == 200
    return {model["id"]: model["task"] for model in models["data"]}


@pytest.mark.parametrize("task", [task for task in installed_tasks() if not task.is_default])
def test_the_table_of_tasks_names_each(task: Task) -> None:
    assert f"`{task.endpoints[0].path.removeprefix('/')}`" in _row(task)


def _row(task: Task) -> str:
    """Return the row of a task in the table."""
    page = "docs/serving.md" if task.is_default else task.docs
    return next(line for line in text_of(README).splitlines() if f"]({page}) |" in line)


def test_a_configuration_can_be_checked(tmp_path: Path) -> None:
    (command,) = commands(README, "validate")
    expected = block(README, "console", "validate").split("\n", 1)[1]
    assert run_shell(command, tmp_path) == expected
    assert shlex.split(command)[:2] == ["graphrt", "validate"]
