"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from graph_runtime.states import NODE_TRANSITIONS, RUN_TRANSITIONS, transition_rows

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows_of(table: dict[tuple[Any, Any], IntEnum]) -> list[str]:
    return [f"| {state} | {event} | {then} |" for state, event, then in transition_rows(table)]


@pytest.mark.parametrize(("name", "table"), [("run", RUN_TRANSITIONS), ("node", NODE_TRANSITIONS)])
def test_the_state_tables_are_those_of_the_code(name: str, table: dict[Any, Any]) -> None:
    match = re.search(rf"<!-- {name} table -->\n.*\n.*\n((?:\|.*\n)*)<!-- end -->", ARCHITECTURE)
    assert match is not None
    assert match.group(1).splitlines() == rows_of(table)


def test_every_checked_invariant_is_explained() -> None:
    code = (ROOT / "graph_runtime" / "invariants.py").read_text(encoding="utf-8")
    checked = {int(number) for number in re.findall(r"_require\(\s*(\d+)", code)}
    explained = {int(number) for number in re.findall(r"^\| I(\d+) \|", ARCHITECTURE, re.M)}
    assert checked == explained


def block(language: str, containing: str) -> str:
    """The README's code block of a language that contains a text."""
    for found_language, found in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M):
        if found_language == language and containing in found:
            return str(found)
    raise AssertionError(f"no {language} block with {containing!r}")


def test_the_first_example_works_as_typed(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(block("python", "def Shout"), encoding="utf-8")
    (tmp_path / "shout.pbtxt").write_text(block("", 'calculator: "Shout"'), encoding="utf-8")
    console = block("console", "--feed -")
    command, expected = console.removeprefix("$ ").split("\n", 1)
    done = subprocess.run(
        command.replace("graphrt", f"{sys.executable} -m servers.cli"),
        shell=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)

    (tmp_path / "again.py").write_text(block("python", "import shout"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "again.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("0 HELLO!\n", "")


def test_the_class_example_works_as_typed(tmp_path: Path) -> None:
    (tmp_path / "redact.py").write_text(block("python", "class Redact"), encoding="utf-8")
    graph = 'input_stream: "raw"\noutput_stream: "safe"\n' + block("", "acme.Redact")
    (tmp_path / "redact.pbtxt").write_text(graph, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "servers.cli", "run", "redact.pbtxt"),
            *("--calculators", "redact.py", "--feed", "-"),
        ],
        input='{"stream": "raw", "ts": 1, "value": "my secret password"}\n',
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == '{"stream": "safe", "ts": 1, "value": "my *** ***"}\n', done.stderr


def test_every_file_the_readme_names_exists() -> None:
    for line in README.splitlines():
        for path in re.findall(
            r"`([a-z_]+(?:/[a-z_]+)*/)`", line.split("|")[1] if "|" in line else ""
        ):
            assert (ROOT / path).is_dir(), path
