"""docs/calculators.md and the tutorials: their files are written, run and served."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from servers.cli.arguments import KINDS
from tests.documents.snippets import asked, run_python, run_shell, served
from tests.servers.cli.serving import Serving
from tests.support.installed_package import install
from tests.support.markdown import block, commands, text_of

CALCULATORS = "docs/calculators.md"
CALCULATOR = "docs/tutorials/add_a_calculator.md"
ENDPOINT = "docs/tutorials/add_an_endpoint.md"
PARSER = "docs/tutorials/add_a_parser.md"
JOURNEY = "docs/tutorials/socket_to_engine.md"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


def write(folder: Path, page: str, **snippets: tuple[str, str]) -> None:
    """Write a page's files: by name, ``__`` for the dot, language and text of their blocks."""
    for name, (language, containing) in snippets.items():
        text = block(page, language, containing)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def check_output(page: str, containing: str, folder: Path) -> None:
    """Check that the command of a console block prints the text below it."""
    (command,) = commands(page, containing)
    expected = block(page, "console", containing).split("\n", 1)[1]
    assert run_shell(command, folder) == expected


def test_a_project_is_made(tmp_path: Path) -> None:
    (command,) = commands(CALCULATORS, "graphrt init")
    assert run_shell(command, tmp_path).startswith("my-project: ")
    table = re.findall(r"^\| `(\w+)` \| ", text_of(CALCULATORS), re.M)
    assert [row for row in table if row in KINDS] == list(KINDS)


def test_the_function_of_the_reference_runs(tmp_path: Path) -> None:
    """Run the graph by its command, then by the program."""
    (tmp_path / "shout.py").write_text(block(CALCULATORS, "python", "def Shout"), encoding="utf-8")
    graph = block(CALCULATORS, "pbtxt", 'calculator: "Shout"')
    (tmp_path / "shout.pbtxt").write_text(graph, encoding="utf-8")
    (command,) = commands(CALCULATORS, "--feed -")
    expected = block(CALCULATORS, "console", "--feed -").split("\n", 1)[1]
    assert run_shell(command, tmp_path) == expected

    program = block(CALCULATORS, "python", "import shout")
    (tmp_path / "again.py").write_text(program, encoding="utf-8")
    assert run_python("again.py", tmp_path) == "0 HELLO!\n"


def test_the_class_of_the_reference_runs(tmp_path: Path) -> None:
    write(tmp_path, CALCULATORS, redact__py=("python", "class Redact"))
    node = block(CALCULATORS, "pbtxt", "acme.Redact")
    graph = f'input_stream: "raw"\noutput_stream: "safe"\n{node}'
    (tmp_path / "redact.pbtxt").write_text(graph, encoding="utf-8")
    feed = '{"stream": "raw", "ts": 1, "value": "my secret password"}'
    run = "graphrt run redact.pbtxt --calculators redact.py --feed -"
    printed = run_shell(f"echo '{feed}' | {run}", tmp_path)
    assert printed == '{"stream": "safe", "ts": 1, "value": "my *** ***"}\n'


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    write(
        tmp_path,
        CALCULATOR,
        changes__py=("python", "class Changes(Calculator)"),
        test_changes__py=("python", "def test_small"),
        changes__pbtxt=("pbtxt", "acme.Changes"),
        config__json=("json", "python_path"),
    )
    return tmp_path


def test_the_tutorials_calculator_passes_its_test(changes: Path) -> None:
    printed = run_shell(f"{sys.executable} -m pytest -q test_changes.py", changes)
    assert "1 passed" in printed


@pytest.mark.parametrize("containing", ["validate changes.pbtxt", "run changes", "validate config"])
def test_the_tutorials_graph_runs(changes: Path, containing: str) -> None:
    check_output(CALCULATOR, containing, changes)


