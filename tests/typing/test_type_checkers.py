"""Type checking of authors' code: typed ports, options, coroutines.

``right_uses.py`` must pass as it is. Every line of ``wrong_uses.py`` that carries ``ignore``
comments must be an error without them, for mypy and for pyright.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONFIG = HERE / "pyrightconfig.json"
WRONG = HERE / "wrong_uses.py"
IGNORE = re.compile(r"  # (type|pyright): ignore.*")

Lines = Callable[[Path], set[tuple[str, int]]]


def _run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode in (0, 1), done.stderr or done.stdout
    return done.stdout


def mypy_errors(path: Path) -> set[tuple[str, int]]:
    """Return (file, line) of each error that mypy finds, with the project's settings."""
    output = _run("mypy", "--no-error-summary", "--hide-error-context", str(path))
    return {
        (Path(file).name, int(line))
        for file, line in re.findall(r"(?m)^([^\n:]+):(\d+): error:", output)
    }


def pyright_errors(path: Path) -> set[tuple[str, int]]:
    """Return (file, line) of each error that pyright finds, with the settings of this folder."""
    if shutil.which("node") is None:
        pytest.skip("pyright runs on node, which is not installed, and would download it")
    config = CONFIG
    if path != HERE:
        config = path.with_name("pyrightconfig.json")
        places = {"include": [path.name], "venvPath": str(ROOT), "extraPaths": [str(ROOT)]}
        config.write_text(json.dumps({**json.loads(CONFIG.read_text()), **places}))
    report: dict[str, Any] = json.loads(_run("pyright", "--outputjson", "-p", str(config)))
    return {
        (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        for found in report["generalDiagnostics"]
        if found["severity"] == "error"
    }


CHECKERS = pytest.mark.parametrize("errors", [mypy_errors, pyright_errors])


@CHECKERS
def test_right_uses_pass_without_unused_ignore_comments(errors: Lines) -> None:
    assert errors(HERE) == set()


@CHECKERS
def test_wrong_uses_are_found(errors: Lines, tmp_path: Path) -> None:
    lines = WRONG.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if IGNORE.search(line)}
    bare = tmp_path / "bare.py"
    bare.write_text("\n".join(IGNORE.sub("", line) for line in lines) + "\n")

    assert len(marked) > 15
    assert errors(bare) == {("bare.py", number) for number in marked}
