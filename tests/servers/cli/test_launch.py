"""`graphrt launch`: what an agent is started with, which a program stands for here.

`python -m tests.coding_agents` launches the real ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.cli.launch import AGENTS
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

_AGENT = """\
#!{python}
import json, os, sys
print(json.dumps({{"words": sys.argv[1:], "environment": dict(os.environ)}}))
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("server"), "demo", calculators=()) as server:
        yield server.wait_until_serving()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with programs that are called as the agents are."""
    for agent in AGENTS.values():
        program = tmp_path / "bin" / agent.program
        program.parent.mkdir(exist_ok=True)
        program.write_text(_AGENT.format(python=sys.executable))
        program.chmod(0o755)
    return tmp_path


def launch(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "HOME": str(home),
        "PATH": os.pathsep.join((str(home / "bin"), "/usr/bin", "/bin")),
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-P", "-m", "servers.cli", "launch", *words],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def texts(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_gets_the_server_the_model_and_its_own_words(
    agent: str, server: Serving, home: Path
) -> None:
    url = f"http://127.0.0.1:{server.port}"
    words = (agent, "--url", url, "--anyway", "--", "-p", "do it")
    done = launch(home, *words, OPENAI_API_KEY="key-of-mine")
    assert done.returncode == 7, done.stderr
    heard: dict[str, Any] = json.loads(done.stdout)
    assert heard["words"][-2:] == ["-p", "do it"]
    folder = home / ".local/share/graphrt/agents" / agent
    assert folder.stat().st_mode & 0o777 == 0o700
    told = json.dumps(heard) + texts(folder)
    for fact in (url, "demo", "key-of-mine", str(folder)):
        assert fact in told, fact
    assert sorted(path.name for path in home.iterdir()) == [".local", "bin"]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_settings_are_printed_as_lines_for_a_shell(
    agent: str, server: Serving, home: Path
) -> None:
    url = f"http://127.0.0.1:{server.port}"
    words = (agent, "--url", url, "--model", "demo", "--folder", "own place", "--print", "--", "hi")
    shown = launch(home, *words)
    assert shown.returncode == 0, shown.stderr
    assert sorted(path.name for path in home.iterdir()) == ["bin"]
    done = subprocess.run(
        ["sh", "-eu", "-c", shown.stdout],
        env={"PATH": os.pathsep.join((str(home / "bin"), "/usr/bin", "/bin"))},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    heard = json.loads(done.stdout)
    assert heard["words"][-1] == "hi"
    assert url in json.dumps(heard) + texts(home / "own place")


def test_a_model_is_served_for_the_agent_alone(home: Path) -> None:
    done = launch(home, "aider", "demo", "--anyway", "--", "hello")
    assert done.returncode == 7, done.stderr
    heard = json.loads(done.stdout)
    assert "openai/demo" in heard["words"]
    assert heard["environment"]["OPENAI_API_BASE"].startswith("http://127.0.0.1:")


def test_a_context_that_is_too_short_is_refused(server: Serving, home: Path) -> None:
    url = f"http://127.0.0.1:{server.port}"
    done = launch(home, "claude", "--url", url)
    assert done.returncode == 1
    assert "demo holds 2048 tokens, and claude needs about 24000" in done.stderr
    assert "--anyway" in done.stderr
    assert not (home / ".local").exists()


def test_what_is_missing_is_named(server: Serving, home: Path) -> None:
    done = launch(home, "codex", "--url", "http://127.0.0.1:9")
    assert (done.returncode, "does not answer with models" in done.stderr) == (1, True)
    url = f"http://127.0.0.1:{server.port}"
    done = launch(home, "codex", "--url", url, "--model", "other")
    assert 'the server has no model "other"' in done.stderr
    assert "it has demo" in done.stderr
    (home / "bin" / "codex").unlink()
    done = launch(home, "codex", "--url", url)
    assert "codex is not installed" in done.stderr
    assert "npm install -g @openai/codex" in done.stderr
    assert "invalid choice: 'codecs'" in launch(home, "codecs").stderr
