"""Workers begin at both ends of the queue: with tests that start programs, and with others."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.cli.process import environment
from tests.support.nested_runs import WITHOUT_PLUGINS
from tests.support.patience import PATIENCE

_CONFTEST = """
from tests.distribution import Distribution

def pytest_configure(config):
    config.pluginmanager.register(Distribution())
"""


def ran(directory: Path, *words: str) -> str:
    """Run the tests of a directory, and return what pytest prints."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *WITHOUT_PLUGINS, "--rootdir", str(directory)),
            *(*words, str(directory)),
        ],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_tests(directory: Path, imports: Mapping[str, str]) -> None:
    """Write files of one test, each of which imports a module, by which it has its tier."""
    (directory / "conftest.py").write_text(_CONFTEST)
    for name, module in imports.items():
        file = directory / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import {module}\ndef test_it(): pass\n")


def test_workers_begin_at_both_ends(tmp_path: Path) -> None:
    used = {"a_logic": "json", "b_client": "subprocess", "c_logic": "json", "d_engine": "grpc"}
    write_tests(tmp_path, {f"test_{name}": module for name, module in used.items()})
    printed = ran(tmp_path, "-v", "--numprocesses", "2", "--dist", "loadfile")
    first = dict(re.findall(r"\[(gw\d)\] .* PASSED test_(\w+)\.py", printed)[::-1])
    assert first == {"gw0": "b_client", "gw1": "c_logic"}


def test_quick_tests_are_spread_between_those_that_wait(tmp_path: Path) -> None:
    engines = {f"tests/servers/test_engine_{number}": "grpc" for number in range(3)}
    logic = {f"tests/graph_runtime/test_logic_{number}": "json" for number in range(6)}
    write_tests(tmp_path, engines | logic)
    files = re.findall(r"tests/(\w+)/", ran(tmp_path, "--collect-only", "-q"))
    assert files == ["graph_runtime", "servers", "graph_runtime"] * 3


def test_only_its_own_files_come_between_those_of_the_directory_with_an_engine(
    tmp_path: Path,
) -> None:
    language = {f"tests/calculators/llm/test_{number}": "grpc" for number in range(2)}
    own = {"tests/calculators/llm/test_own_logic": "json"}
    others = {f"tests/{name}/test_{name}": "json" for name in ("bench", "protos")}
    write_tests(tmp_path, language | own | others)
    files = re.findall(r"tests/(\w+)/", ran(tmp_path, "--collect-only", "-q"))
    assert files == ["calculators"] * 3 + ["bench", "protos"]
