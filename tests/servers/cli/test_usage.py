"""Help, wrong usage and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from servers.cli.command_line import spread
from tests.servers.cli.process import COMMAND, environment, graphrt
from tests.support.checkout import ROOT

COMMANDS = ["validate", "describe", "calculators", "run", "serve", "doctor"]


def test_help_names_every_command() -> None:
    done = graphrt("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("words", ["--help", "serve --help", "config-schema", "completion bash"])
def test_an_output_that_takes_nothing_is_an_error_in_one_line(words: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def test_too_many_workers_are_refused() -> None:
    done = graphrt("serve", "demo", "--workers", "257")
    assert done.returncode == 2
    assert "argument --workers: a number from 1 to 256 is needed: '257'" in done.stderr


def test_no_arguments_show_the_help() -> None:
    done = graphrt()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == graphrt("--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    done = graphrt(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: graphrt {command}")


@pytest.mark.parametrize(
    ("words", "packages"),
    [
        (["--help"], {"calculators.kit.tasks"}),
        (["run", "--help"], {"calculators.kit.tasks"}),
        (["serve", "--help"], set()),
        (["parse-output", "--help"], set()),
    ],
)
def test_help_imports_nothing_heavy(words: list[str], packages: set[str]) -> None:
    heavy = {"graph_runtime", "protos", "google", "asyncio", "difflib", "msgspec", *packages}
    script = (
        "import sys, servers.cli\n"
        f"try: servers.cli.main({words!r})\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)\n"
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
    for words in (["frobnicate"], ["run"], ["run", "graph.pbtxt", "--nope"], ["validate"]):
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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--verison", "did you mean `--version`?"),
        ("serv", "did you mean `serve`?"),
        ("serve --rest_prt 3", "did you mean `--rest_port`?"),
        ("--rest_port 3 serve", "`--rest_port` is an option of `graphrt serve`: write it after"),
        ("run --rest_port 3 graph.pbtxt", "see `graphrt run --help`"),
        ("serve a --rest_port x", "see `graphrt serve --help`"),
        ("validate graph.pbtxt --format xml", "see `graphrt validate --help`"),
    ],
)
def test_a_hint_names_what_would_be_taken_in_that_place(words: str, hint: str) -> None:
    done = graphrt(*words.split())
    assert done.returncode == 2
    assert f"hint: {hint}" in done.stderr
    assert done.stderr.count("\n") < 12  # the usage does not hide it


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_version_is_told_wherever_it_is_asked_for(command: str) -> None:
    done = graphrt(*command.split(), "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("graphrt ")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("run --verbose g", "run --verbose g"),
        ("run --verbose=true g", "run --verbose g"),
        ("run --verbose TRUE g", "run --verbose g"),
        ("run --verbose false g", "run g"),
        ("run --observe-bounds=False g", "run g"),
        ("run --verbose=maybe g", "run --verbose=maybe g"),
        ("serve --verbose_response c", "serve --verbose_response=true c"),
        ("serve --verbose_response true c", "serve --verbose_response=true c"),
        ("serve --verbose-response=false c", "serve --verbose_response=false c"),
        ("serve --dynamic_split_fuse False c", "serve --dynamic_split_fuse=False c"),
        ("serve --verbose true --metrics_enable", "serve --verbose --metrics_enable=true"),
    ],
)
def test_switches_stand_alone_or_with_their_value(given: str, wanted: str) -> None:
    assert spread(given.split()) == wanted.split()


@pytest.mark.parametrize("kind", ["nothing", "directory", "pipe", "circle", "noise"])
@pytest.mark.parametrize(
    "words",
    [
        "validate ODD",
        "describe ODD",
        "run ODD",
        "serve ODD --rest_port auto",
        "render-prompt ODD",
        "run graph.pbtxt --subgraph ODD",
        "run graph.pbtxt --calculators ODD.py",
        "serve graph.pbtxt --rest_port auto --api_key_file ODD",
    ],
)
def test_a_file_that_cannot_be_used_is_named_without_a_traceback(
    tmp_path: Path, words: str, kind: str
) -> None:
    if words.startswith("render-prompt") and kind == "directory":
        pytest.skip("it is what is asked for")
    (tmp_path / "graph.pbtxt").write_text('input_stream: "x"')
    for odd in (tmp_path / "ODD", tmp_path / "ODD.py"):
        match kind:
            case "directory":
                odd.mkdir()
            case "pipe":
                os.mkfifo(odd)
            case "circle":
                odd.symlink_to(odd.name)
            case "noise":
                odd.write_bytes(b"\xff\x00\xfe")
            case _:
                pass
    done = graphrt(*words.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert "ODD" in done.stderr
    assert "Traceback" not in done.stderr
