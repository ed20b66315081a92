"""The pages about tools on the server: their commands, their program and their function."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.calculators.language.server_tools.toolboxes import OpenToolbox
from tests.documents.snippets import ADDRESS, asked, run_python, run_shell, served
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands

EXAMPLE = "examples/graphs/agent/README.md"
PAGE = "calculators/language/server_tools/README.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    with served(commands(EXAMPLE, "graphrt serve")[0]) as server:
        yield server


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_command_is_answered_with_the_result_of_the_tool(server: Serving) -> None:
    answer = json.loads(asked(commands(EXAMPLE, "graphrt serve")[1], server))
    assert answer["choices"][0]["message"]["content"] == "It is 12 degrees and rainy in Paris."


def test_the_program_prints_what_the_page_shows(server: Serving, tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="the extra clients is not installed")
    program = block(EXAMPLE, "python", "responses.create")
    program = program.replace(ADDRESS, f"http://127.0.0.1:{server.port}")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert run_python("program.py", tmp_path) == block(EXAMPLE, "", "get_weather(")


def test_the_graph_can_be_drawn() -> None:
    text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
    command = "graphrt describe examples/graphs/agent/graph.pbtxt --format svg"
    assert command in text
    assert run_shell(command, ROOT).startswith("<svg")


def test_the_function_of_the_page_is_a_tool(tmp_path: Path) -> None:
    (tmp_path / "shares.py").write_text(block(PAGE, "python", "get_price"), encoding="utf-8")
    tools = OpenToolbox('python: "shares" python_processes: 1', tmp_path)
    try:
        spec = tools.toolbox.tools["get_price"]
        assert spec.parameters["properties"] == {
            "ticker": {"type": "string", "description": "such as INTC"},
            "currency": {"enum": ["EUR", "USD"], "default": "USD"},
        }
        output = tools.call("get_price", '{"ticker": "INTC"}').output
        assert json.loads(output) == {"ticker": "INTC", "price": 31.4, "currency": "USD"}
    finally:
        tools.close()
