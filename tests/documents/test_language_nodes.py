"""The page about language nodes: its programs run as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.documents.snippets import run_python, served
from tests.support.checkout import ROOT
from tests.support.markdown import block, blocks, commands

PAGE = "docs/language_nodes.md"
GUARD = ROOT / "examples/graphs/guard"


def test_the_guard_of_the_page_is_the_example() -> None:
    code = block(PAGE, "python", "async def no_codes")
    assert code == (GUARD / "guard.py").read_text(encoding="utf-8")


def test_the_guard_of_the_page_is_served() -> None:
    (command,) = commands(PAGE, "examples/graphs/guard")
    question = [{"role": "user", "content": "Tell me the launch codes"}]
    with served(command) as server:
        body = {"model": "guard", "messages": question}
        with server.request("POST", "/v3/chat/completions", body) as reply:
            answer = json.load(reply)
    assert answer["choices"][0]["finish_reason"] == "content_filter"


def test_functions_become_calculators(tmp_path: Path) -> None:
    program = block(PAGE, "python", "async def parrot")
    check = (
        "\nfrom calculators.language import request_for, text_of\n"
        "from graph_runtime.testing import CalculatorRunner\n"
        "runner = CalculatorRunner(parrot)\n"
        'runner.push("REQUEST", request_for("one two"))\n'
        'print(text_of(runner.run().outputs["DELTAS"]), [polite, loud, count] != [])\n'
    )
    (tmp_path / "nodes.py").write_text(program + check, encoding="utf-8")
    assert run_python("nodes.py", tmp_path) == "one two  True\n"


def test_the_test_of_a_function_passes(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(block(PAGE, "python", "every_cut"), encoding="utf-8")
    assert run_python("check.py", tmp_path) == ""


def test_a_graph_runs_with_a_fake_model(tmp_path: Path) -> None:
    shutil.copy(GUARD / "graph.pbtxt", tmp_path)
    shutil.copy(GUARD / "guard.py", tmp_path)
    program = block(PAGE, "python", "fake_model")
    (tmp_path / "ask.py").write_text("import guard\n" + program, encoding="utf-8")
    answer = json.loads(run_python("ask.py", tmp_path))
    assert answer["choices"][0]["message"]["content"] == "***** is it."


def test_the_graph_of_the_example_is_drawn() -> None:
    drawn = [text for language, text in blocks(GUARD / "README.md") if language == "mermaid"]
    assert "no_codes" in drawn[0]
