"""Families of calculators are imported when a graph names one of their nodes, and not before."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import calculators
from calculators.kit.family_names import NAMES
from calculators.kit.tasks import installed_tasks
from graph_runtime import Calculator, GraphError, Registry
from tests.calculators.family_names import families
from tests.support.checkout import ROOT


class Mine(Calculator):
    """A node without ports."""


def names_of(register: Any) -> set[str]:
    registry = Registry()
    register(registry)
    return {*registry.calculators(), *registry.subgraphs()}


@pytest.mark.parametrize("family", NAMES)
def test_the_names_of_a_family_are_those_that_it_registers(family: str) -> None:
    assert names_of(import_module(family).register) == NAMES[family], (
        "`python -m tests.calculators.family_names` prints what family_names.py should be"
    )


def test_every_family_is_listed() -> None:
    assert list(NAMES) == families()


@pytest.mark.parametrize("task", installed_tasks(), ids=lambda task: task.name)
def test_the_names_of_a_task_are_those_that_it_registers(task: Any) -> None:
    assert names_of(task.register) == set(task.calculators)


def test_a_graph_of_a_language_model_imports_no_other_family() -> None:
    program = """
import sys
import calculators
from graph_runtime import Registry
registry = Registry()
calculators.register_all(registry)
assert "calculators.llm.http_llm_calculator" not in sys.modules
assert registry.find_calculator("HttpLLMCalculator") is not None
families = ("image", "vision", "moderation", "retrieval", "speech_to_text", "embeddings")
loaded = [each for each in sys.modules if each.startswith("calculators.")]
print([each for each in loaded for family in families
       if f".{family}." in each and "calculator" in each.rpartition(".")[2]])
print(registry.find_subgraph("FaceLandmarkCpu") is not None)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "[]\nTrue\n"


def test_a_check_of_a_language_model_imports_neither_numpy_nor_other_nodes() -> None:
    program = """
import sys
from servers.cli.command_line import main
assert main(["validate", "examples/config.json"]) == 0
print([each for each in ("numpy", "aiohttp", "grpc", "calculators.core", "calculators.llm.servable")
       if each in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "examples/config.json: ok (1 graph)\n[]\n"


def family(registry: Registry, loads: list[str]) -> None:
    def register(into: Registry) -> None:
        loads.append("loaded")
        into.register_calculator(Mine)

    registry.register_family({"Mine"}.__contains__, register)


def test_a_family_is_loaded_once_for_a_name_of_its_own() -> None:
    loads: list[str] = []
    registry = Registry()
    family(registry, loads)
    child = Registry(registry)
    assert child.find_calculator("Other") is None
    assert loads == []
    assert child.find_calculator("Mine") is Mine
    assert child.find_calculator("Mine") is Mine
    assert list(child.calculators()) == ["Mine"]
    assert loads == ["loaded"]


def test_all_names_are_listed_and_a_taken_name_is_refused() -> None:
    registry = Registry()
    family(registry, [])
    assert "Mine" in registry.calculators()
    registry = Registry()
    family(registry, [])
    other = type("Mine", (Calculator,), {"__module__": "other"})
    with pytest.raises(GraphError, match="already registered"):
        registry.register_calculator(other)


def test_threads_that_want_one_family_get_it_all() -> None:
    registry = Registry()
    is_loading, may_end = threading.Event(), threading.Event()

    def register(into: Registry) -> None:
        is_loading.set()
        may_end.wait()
        into.register_calculator(Mine)

    registry.register_family({"Mine"}.__contains__, register)
    found = SimpleNamespace(first=None, second=None)
    first = threading.Thread(
        target=lambda: vars(found).update(first=registry.find_calculator("Mine"))
    )
    first.start()
    is_loading.wait()
    second = threading.Thread(
        target=lambda: vars(found).update(second=registry.find_calculator("Mine"))
    )
    second.start()
    may_end.set()
    first.join()
    second.join()
    assert (found.first, found.second) == (Mine, Mine)


def test_everything_can_be_registered() -> None:
    registry = Registry()
    calculators.register_all(registry)
    assert {name for names in NAMES.values() for name in names} <= {
        *registry.calculators(),
        *registry.subgraphs(),
    }


def test_modules_are_found_by_their_former_names() -> None:
    program = """
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    from calculators.requests.http_payload import HttpPayload
    import calculators.audio.sound
    from calculators.kit.requests import http_payload
    assert HttpPayload is http_payload.HttpPayload
    assert http_payload.__name__ == "calculators.kit.requests.http_payload"
    from calculators.image import register
    from calculators.llm.parsers.reasoning.harmony import GptOssParser
    from calculators.llm.parsers import harmony
    assert GptOssParser is harmony.GptOssParser
    from calculators.llm.parsers.events import Content
    print(sorted({str(each.message) for each in found}))
    try:
        import calculators.requests.nothing
    except ModuleNotFoundError as error:
        print(error.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    warned, missing = done.stdout.splitlines()
    assert (
        "calculators.requests.http_payload is calculators.kit.requests.http_payload now" in warned
    )
    assert missing.endswith("requests.nothing")
