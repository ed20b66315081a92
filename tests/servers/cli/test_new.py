"""`graphrt new calculator`: the class, its graph and its test work as they are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers.cli.command_line import main
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT


@pytest.mark.parametrize(
    ("name", "module"),
    [("acme.ScaleHTTPValues", "scale_http_values"), ("Scale", "scale"), ("a.b.Ring2", "ring2")],
)
def test_what_it_writes_runs(
    name: str, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "calculator", name, str(tmp_path)]) == 0
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {f"{module}.py", f"{module}.pbtxt", f"test_{module}.py"}
    assert f"python -m pytest {tmp_path / f'test_{module}.py'}" in capsys.readouterr().out
    words = [f"{module}.pbtxt", "--calculators", f"{module}.py"]
    done = graphrt("validate", *words, cwd=tmp_path)
    assert done.stdout == f"{module}.pbtxt: ok (1 node)\n"
    (tmp_path / "feed.jsonl").write_text('{"stream": "value", "ts": 0, "value": 1.5}\n')
    done = graphrt("run", *words, "--feed", "feed.jsonl", cwd=tmp_path)
    assert json.loads(done.stdout) == {"stream": "product", "ts": 0, "value": 15.0}


def test_its_test_passes(tmp_path: Path) -> None:
    assert main(["new", "calculator", "acme.Scale", str(tmp_path)]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_scale.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("name", ["scale", "acme.", "acme.scale", "Scale Up", "Acme.Scale", "../S"])
def test_other_names_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "calculator", name, str(tmp_path)]) == 2
    assert "such as Scale, or one in a package, such as acme.Scale" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_scale.py").write_text("mine")
    assert main(["new", "calculator", "Scale", str(tmp_path)]) == 1
    assert "test_scale.py: exists already; nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_scale.py"]
