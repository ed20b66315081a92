"""Coverage of a run in workers: imports and tests are measured, random inputs are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.cli.process import environment
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("workers", [0, 1])
def test_imports_and_tests_are_measured(tmp_path: Path, workers: int) -> None:
    covered = percent_covered(tmp_path, "tests/graph_runtime/test_timestamp.py", workers)
    assert covered["graph_runtime/timestamp.py"] > 80
    # Imported only.
    assert 5 < covered["graph_runtime/graph.py"] < 50


def test_random_inputs_are_not_measured(tmp_path: Path) -> None:
    covered = percent_covered(tmp_path, "tests/graph_runtime/test_random_graphs.py", 0)
    assert 5 < covered["graph_runtime/graph.py"] < 50


def percent_covered(folder: Path, file: str, workers: int) -> dict[str, float]:
    """Run a file of tests; return the coverage of each module of the runtime."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--examples", "few", file),
            *("--numprocesses", str(workers), "--dist", "loadfile", "--cov=graph_runtime"),
            *(f"--cov-report=json:{folder / 'report.json'}", "--cov-fail-under=0"),
        ],
        cwd=ROOT,
        env={**environment(), "COVERAGE_FILE": str(folder / "coverage")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    files = json.loads((folder / "report.json").read_text())["files"]
    return {name: each["summary"]["percent_covered"] for name, each in files.items()}
