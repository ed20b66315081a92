"""The extension for VS Code: what it names exists, it compiles, and its grammar colors graphs.

Compiling and coloring need `npm ci` in ``editors/vscode``, and are skipped without.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from servers.cli.editor.grammar import textmate
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

FOLDER: Final = ROOT / "editors" / "vscode"
PACKAGE: Final[dict[str, Any]] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
GRAMMAR: Final = FOLDER / "syntaxes" / "textproto.tmLanguage.json"

GRAPH: Final = """\
# a graph
input_stream: "IN:0:image"
node {
  calculator: "GateCalculator"
  options { [mediapipe.GateOptions.ext] { allow: true mode: FAST count: -3 } }
}
"""


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("npm ci in editors/vscode installs what this needs")
    return found


def test_the_grammar_is_the_one_of_the_table() -> None:
    assert json.loads(GRAMMAR.read_text(encoding="utf-8")) == textmate(), (
        f"`python -m servers.cli.editor.grammar > {GRAMMAR.relative_to(ROOT)}` writes it again"
    )


def test_everything_that_the_extension_names_exists() -> None:
    contributes = PACKAGE["contributes"]
    files = [
        *(each["configuration"] for each in contributes["languages"]),
        *(each["path"] for each in contributes["grammars"]),
    ]
    assert [file for file in files if not (FOLDER / file).is_file()] == []
    sources = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "src").glob("*.ts"))
    for each in contributes["commands"]:
        assert f'registerCommand("{each["command"]}"' in sources
    for name in contributes["configuration"]["properties"]:
        assert f'get<string[]>("{name.removeprefix("graphrt.")}"' in sources
    (main,) = {PACKAGE["main"]}
    assert (FOLDER / "src" / f"{Path(main).stem}.ts").is_file()


def test_dependencies_are_pinned_without_a_host() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    names = {**PACKAGE["dependencies"], **PACKAGE["devDependencies"]}
    for name in names:
        assert lock["packages"][f"node_modules/{name}"]["version"]
    assert not any("resolved" in each for each in lock["packages"].values())


def test_it_compiles(node: str) -> None:
    compiler = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [node, compiler, "-p", FOLDER, "--noEmit"], capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout.decode()


def test_the_words_of_a_graph_have_their_scopes(node: str, tmp_path: Path) -> None:
    file = tmp_path / "graph.pbtxt"
    file.write_text(GRAPH)
    done = subprocess.run(
        [node, FOLDER / "test" / "tokens.mjs", file], capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr.decode()
    scopes = dict(json.loads(done.stdout))
    assert scopes["# a graph"] == "comment.line.number-sign"
    assert scopes["input_stream"] == "entity.name.tag"
    assert scopes["IN"] == "entity.other.attribute-name"
    assert scopes["image"] == "variable.other.stream"
    assert scopes["GateCalculator"] == "entity.name.type.calculator"
    assert scopes["mediapipe.GateOptions.ext"] == "entity.name.type.options"
    assert scopes["true"] == "constant.language.boolean"
    assert scopes["FAST"] == "constant.other.enum"
    assert scopes["-3"] == "constant.numeric"
