"""Adapters are found by their names, which must be unique."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph_runtime import GraphError, NotFoundError
from servers.config.entries import LoadPolicy
from servers.contract.data_plane import ModelDescription, ServableState
from servers.serving.model_repository import ModelRepository
from tests.servers.serving.asking import answer
from tests.servers.serving.reloading import Site, reloading, write_config
from tests.servers.serving.served_graphs import http_graph, write_graph
from tests.servers.serving.test_model_repository import serving, status


def adapted(*names: str) -> str:
    """Return a graph that echoes, with the options of a language model with adapters."""
    adapters = " ".join(f'adapters {{ name: "{name}" path: "x" }}' for name in names)
    return http_graph(
        "Echo",
        "node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] {"
        f' models_path: "./" {adapters} }} }}',
    )


def names_of(repository: ModelRepository) -> list[tuple[str, str]]:
    return [(model.name, model.parent) for model in repository.models()]


def test_a_request_to_an_adapter_reaches_its_graph(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert await answer(repository, "org/pirate", "hello") == ["hello"]
        assert await answer(repository, "base", "hello") == ["hello"]
        assert names_of(repository) == [
            ("base", ""),
            ("org/pirate", "base"),
            ("letter", "base"),
            ("other", ""),
        ]
        (_, adapter, *_) = repository.models()
        assert isinstance(adapter, ModelDescription)
        assert adapter.created > 0
        assert repository.is_model_ready("letter")
        assert (await repository.metadata("letter")).name == "letter"

    entries = [
        write_graph(tmp_path, "base", adapted("org/pirate", "letter")),
        write_graph(tmp_path, "other", http_graph("Echo")),
    ]
    serving(entries, scenario)


def test_an_unknown_name_is_not_found_and_near_ones_are_suggested(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(NotFoundError, match=r'"pirat" does not exist.*"pirate"'):
            await answer(repository, "pirat")

    serving([write_graph(tmp_path, "base", adapted("pirate"))], scenario)


def test_adapters_cannot_be_loaded_or_unloaded_alone(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        for change in (repository.load, repository.unload):
            with pytest.raises(NotFoundError, match='"pirate" is an adapter of the model "base"'):
                await change("pirate")
        await repository.unload("base")
        assert names_of(repository) == []
        with pytest.raises(GraphError, match='The model "base"'):
            await answer(repository, "pirate")
        await repository.load("base")
        assert await answer(repository, "pirate", "back") == ["back"]

    serving([write_graph(tmp_path, "base", adapted("pirate"))], scenario)


def test_the_status_of_a_model_is_reported_once(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert list(repository.statuses()) == ["base"]
        assert [entry.name for entry in repository.index()] == ["base"]

    serving([write_graph(tmp_path, "base", adapted("pirate"))], scenario)


def test_the_later_of_two_graphs_with_the_same_adapter_is_not_loaded(tmp_path: Path) -> None:
    async def scenario(repository: ModelRepository) -> None:
        assert names_of(repository) == [("first", ""), ("pirate", "first"), ("third", "")]
        state, _, reason = status(repository, "second")
        assert state == "LOADING"  # OpenVINO Model Server's state of failed models
        assert 'the adapter "pirate" has the name of an adapter of the model "first"' in reason

    entries = [
        write_graph(tmp_path, "first", adapted("pirate")),
        write_graph(tmp_path, "second", adapted("letter", "pirate")),
        write_graph(tmp_path, "third", adapted()),
    ]
    serving(entries, scenario)


@pytest.mark.parametrize("order", [("base", "pirate"), ("pirate", "base")])
def test_an_adapter_with_the_name_of_a_graph_is_not_loaded(
    order: tuple[str, str], tmp_path: Path
) -> None:
    texts = {"base": adapted("pirate"), "pirate": http_graph("Echo")}

    async def scenario(repository: ModelRepository) -> None:
        assert names_of(repository) == [("pirate", "")]
        assert 'has the name of the model "pirate"' in status(repository, "base")[2]

    serving([write_graph(tmp_path, name, texts[name]) for name in order], scenario)


def test_adapters_of_subgraphs_are_found(tmp_path: Path) -> None:
    entry = write_graph(tmp_path, "outer", http_graph("Inner"))
    (tmp_path / "outer" / "inner.pbtxt").write_text(f'type: "Inner" {adapted("pirate")}')

    async def scenario(repository: ModelRepository) -> None:
        assert await answer(repository, "pirate", "hello") == ["hello"]

    serving([entry], scenario)


def test_a_request_to_an_adapter_loads_its_graph_on_demand(tmp_path: Path) -> None:
    write_config(tmp_path, {"name": "base", "load": "on_demand"})
    write_graph(tmp_path, "base", adapted("pirate"))

    async def scenario(site: Site) -> None:
        (servable,) = site.repository.servables()
        assert servable.entry.residence != LoadPolicy()
        assert servable.state is ServableState.ON_DEMAND
        assert names_of(site.repository) == [("base", ""), ("pirate", "base")]
        assert await site.ask("pirate", "hello") == "hello"

    reloading(tmp_path, scenario)


def test_an_added_adapter_appears_with_the_reload(tmp_path: Path) -> None:
    write_config(tmp_path, "base")
    write_graph(tmp_path, "base", adapted("pirate"))

    async def scenario(site: Site) -> None:
        (tmp_path / "base" / "graph.pbtxt").write_text(adapted("letter"))
        assert await site.ask("pirate", "until then") == "until then"
        assert await site.step()
        assert await site.ask("letter", "hello") == "hello"
        with pytest.raises(NotFoundError):
            await site.ask("pirate")

    reloading(tmp_path, scenario)


def test_a_graph_that_takes_the_name_of_an_adapter_later_is_not_loaded(tmp_path: Path) -> None:
    write_config(tmp_path, "base")
    write_graph(tmp_path, "base", adapted("pirate"))

    async def scenario(site: Site) -> None:
        write_graph(tmp_path, "pirate", http_graph("Echo"))
        write_config(tmp_path, "base", "pirate")
        await site.step()
        told = site.status("pirate")[2]
        assert 'the name "pirate" is that of an adapter of the model "base"' in told

    reloading(tmp_path, scenario)
