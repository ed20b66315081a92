"""``/v3/models`` lists what answers there, with the facts that its task has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.tasks import ModelToServe, Task, installed, installed_tasks
from calculators.kit.tasks.operation import TaskDescription
from graph_runtime import Registry
from servers.serving.model_repository import ModelRepository
from tests.servers.serving.reloading import Site, reloading, write_config
from tests.servers.serving.served_graphs import (
    TELL_GRAPH,
    Initializer,
    http_graph,
    write_graph,
)
from tests.servers.serving.test_model_repository import serving

TENSORS = """
input_stream: "x"
output_stream: "y"
node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }
"""


class Telling(Task):
    """A task that tells facts of the models of its nodes."""

    name = "telling"

    def register(self, registry: Registry) -> None:
        pass

    def serves(self, calculator: str) -> bool:
        return calculator == "Tell"

    def describe(self, model: str) -> TaskDescription:
        return TaskDescription((), {})

    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        return ""

    def example(self, model: str) -> tuple[str, dict[str, Any]]:
        return "", {}

    def model_facts(self, resource: Any) -> Mapping[str, Any]:
        return {"max_model_len": 7, "name": resource.settings.model_name}


@pytest.fixture(autouse=True)
def telling(monkeypatch: pytest.MonkeyPatch) -> Iterable[None]:
    # Beside the installed ones: registries of other tests may be filled while this one runs.
    tasks = (Telling(), *installed_tasks())
    monkeypatch.setattr(installed, "_loaded", lambda: (tasks, {}))
    return ()


def listed(repository: ModelRepository) -> list[tuple[str, str, dict[str, object]]]:
    return [(each.name, each.task, dict(each.facts)) for each in repository.models()]


def test_tasks_describe_their_models_and_other_graphs_have_no_task(tmp_path: Path) -> None:
    entries = [
        write_graph(tmp_path, "tensors", TENSORS),
        write_graph(tmp_path, "tell", TELL_GRAPH),
        write_graph(tmp_path, "echo", http_graph("Echo")),
    ]

    async def scenario(repository: ModelRepository) -> None:
        assert listed(repository) == [
            ("tell", "telling", {"max_model_len": 7, "name": "tell"}),
            ("echo", "", {}),
        ]
        assert [entry.name for entry in repository.index()] == ["tensors", "tell", "echo"]

    serving(entries, scenario, Initializer())


def test_facts_are_known_when_a_model_has_been_loaded(tmp_path: Path) -> None:
    for name, text in (("tell", TELL_GRAPH), ("tensors", TENSORS)):
        write_graph(tmp_path, name, text)
    write_config(
        tmp_path,
        {"name": "tell", "load": "on_demand"},
        {"name": "tensors", "load": "on_demand"},
    )
    known = {"max_model_len": 7, "name": "tell"}

    async def scenario(site: Site) -> None:
        repository = site.repository
        assert listed(repository) == [("tell", "telling", {})]
        await repository.load("tell")
        assert listed(repository) == [("tell", "telling", known)]

    reloading(tmp_path, scenario, [Initializer()])
