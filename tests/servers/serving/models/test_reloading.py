"""Versions of plain models that come and go while the server runs; on demand; idle."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.tensors.inference import InferResponse
from servers.config import find_graph
from servers.contract.data_plane import InferAnswer, ReloadError
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save
from tests.servers.serving.asking import infer, opened
from tests.servers.serving.models.model_folders import (
    add_number_model,
    numbers,
    registry,
    request,
    status,
    write_broken,
    write_versions,
)
from tests.servers.serving.models.test_models_of_graphs import graph_text
from tests.servers.serving.reloading import Site
from tests.support.memory import needs_proc, resident_bytes

OK = ("AVAILABLE", "OK", "OK")


def write_models(folder: Path, *models: dict[str, Any]) -> None:
    listed = [{"config": each} for each in models]
    (folder / "config.json").write_text(json.dumps({"model_config_list": listed}))


def serving(folder: Path, scenario: Any) -> None:
    async def run() -> None:
        site = Site(folder, registry(), GraphSettings())
        await site.repository.load_all()
        assert not await site.step()
        try:
            await scenario(site, site.repository)
        finally:
            await site.reloader.close()
            await site.repository.close()

    asyncio.run(run())


def test_a_new_version_takes_over_and_a_removed_one_is_unloaded(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        write_versions(tmp_path, "m", 2)
        assert await site.step()
        assert status(repository, "m") == [("2", *OK)]
        assert await numbers(repository, request("m", X=[0, 0])) == [2, 2]
        shutil.rmtree(folder / "2")
        assert await site.step()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        assert not await site.step()
        shutil.rmtree(folder)  # a loaded version is kept
        await site.step()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        assert not await site.step()

    serving(tmp_path, scenario)


def test_a_version_that_is_still_being_copied_stops_nothing(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        save(add_number_model(2), tmp_path / "whole" / "model.xml")
        whole = (tmp_path / "whole" / "model.xml").read_bytes()
        (folder / "2").mkdir()
        assert await site.step()
        first, second = status(repository, "m")
        assert first == ("1", *OK)
        assert second[:3] == ("2", "LOADING", "FAILED_PRECONDITION")
        assert "the folder 2 has no file" in second[3]
        (folder / "2" / "model.xml").write_bytes(whole[:100])
        assert await site.step()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        shutil.copy(tmp_path / "whole" / "model.bin", folder / "2")
        (folder / "2" / "model.xml").write_bytes(whole)
        assert await site.step()
        assert status(repository, "m") == [("2", *OK)]
        assert await numbers(repository, request("m", X=[0, 0])) == [2, 2]

    serving(tmp_path, scenario)


def test_a_reload_reports_a_version_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        write_broken(folder, 2)
        for _ in range(2):
            with pytest.raises(ReloadError, match="failed: m: version 2: OpenVINO") as caught:
                await site.reloader.reload()
            assert (caught.value.reloaded, list(caught.value.failed)) == ((), ["m"])
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        shutil.rmtree(folder / "2")
        write_versions(tmp_path, "m", 3)
        assert await site.reloader.reload()
        assert await numbers(repository, request("m", X=[0, 0])) == [3, 3]

    serving(tmp_path, scenario)


@pytest.mark.parametrize("is_all", [False, True])
def test_models_whose_files_vanish_answer_and_the_reload_says_so(
    tmp_path: Path, is_all: bool
) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        shutil.rmtree(folder if is_all else folder / "1")
        with pytest.raises(ReloadError, match=r"failed: m: (there is no dir|its base_path)"):
            await site.reloader.reload()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        ((_, state, code, message),) = status(repository, "m")
        assert (state, code) == ("AVAILABLE", "OK")
        assert message.startswith("the loaded versions answer, but loading them again would fail: ")
        write_versions(tmp_path, "m", 1)
        assert await site.reloader.reload()
        assert status(repository, "m") == [("1", *OK)]

    serving(tmp_path, scenario)


def test_overwritten_files_are_loaded_when_a_reload_is_asked_for(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})
    file = folder / "1" / "model.xml"

    async def scenario(site: Site, repository: ModelRepository) -> None:
        save(add_number_model(7), file)
        assert not await site.step()  # they may be half written
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        assert await site.reloader.reload()
        assert await numbers(repository, request("m", X=[0, 0])) == [7, 7]
        assert not await site.reloader.reload()
        file.write_text("<nonsense/>")
        with pytest.raises(ReloadError, match="failed: m: OpenVINO on CPU: Unable to read"):
            await site.reloader.reload()
        assert await numbers(repository, request("m", X=[0, 0])) == [7, 7]
        assert "could not be loaded, so the previous one" in status(repository, "m")[0][3]
        assert not await site.step()
        save(add_number_model(8), file)  # a broken file is watched
        assert await site.step()
        assert await numbers(repository, request("m", X=[0, 0])) == [8, 8]
        assert status(repository, "m") == [("1", *OK)]

    serving(tmp_path, scenario)


def test_requests_are_answered_while_versions_change(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        is_over = False

        async def ask() -> list[float]:
            seen: list[float] = []
            while not is_over:
                seen.append((await numbers(repository, request("m", X=[0, 0])))[0])
            return seen

        asking = [asyncio.create_task(ask()) for _ in range(3)]
        for version in range(2, 7):
            write_versions(tmp_path, "m", version)
            assert await site.step()
            shutil.rmtree(folder / str(version - 1))
            await site.step()
        is_over = True
        for seen in await asyncio.gather(*asking):
            assert seen == sorted(seen)
            assert seen[0] == 1
        assert await numbers(repository, request("m", X=[0, 0])) == [6, 6]

    serving(tmp_path, scenario)


def test_a_stream_keeps_its_version(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        answers: asyncio.Queue[InferAnswer] = asyncio.Queue()
        first = request("m", X=[0, 0])
        async with opened(repository, first, answers.put_nowait) as stream:
            await stream.send(first)
            write_versions(tmp_path, "m", 2)
            assert await site.step()
            assert status(repository, "m") == [
                (
                    "1",
                    "UNLOADING",
                    "OK",
                    "unloading: no new requests; those in flight go on to their end",
                ),
                ("2", *OK),
            ]
            await stream.send(first)
            stream.close_inputs()
            await stream.wait()
        for _ in range(2):
            answer = answers.get_nowait()
            assert isinstance(answer, InferResponse)
            assert answer.version == "1"
        assert await numbers(repository, first) == [2, 2]

    serving(tmp_path, scenario)


def test_changed_settings_load_a_new_model_beside_the_old_one(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    write_models(tmp_path, {"name": "m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        write_models(tmp_path, {"name": "m", "shape": {"Z": "auto"}})
        assert await site.step()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        ((_, state, code, message),) = status(repository, "m")
        assert (state, code) == ("AVAILABLE", "OK")
        assert 'shape: the model has no tensor "Z"' in message
        assert not await site.step()
        write_models(tmp_path, {"name": "m", "shape": {"X": "(3)"}})
        assert await site.step()
        assert await numbers(repository, request("m", X=[0, 0, 0])) == [1, 1, 1]
        assert status(repository, "m") == [("1", *OK)]

    serving(tmp_path, scenario)


def test_a_graph_loads_a_model_that_it_needs_on_demand(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 7)
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "graph.pbtxt").write_text(graph_text("m"))
    listed = [{"config": {"name": "m", "load": "on_demand", "idle_unload_seconds": 1}}]
    config = {"mediapipe_config_list": [{"name": "g"}], "model_config_list": listed}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert find_graph(tmp_path / "g").graph_path.is_file()

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert await numbers(repository, request("g", x=[0, 0])) == [7, 7]

    serving(tmp_path, scenario)


@needs_proc
def test_the_memory_of_an_idle_model_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = parameter("X", [1, 2048])
    y = x
    for number in range(8):  # 128 MB; of equal weights the library would keep one
        weights = np.full((2048, 2048), 1e-3 * (number + 1), np.float32)
        y = op.matmul(y, op.constant(weights), False, False)
    save(openvino.Model([op.result(named(y, "Y"))], [x], "big"), tmp_path / "m" / "1" / "m.xml")
    write_models(tmp_path, {"name": "m", "load": "on_demand", "idle_unload_seconds": 60})
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    async def scenario(site: Site, repository: ModelRepository) -> None:
        nonlocal now
        asked = request("m", X=np.ones((1, 2048), np.float32))
        before = megabytes()
        for _ in range(3):
            await infer(repository, asked)
            loaded = megabytes()
            # Weights are mapped, and converted as the processor needs it: more than this anywhere.
            assert loaded - before > 25
            now += 60
            repository.unload_idle()
            await asyncio.gather(
                *(each for each in asyncio.all_tasks() if each.get_name() == "unload m")
            )
            assert status(repository, "m")[0][3].startswith("available on demand")
            assert megabytes() - before < 60, (before, loaded, megabytes())

    serving(tmp_path, scenario)


def megabytes() -> int:
    """Return this process's resident memory in MB."""
    return resident_bytes() >> 20
