"""Loading and unloading through KServe's repository while the server runs."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import weakref
from pathlib import Path
from typing import Any

import openvino
import pytest

from graph_runtime import Code, GraphError, NotFoundError, UnavailableError
from servers.contract.data_plane import IndexEntry
from servers.serving.model_repository import ModelRepository
from servers.serving.models.model_definition import ModelDefinition
from tests.calculators.tensors.openvino.tiny_models import calling_model, compiled, save
from tests.servers.serving.models.model_folders import (
    add_number_model,
    entry,
    numbers,
    request,
    serving,
    status,
    write_broken,
    write_versions,
)
from tests.servers.serving.served_graphs import write_graph
from tests.support.patience import PATIENCE

GRAPH = """
    input_stream: "x"
    output_stream: "y"
    node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }
"""


def test_a_model_is_unloaded_and_loaded_again(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    write_versions(tmp_path, "n", 5)

    async def scenario(repository: ModelRepository) -> None:
        await repository.unload("m")
        assert not repository.is_model_ready("m")
        with pytest.raises(UnavailableError, match='The model "m" is not served any more'):
            await numbers(repository, request("m", X=[0, 0]))
        assert repository.index()[0] == IndexEntry("m", "1", "UNAVAILABLE", "unloaded")
        assert status(repository, "m") == [("1", "END", "OK", "unloaded")]
        assert await numbers(repository, request("n", X=[0, 0])) == [5, 5]
        assert repository.is_ready
        await repository.unload("m")  # again
        await repository.load("m")
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        await repository.load("m")  # again
        assert repository.index()[0] == IndexEntry("m", "1", "READY")

    serving([entry(tmp_path, "m"), entry(tmp_path, "n")], scenario)


def test_a_server_whose_models_were_all_unloaded_is_ready_for_more(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        await repository.unload("m")
        assert repository.is_ready

    serving([entry(tmp_path, "m")], scenario)


def test_an_unloaded_model_is_freed(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        await numbers(repository, request("m", X=[0, 0]))
        (definition,) = repository.servables()
        assert isinstance(definition, ModelDefinition)
        model = definition.versions[1].model
        assert model is not None
        held = weakref.ref(model)
        del model
        await repository.unload("m")
        gc.collect()
        assert held() is None

    serving([entry(tmp_path, "m")], scenario)


def test_loading_reads_the_current_files(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        write_versions(tmp_path, "m", 2, 3)
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        await repository.load("m")
        assert [version for version, *_ in status(repository, "m")] == ["2", "3"]
        assert await numbers(repository, request("m", X=[0, 0])) == [3, 3]
        with pytest.raises(NotFoundError, match="it has 2, 3"):
            await numbers(repository, request("m", version="1", X=[0, 0]))

    policy = {"latest": {"num_versions": 2}}
    serving([entry(tmp_path, "m", base_path=str(folder), model_version_policy=policy)], scenario)


def test_a_loaded_model_survives_the_removal_of_its_files(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        folder.rename(tmp_path / "elsewhere")
        with pytest.raises(GraphError, match='before answers: there is no directory "m", its base'):
            await repository.load("m")
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        await repository.unload("m")
        with pytest.raises(GraphError, match='there is no directory "m", its base_path'):
            await repository.load("m")

    serving([entry(tmp_path, "m")], scenario)


def test_loading_says_which_version_failed_and_takes_overwritten_files(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        write_broken(folder, 2)
        with pytest.raises(GraphError, match="before answers: version 2: OpenVINO on CPU: Unable"):
            await repository.load("m")
        shutil.rmtree(folder / "2")
        save(add_number_model(7), folder / "1" / "model.xml")
        await repository.load("m")
        assert await numbers(repository, request("m", X=[0, 0])) == [7, 7]

    serving([entry(tmp_path, "m")], scenario)


def test_a_failed_load_has_a_reason_and_can_be_retried(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    graph = write_graph(tmp_path, "g", "node {")

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(
            GraphError, match=r"could not be loaded: .* no folder of a ver"
        ) as caught:
            await repository.load("m")
        assert caught.value.code is Code.FAILED_PRECONDITION
        with pytest.raises(GraphError, match=r'"g" could not be loaded: graph\.pbtxt:1:'):
            await repository.load("g")
        with pytest.raises(NotFoundError, match='Did you mean "m"'):
            await repository.load("mm")
        with pytest.raises(NotFoundError):
            await repository.unload("mm")
        write_versions(tmp_path, "m", 1)
        await repository.load("m")
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        graph.graph_path.write_text(GRAPH)
        await repository.load("g")
        assert status(repository, "g") == [("1", "AVAILABLE", "OK", "OK")]
        await repository.unload("g")
        assert status(repository, "g") == [("1", "END", "OK", "unloaded")]

    serving([entry(tmp_path, "m")], scenario, [graph])


def test_loading_a_loaded_graph_changes_nothing(tmp_path: Path) -> None:
    graph = write_graph(tmp_path, "g", GRAPH)

    async def scenario(repository: ModelRepository) -> None:
        await repository.load("g")
        assert repository.is_model_ready("g")

    serving([], scenario, [graph])


def test_loads_of_one_model_share_a_wait(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        await repository.unload("m")
        first = asyncio.create_task(repository.load("m"))
        second = asyncio.create_task(repository.load("m"))
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError, match="still loading; unload it when it is loaded"):
            await repository.unload("m")
        first.cancel()  # one client that leaves does not end it for the other
        await second
        assert repository.is_model_ready("m")

    serving([entry(tmp_path, "m")], scenario)


def test_requests_in_flight_continue_while_a_model_is_unloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_versions(tmp_path, "m", 1)
    began, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        assert go_on.wait(PATIENCE)

    class Calling:
        """Builds a model whose inferences wait for the test."""

        def __init__(self) -> None:
            self.core = openvino.Core()
            self.model = calling_model(wait)

        def read_model(self, file: Path) -> Any:
            return self.model

        def compile_model(self, *arguments: Any) -> Any:
            return compiled(self.model)

    core = Calling()
    monkeypatch.setattr("calculators.tensors.openvino.model_loading._core", lambda _: core)
    monkeypatch.setattr("servers.serving.model_repository.UNLOAD_SECONDS", 0)

    async def scenario(repository: ModelRepository) -> None:
        asked = asyncio.create_task(numbers(repository, request("m", X=[3, 4])))
        await asyncio.to_thread(began.wait, 30)
        await repository.unload("m")
        assert not asked.done()
        assert status(repository, "m") == [
            (
                "1",
                "UNLOADING",
                "OK",
                "unloading: no new requests; those in flight go on to their end",
            )
        ]
        assert repository.index() == [IndexEntry("m", "1", "UNAVAILABLE", "unloading")]
        with pytest.raises(UnavailableError, match="not served any more"):
            await numbers(repository, request("m", X=[3, 4]))
        with pytest.raises(UnavailableError, match="still being unloaded: requests in flight"):
            await repository.load("m")
        monkeypatch.setattr("servers.serving.model_repository.UNLOAD_SECONDS", 30)
        loading = asyncio.create_task(repository.load("m"))
        await repository.unload("m")  # again
        assert not loading.done()
        go_on.set()
        assert await asked == [3, 4]
        await loading
        assert await numbers(repository, request("m", X=[5, 6])) == [5, 6]

    serving([entry(tmp_path, "m")], scenario)


def test_nothing_is_loaded_during_the_shutdown(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        await repository.unload("m")
        repository.begin_draining()
        with pytest.raises(UnavailableError, match="shutting down"):
            await repository.load("m")

    serving([entry(tmp_path, "m")], scenario)
