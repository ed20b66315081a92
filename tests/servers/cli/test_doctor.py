"""`graphrt doctor`: one report of the machine, the software and a config."""

from __future__ import annotations

import json
from pathlib import Path

from tests.servers.cli.process import graphrt


def test_the_report_is_text() -> None:
    done = graphrt("doctor")
    assert done.stderr == ""
    for word in ("software\n  graphrt ", "\nmachine\n  processor ", "\ndevices\n", "  CPU "):
        assert word in done.stdout


def test_with_a_config_it_says_what_is_served(site: Path) -> None:
    done = graphrt("doctor", "--json", "--calculators", "calcs.py", "config.json", cwd=site)
    told = json.loads(done.stdout)
    assert done.returncode == 0, told["findings"]
    assert told["config"]["content"] == "2 graphs"
    assert told["config"]["graphs"] == ["echo", "stream"]


def test_errors_of_the_config_are_findings_and_the_exit_code(site: Path) -> None:
    (site / "echo" / "graph.pbtxt").write_text('\nnode { calculator: "Ecko" }')
    done = graphrt("doctor", "--json", "--calculators", "calcs.py", "config.json", cwd=site)
    assert done.returncode == 1
    error = json.loads(done.stdout)["findings"][0]
    assert error["severity"] == "error"
    assert error["message"].startswith("echo/graph.pbtxt:2:20: ")


def test_a_config_that_is_not_there_is_an_error() -> None:
    done = graphrt("doctor", "no_such_config.json")
    assert done.returncode == 1
    assert "no_such_config.json: " in done.stdout
