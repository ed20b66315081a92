"""Workers begin at both ends of the queue: with tests that start programs, and with engines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE
from tests.servers.cli.process import environment

_CONFTEST = """
from tests.distribution import Distribution

def pytest_configure(config):
    config.pluginmanager.register(Distribution())
"""


def test_workers_begin_at_both_ends(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    used = {"a_logic": "json", "b_client": "subprocess", "c_engine": "grpc", "d_logic": "json"}
    for name, module in used.items():
        (tmp_path / f"test_{name}.py").write_text(f"import {module}\ndef test_it(): pass\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir"),
            *(str(tmp_path), "--numprocesses", "2", "--dist", "loadfile", str(tmp_path)),
        ],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = dict(re.findall(r"\[(gw\d)\] .* PASSED test_(\w+)\.py", done.stdout)[::-1])
    assert ran == {"gw0": "b_client", "gw1": "c_engine"}
