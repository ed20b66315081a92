"""Handlers that cannot be loaded: the error names file and reason."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from graph_runtime import ResourceError
from tests.calculators.tensors.python.running import OPTIONS, PLAIN, loaded


def load_error(folder: Path, isolation: str, handler: str, graph: str = PLAIN) -> str:
    async def scenario() -> None:
        async with loaded(folder, handler, graph, isolation):
            pass

    with pytest.raises(ResourceError) as caught:
        asyncio.run(scenario())
    return str(caught.value)


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("", "no such file"),
        ("x = 1", "it defines no class OvmsPythonModel"),
        ("class OvmsPythonModel: pass", "OvmsPythonModel has no method execute(self, inputs)"),
        ("x = 1\nclass OvmsPythonModel\n", "line 2: SyntaxError: expected ':'"),
        (
            "import no_such_module_here",
            "line 1: ModuleNotFoundError: No module named 'no_such_module_here'",
        ),
        (
            "class OvmsPythonModel:\n"
            "  def initialize(self, kwargs):\n"
            "    raise OSError('no weights\\nmore')\n"
            "  def execute(self, inputs): ...",
            "line 3: OSError: no weights",
        ),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
    ],
)
def test_the_error_names_the_file_and_the_reason(
    tmp_path: Path, isolation: str, handler: str, told: str
) -> None:
    modules = set(sys.modules)
    error = load_error(tmp_path, isolation, handler)
    assert error == f'node "node": handler_path "model.py": {told}'
    assert not [name for name in set(sys.modules) - modules if name.startswith("handler_")]


def test_the_log_has_the_traceback(
    tmp_path: Path, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    load_error(tmp_path, isolation, "def broken(): raise ValueError('deep')\nbroken()")
    assert 'node "node": its handler cannot be loaded' in caplog.text
    assert "ValueError: deep" in caplog.text


def test_a_node_without_a_path_is_refused(tmp_path: Path, isolation: str) -> None:
    error = load_error(tmp_path, isolation, "", PLAIN.replace(OPTIONS % "model.py", ""))
    assert error.startswith('node "node": it has no handler_path; it needs node_options')


def test_a_node_without_a_name_is_refused(tmp_path: Path, isolation: str) -> None:
    error = load_error(tmp_path, isolation, "", PLAIN.replace('name: "node"', ""))
    assert "PythonExecutorCalculator node has no name" in error
