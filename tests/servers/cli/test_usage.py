"""Help, wrong usage and exit codes."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from servers.cli.arguments import spread
from tests.servers.cli.process import ROOT, environment, graphrt

COMMANDS = ["validate", "describe", "calculators", "run", "serve", "doctor"]


def test_help_names_every_command() -> None:
    done = graphrt("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    done = graphrt(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: graphrt {command}")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        "import sys, servers.cli\n"
        f"try: servers.cli.main({words!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'graph_runtime', 'calculators', 'protos', 'google', 'asyncio', 'difflib'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_wrong_usage_is_exit_code_2(place: Path) -> None:
    for words in ([], ["frobnicate"], ["run"], ["run", "graph.pbtxt", "--nope"], ["validate"]):
        done = graphrt(*words, cwd=place)
        assert done.returncode == 2, words
        assert done.stdout == ""
        assert "error: " in done.stderr


def test_a_mistyped_command_or_option_gets_a_suggestion() -> None:
    assert "did you mean `describe`?" in graphrt("desribe", "x").stderr
    assert "did you mean `--observe`?" in graphrt("run", "x", "--observ=y").stderr


def test_the_version_is_printed() -> None:
    assert graphrt("--version").stdout.startswith("graphrt ")


def test_the_console_script_is_this_main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["graphrt"] == "servers.cli:main"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("run --observe a b g.pbtxt --feed -", "run --observe a --observe b g.pbtxt --feed -"),
        ("run g.pbtxt --observe a b", "run g.pbtxt --observe a --observe b"),
        (
            "run --calculators a.py my.mod g.pbtxt",
            "run --calculators a.py --calculators my.mod g.pbtxt",
        ),
        ("run --side-packet a=1 b=2 dir/g", "run --side-packet a=1 --side-packet b=2 dir/g"),
        ("calculators --calculators a.py Gate", "calculators --calculators a.py Gate"),
        ("run --observe", "run --observe"),
        ("run --observe --feed x", "run --observe --feed x"),
        ("run --observe=a b", "run --observe=a b"),
        ("run --observe a -- b", "run --observe a -- b"),
        ("", ""),
    ],
)
def test_an_option_with_several_values_leaves_the_graph_alone(given: str, wanted: str) -> None:
    assert spread(given.split()) == wanted.split()
