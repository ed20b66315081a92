"""The programs of `examples/agents`: a model calls a tool and reports its result."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.cli.process import environment
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

AGENTS = ROOT / "examples" / "agents"


@pytest.mark.parametrize(
    ("script", "call"),
    [
        ("weather_agent.py", "[get_weather: Paris]"),
        ("mcp_loop.py", '[get_weather: {"city":"Paris"}]'),
    ],
)
def test_a_tool_is_called_and_its_result_is_reported(address: str, script: str, call: str) -> None:
    environ = {name: text for name, text in environment().items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [sys.executable, str(AGENTS / script), "--base-url", f"{address}/v3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environ,
    )
    assert done.returncode == 0, done.stderr
    said, answer = done.stdout.strip().split("\n")
    assert said == call
    assert "12" in answer
    assert "rain" in answer
