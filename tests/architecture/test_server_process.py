"""Imports and actions that the server's process must not have."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from bench.house import Module
from tests.architecture.test_imports import python
from tests.support.checkout import ROOT

Importers: TypeAlias = Callable[..., set[Path]]

CHILD = ROOT / "calculators" / "kit" / "child_process"

LIBRARIES_OF_A_SERVER = """
import sys
import servers.cli.serve
import calculators.llm.http_llm_calculator
import calculators.llm.resources
from graph_runtime import REGISTRY
calculators.register_all(REGISTRY)
assert REGISTRY.find_calculator("HttpLLMCalculator", "") is not None
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def imports(module: Module) -> Iterator[str]:
    """Return the top-level packages that a module imports, in functions too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.fixture(scope="module")
def importers(modules: Mapping[str, Module]) -> Importers:
    """A function that returns the files that import one of some packages."""
    imported = {module.path: frozenset(imports(module)) for module in modules.values()}
    return lambda *packages: {
        path for path, names in imported.items() if not names.isdisjoint(packages)
    }


def test_a_server_loads_neither_model_libraries_nor_grpc_before_they_are_needed() -> None:
    done = python(LIBRARIES_OF_A_SERVER)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"aiohttp", "calculators", "msgspec"} <= loaded
    assert loaded.isdisjoint({"grpc", "openvino", "openvino_genai", "openvino_tokenizers"})


CHILDREN_OF_A_LANGUAGE_MODEL = """
import sys
import calculators.llm.engine.process
import calculators.llm.prompt.process
from calculators.kit.child_process.lean_openvino import leave_out_converter
leave_out_converter()
import calculators.llm.engine.pipelines
assert "graph_runtime" not in sys.modules
import calculators.llm.prompt.builder
import openvino
openvino.Core()
print(*(name for name, module in sys.modules.items() if module))
"""


def test_children_of_a_language_model_import_no_more_than_they_need() -> None:
    done = python(CHILDREN_OF_A_LANGUAGE_MODEL)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"numpy", "openvino_genai"} <= loaded
    assert loaded.isdisjoint({"aiohttp", "google.protobuf", "openvino.tools.ovc"})


COMMAND_LINE_AND_TASKS = """
import sys
import servers.cli.arguments
import servers.cli.early_serve
from calculators.kit.tasks import failed_tasks, installed_tasks
names = {task.name for task in installed_tasks()}
assert names and not failed_tasks()
servers.cli.arguments.make_parser()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_describing_the_tasks_loads_no_library_and_not_the_runtime() -> None:
    done = python(COMMAND_LINE_AND_TASKS)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "calculators" in loaded
    heavy = {"aiohttp", "google", "graph_runtime", "grpc", "msgspec", "numpy", "openvino"}
    assert loaded.isdisjoint(heavy)


def test_model_libraries_are_imported_in_child_processes_or_with_the_first_plain_model(
    importers: Importers,
) -> None:
    calculators = ROOT / "calculators"
    folders = {path.parent for path in importers("openvino", "openvino_genai")}
    families = {path for path in folders if (path / "process.py").exists()}
    shared = {calculators / "kit" / "child_process", calculators / "text" / "text_models"}
    plain_models = calculators / "tensors" / "openvino"
    vision_models = calculators / "vision" / "inference"
    assert folders == {*families, *shared, plain_models, vision_models}


def test_nothing_is_pickled(importers: Importers) -> None:
    assert importers("pickle", "marshal", "shelve", "multiprocessing") == set()


def test_processes_are_started_in_one_place(importers: Importers) -> None:
    # Commands that need a server, or an agent, start it as a user would.
    started = {ROOT / "servers" / "cli" / name for name in ("chat.py", "launch.py")}
    # The exporter is another program, and runs before there is an event loop.
    exporter = ROOT / "servers" / "model_store" / "followed_process.py"
    # `early_start` starts children, and `ChildProcess` holds them.
    children = {CHILD / "early_start.py", CHILD / "child_process.py"}
    assert importers("subprocess") == {*children, *started, exporter}
