"""The README's minute: serve the example, ask it with curl and with the openai client."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.checkout import ROOT
from tests.patience import PATIENCE

README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"


def block(language: str, containing: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)
    return next(str(text) for text in found if containing in text)


def test_make_serve_serves_the_example() -> None:
    assert "make serve" in block("console", "make serve")
    done = subprocess.run(
        ["make", "--dry-run", "serve"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "graphrt serve examples/config.json --rest_port 8000" in done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl(address: str) -> None:
    command = block("console", "curl").removeprefix("$ ").replace(ADDRESS, address)
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=PATIENCE)
    answer = json.loads(done.stdout)
    assert answer["model"] == "demo"
    assert answer["choices"][0]["message"]["content"].strip()
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_the_openai_client_streams_an_answer(address: str) -> None:
    script = block("python", "from openai import OpenAI").replace(ADDRESS, address)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 3
    assert "graph" in done.stdout
