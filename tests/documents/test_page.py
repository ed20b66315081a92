"""docs/page.md and docs/editors.md: their commands, and the config that names its schema."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.config import read_config
from tests.documents.snippets import asked, run_shell, served
from tests.servers.cli.serving import Serving
from tests.support.markdown import block, commands

PAGE = "docs/page.md"
EDITORS = "docs/editors.md"

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    (command,) = commands(PAGE, "graphrt serve examples/models/demo")
    with served(command) as server:
        yield server


@needs_curl
def test_the_page_is_at_the_root(server: Serving) -> None:
    (command,) = commands(PAGE, "curl -s -o /dev/null")
    shown = block(PAGE, "console", "-o /dev/null").split("\n", 1)[1]
    assert asked(command, server).strip() == shown.strip()


@needs_curl
def test_calculators_are_described(server: Serving) -> None:
    (command,) = commands(PAGE, "curl -s http://127.0.0.1:8000/v1/calculators")
    assert json.loads(asked(command, server))["name"] == "PassThroughCalculator"


@needs_curl
def test_a_draft_is_checked_and_tried(server: Serving) -> None:
    (check,) = commands(PAGE, "/v1/scratch/check")
    # It goes on over several lines.
    run = block(PAGE, "console", "/v1/scratch/run").removeprefix("$ ")
    (finding,) = json.loads(asked(check, server))["findings"]
    assert (finding["line"], finding["column"], finding["end_column"]) == (1, 20, 30)
    result = json.loads(asked(run, server))
    assert (result["state"], result["packets"][0]["value"]) == ("done", "a packet")


def test_a_config_names_its_schema(tmp_path: Path) -> None:
    (command,) = commands(EDITORS, "graphrt config-schema")
    run_shell(command, tmp_path)
    assert "properties" in json.loads((tmp_path / "schema.json").read_text())
    (tmp_path / "config.json").write_text(block(EDITORS, "json", "$schema"))
    assert [each.name for each in read_config(tmp_path / "config.json").graphs] == ["demo"]


def test_the_language_server_has_a_help(tmp_path: Path) -> None:
    _, command = commands(EDITORS, "graphrt language-server --help")
    assert "Language Server Protocol" in run_shell(command, tmp_path)