@needs_curl
def test_the_tutorials_graph_is_served(changes: Path) -> None:
    (command,) = commands(CALCULATOR, "models/changes/infer")
    with served("graphrt serve config.json", changes) as server:
        (output,) = json.loads(asked(command, server))["outputs"]
    assert (output["name"], output["datatype"], output["data"]) == ("changes", "FP64", [20.0])


@needs_curl
def test_the_tutorials_endpoint_answers(tmp_path: Path) -> None:
    write(
        tmp_path,
        ENDPOINT,
        word_count__py=("python", "class WordCount"),
        count__pbtxt=("pbtxt", "acme.WordCount"),
        config__json=("json", "python_path"),
    )
    with served("graphrt serve config.json", tmp_path) as server:
        for containing in ("one two three", '"input": 5'):
            (command,) = commands(ENDPOINT, containing)
            expected = block(ENDPOINT, "console", containing).split("\n", 1)[1]
            assert asked(command, server).strip() == expected.strip()


@needs_curl
def test_the_tutorials_functions_answer_their_paths(tmp_path: Path) -> None:
    write(
        tmp_path,
        ENDPOINT,
        countdown__py=("python", '@endpoint("/v3/countdown")'),
        shop__py=("python", '@endpoint("/shops/{name}/orders")'),
    )
    (tmp_path / "config.json").write_text('{"python_path": ["countdown.py", "shop.py"]}')
    (command,) = commands(ENDPOINT, "serve countdown.py")
    with served(command, tmp_path) as server:
        check_answer("countdown?start=2", server)
    with served("graphrt serve config.json", tmp_path) as server:
        for containing in ("countdown?start=2", "express=1", '"count": "two"', "/v3/beats"):
            check_answer(containing, server)


def check_answer(containing: str, server: Serving) -> None:
    """Check that a command of the tutorial gets what stands below it."""
    (command,) = commands(ENDPOINT, containing)
    expected = block(ENDPOINT, "console", containing).split("\n", 1)[1]
    assert asked(command, server).rstrip() == expected.rstrip()


@pytest.fixture
def parsers(tmp_path: Path) -> Path:
    """Install the tutorial's family as the package that it describes."""
    write(
        tmp_path,
        PARSER,
        brackets__py=("python", "BRACKETS = AnswerFamily("),
        try_it__py=("python", "from brackets"),
    )
    project = tomllib.loads(block(PARSER, "toml", "entry-points"))["project"]
    entry_points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    )
    install(tmp_path, "tutorial", entry_points)
    return tmp_path


def test_the_tutorials_family_passes_its_case(parsers: Path) -> None:
    assert run_python("try_it.py", parsers) == block(PARSER, "", "ToolCall(name=")


@pytest.mark.parametrize("containing", ["--reasoning-parser brackets", "--jsonl"])
def test_the_tutorials_family_is_found(parsers: Path, containing: str) -> None:
    (command,) = commands(PARSER, containing)
    expected = block(PARSER, "console", containing).split("\n", 1)[1]
    assert run_shell(command, parsers, path=[parsers]) == expected


def test_the_tutorials_family_loses_no_text(parsers: Path) -> None:
    feed = "printf '%s' 'a [[ b ]] c [[d'"
    command = f"{feed} | graphrt parse-output --tool-parser brackets"
    printed = json.loads(run_shell(command, parsers, path=[parsers]))
    assert (printed["content"], printed["tool_calls"]) == ("a [[ b ]] c [[d", [])


@pytest.mark.parametrize(
    ("containing", "printed"),
    [("endpoint_of", "0.2\n"), ("generation_config", "0.2\n"), ("reasoning_parser", None)],
)
def test_programs_of_the_journey_print_the_shown_text(
    tmp_path: Path, containing: str, printed: str | None
) -> None:
    write(tmp_path, JOURNEY, station__py=("python", containing))
    expected = block(JOURNEY, "", "Reasoning(text=") if printed is None else printed
    assert run_python("station.py", tmp_path) == expected
