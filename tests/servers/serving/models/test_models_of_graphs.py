"""Graphs whose sessions use plain models of the configuration."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.places import Places
from calculators.tensors.openvino.placed_model import ModelWork
from graph_runtime import FamilySettings, RunError, UnavailableError
from servers.config import read_config
from servers.contract.data_plane import InferAnswer, ServableState, TensorMetadata
from servers.serving.model_repository import ModelRepository
from tests.calculators.here_place import HerePlace
from tests.calculators.tensors.openvino.graphs import session_and_inference
from tests.calculators.tensors.openvino.tiny_models import save
from tests.servers.serving.asking import opened
from tests.servers.serving.models.model_folders import (
    add_number_model,
    entry,
    numbers,
    registry,
    request,
    serving,
    write_versions,
)
from tests.servers.serving.served_graphs import write_graph

ALL: dict[str, object] = {"all": {}}


def graph_text(model: str, version: str = "") -> str:
    """Return a graph whose ``y`` is the model's result for ``x``."""
    text = session_and_inference(model, ["X:x"], ["Y:y"])
    if version:
        text = text.replace(f'"{model}"', f'"{model}" servable_version: "{version}"')
    return text


def test_graphs_and_clients_share_a_model(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1, 2)
    graphs = [
        write_graph(tmp_path, "latest", graph_text("m")),
        write_graph(tmp_path, "first", graph_text("m", "1")),
    ]

    async def scenario(repository: ModelRepository) -> None:
        assert await numbers(repository, request("latest", x=[0, 0])) == [2, 2]
        assert await numbers(repository, request("first", x=[0, 0])) == [1, 1]
        assert await numbers(repository, request("m", X=[0, 0])) == [2, 2]
        # The model's metadata are those of the graph.
        assert (await repository.metadata("latest")).inputs == (TensorMetadata("x", "FP32", (2,)),)
        # None of them takes HTTP requests.
        assert repository.models() == []
        assert [each.name for each in repository.index()][:2] == ["latest", "first"]

    serving([entry(tmp_path, "m", model_version_policy=ALL)], scenario, graphs)


def test_a_session_with_a_place_does_not_load_the_model_here(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1, 2)
    named = graph_text("m").replace("node {", 'node { name: "model"', 1)
    place = HerePlace()
    places = Places(lambda name: place if name == "model" else None)

    async def scenario(repository: ModelRepository) -> None:
        assert await numbers(repository, request("g", x=[0, 0])) == [2, 2]
        assert isinstance(place.work, ModelWork)
        (model,) = [each for each in repository.servables() if each.name == "m"]
        assert model.state is ServableState.ON_DEMAND

    serving(
        [entry(tmp_path, "m", model_version_policy=ALL, load="on_demand")],
        scenario,
        [write_graph(tmp_path, "g", named)],
        families=FamilySettings(places),
    )


def test_a_place_whose_model_is_not_there_is_named(tmp_path: Path) -> None:
    graph = write_graph(tmp_path, "g", graph_text("none"))

    async def scenario(repository: ModelRepository) -> None:
        reason = repository.servables()[0].reason
        assert reason.startswith('node "OpenVINOModelServerSessionCalculator": there is no model')

    serving([], scenario, [graph], families=FamilySettings(Places(lambda name: HerePlace())))


def test_a_model_of_the_configuration_comes_before_one_beside_the_graph(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    graph = write_graph(tmp_path, "g", graph_text("m"))
    other = write_graph(tmp_path, "h", graph_text("beside"))
    for name in ("m", "beside"):
        save(add_number_model(9), graph.directory / name / "1" / "model.xml")
        save(add_number_model(9), other.directory / name / "1" / "model.xml")

    async def scenario(repository: ModelRepository) -> None:
        assert await numbers(repository, request("g", x=[0, 0])) == [1, 1]
        assert await numbers(repository, request("h", x=[0, 0])) == [9, 9]

    serving([entry(tmp_path, "m")], scenario, [graph, other])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("bad", 'The model "bad" could not be loaded: its base_path "bad" has no folder of a'),
        ("mm", 'there is no model "mm": neither mm/1/model.xml nor mm.xml beside the graph. Did'),
    ],
)
def test_a_graph_reports_the_error_of_its_model(tmp_path: Path, model: str, reason: str) -> None:
    (tmp_path / "bad").mkdir()
    write_versions(tmp_path, "m", 1)
    graph = write_graph(tmp_path, "g", graph_text(model))

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RunError) as caught:
            await numbers(repository, request("g", x=[0, 0]))
        assert reason in str(caught.value)

    serving([entry(tmp_path, "bad"), entry(tmp_path, "m")], scenario, [graph])


def test_a_graph_is_not_served_without_the_version_that_it_names(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    graph = write_graph(tmp_path, "g", graph_text("m", "7"))
    reason = 'The model "m" has no version "7"; it has 1'

    async def scenario(repository: ModelRepository) -> None:
        (served,) = [each for each in repository.servables() if each.name == "g"]
        assert served.state is ServableState.FAILED
        assert reason in served.reason
        with pytest.raises(UnavailableError) as caught:
            await numbers(repository, request("g", x=[0, 0]))
        assert reason in str(caught.value)

    serving([entry(tmp_path, "m")], scenario, [graph])


def test_runs_keep_a_model_that_is_unloaded(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    graph = write_graph(tmp_path, "g", graph_text("m"))

    async def scenario(repository: ModelRepository) -> None:
        answers: asyncio.Queue[InferAnswer] = asyncio.Queue()
        first = request("g", x=[0, 0])
        async with opened(repository, first, answers.put_nowait) as stream:
            await stream.send(first)
            await answers.get()
            await repository.unload("m")
            await stream.send(first)
            await answers.get()
            stream.close_inputs()
            await stream.wait()
        with pytest.raises(RunError, match='The model "m" is not served any more'):
            await numbers(repository, first)
        assert repository.is_model_ready("g")
        await repository.load("m")
        assert await numbers(repository, first) == [1, 1]

    serving([entry(tmp_path, "m")], scenario, [graph])


def test_models_of_subconfigs_are_shared_by_all(tmp_path: Path) -> None:
    for name in ("own", "other"):
        write_graph(tmp_path, name, graph_text("m"))
    save(add_number_model(3), tmp_path / "own" / "models" / "1" / "model.xml")
    listed = {"model_config_list": [{"config": {"name": "m", "base_path": "models"}}]}
    (tmp_path / "own" / "subconfig.json").write_text(json.dumps(listed))
    graphs = [{"name": "other"}, {"name": "own"}]
    (tmp_path / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))
    config = read_config(tmp_path / "config.json")
    assert config.findings == ()

    async def run() -> list[Any]:
        repository = ModelRepository(config.graphs, registry(), None, config.models)
        await repository.load_all()
        try:
            return [
                await numbers(repository, request("own", x=[0, 0])),
                await numbers(repository, request("other", x=[1, 1])),
                await numbers(repository, request("m", X=[2, 2])),
            ]
        finally:
            await repository.close()

    assert asyncio.run(run()) == [[3, 3], [4, 4], [5, 5]]
