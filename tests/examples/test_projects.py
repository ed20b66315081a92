"""`graphrt init`: each kind of project passes its own tests, is valid, and answers its README."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.cli.arguments import KINDS
from tests.documents.snippets import ADDRESS, run_shell, served
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import commands

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


def answers(kind: str, folder: Path) -> list[str]:
    """Return what the commands of a new project print that ask its server, after all others."""
    if kind == "vision":
        pytest.importorskip("cv2", reason="the extra `images` is not installed")
    name = f"my-{kind.replace('_', '-')}"
    made = graphrt("init", name, "--kind", kind, cwd=folder)
    assert (made.returncode, made.stderr) == (0, "")
    project = folder / name
    readme = str(project / "README.md")
    test, validate, serve = commands(readme, "graphrt serve")
    assert " passed" in run_shell(as_here(test), project)
    assert run_shell(validate, project).startswith("config.json: ok (1 graph")
    ask = "ask.py" if kind == "vision" else "curl"
    with served(serve, project) as server:
        return [asked(command, server, project) for command in commands(readme, ask)]


def as_here(command: str) -> str:
    """Return a command with this interpreter."""
    return command.replace("python ", f"{shlex.quote(sys.executable)} ", 1)


def asked(command: str, server: Serving, project: Path) -> str:
    address = f"http://127.0.0.1:{server.port}"
    if ADDRESS in command:
        return run_shell(command.replace(ADDRESS, address), project)
    return run_shell(f"{as_here(command)} {address}", project)


def outputs(answer: str) -> dict[str, Any]:
    return {each["name"]: each["data"] for each in json.loads(answer)["outputs"]}


def test_a_calculator_answers(tmp_path: Path) -> None:
    (answer,) = answers("calculator", tmp_path)
    assert outputs(answer)["standardized"] == pytest.approx([-1.2247, 0, 1.2247], abs=1e-3)


def test_a_chat_endpoint_answers_whole_and_streamed(tmp_path: Path) -> None:
    whole, stream = answers("chat_endpoint", tmp_path)
    assert json.loads(whole)["choices"][0]["message"]["content"] == "You said: good day"
    assert stream.count("data: ") == 6
    assert stream.endswith("data: [DONE]\n\n")


def test_a_guard_masks_and_refuses_before_the_model(tmp_path: Path) -> None:
    masked, refused = answers("guard", tmp_path)
    assert json.loads(masked)["choices"][0]["message"]["content"].strip()
    assert "ada@" not in masked
    (choice,) = json.loads(refused)["choices"]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["refusal"] == "This server does not answer questions of this kind."


def test_a_retrieval_finds_passages(tmp_path: Path) -> None:
    (answer,) = answers("retrieval", tmp_path)
    found = outputs(answer)
    assert len(found["passages"]) == len(found["scores"]) == 3
    assert "Prometheus" in found["passages"][0]


def test_a_detector_counts_what_it_finds(tmp_path: Path) -> None:
    (answer,) = answers("vision", tmp_path)
    assert answer.splitlines()[-1] == "summary: ['1 circle, 1 square, 1 triangle']"


def test_every_kind_is_tried_here_and_has_its_files() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [kind for kind in KINDS if f'answers("{kind}"' not in text] == []
    folders = {path.name for path in (ROOT / "examples" / "projects").iterdir() if path.is_dir()}
    assert folders == set(KINDS)
