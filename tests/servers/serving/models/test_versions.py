"""Versions of plain models: which are served, which one answers, and how failures are reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from graph_runtime import NotFoundError, UnavailableError
from servers.contract.data_plane import IndexEntry
from servers.serving.model_repository import ModelRepository
from servers.serving.models.version_folders import find_versions
from tests.calculators.tensors.openvino.tiny_models import save
from tests.servers.serving.models.model_folders import (
    add_number_model,
    entry,
    numbers,
    registry,
    request,
    serving,
    status,
    write_versions,
)

ALL: dict[str, object] = {"all": {}}
OK = ("AVAILABLE", "OK", "OK")


def test_the_policy_determines_the_served_versions(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1, 2, 10)
    models = [
        entry(tmp_path, "latest", base_path="m"),
        entry(tmp_path, "two", base_path="m", model_version_policy={"latest": {"num_versions": 2}}),
        entry(tmp_path, "all", base_path="m", model_version_policy=ALL),
        entry(tmp_path, "1", base_path="m", model_version_policy={"specific": {"versions": [1]}}),
    ]

    async def scenario(repository: ModelRepository) -> None:
        assert status(repository, "latest") == [("10", *OK)]
        assert status(repository, "two") == [("2", *OK), ("10", *OK)]
        assert status(repository, "all") == [("1", *OK), ("2", *OK), ("10", *OK)]
        assert status(repository, "1") == [("1", *OK)]
        assert (await repository.metadata("all")).versions == ("1", "2", "10")
        assert repository.models() == []  # clients of OpenAI cannot use them
        assert [each.name for each in repository.servables()] == ["latest", "two", "all", "1"]
        assert repository.is_ready

    serving(models, scenario)


def test_a_request_names_a_version_or_gets_the_highest(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1, 2, 10)

    async def scenario(repository: ModelRepository) -> None:
        for version, number in [("", 10), ("0", 10), ("10", 10), ("2", 2), ("1", 1)]:
            assert (
                await numbers(repository, request("m", version=version, X=[0, 0])) == [number] * 2
            )
            assert repository.is_model_ready("m", version)
        for version in ("3", "-1", "1.0", "one", "٢", "9" * 99):
            with pytest.raises(NotFoundError, match=r'"m" has no version ".*"; it has 1, 2, 10$'):
                await numbers(repository, request("m", version=version, X=[0, 0]))
            with pytest.raises(NotFoundError):
                repository.is_model_ready("m", version)
            with pytest.raises(NotFoundError):
                await repository.metadata("m", version)
        with pytest.raises(NotFoundError, match='"M" does not exist'):
            repository.is_model_ready("M")

    serving([entry(tmp_path, "m", model_version_policy=ALL)], scenario)


def test_a_version_that_fails_stops_no_other(tmp_path: Path) -> None:
    folder = write_versions(tmp_path, "m", 1)
    (folder / "2").mkdir()
    (folder / "3").mkdir()
    (folder / "3" / "model.xml").write_text("<nonsense/>")
    policy = {"specific": {"versions": [1, 2, 3, 4]}}

    async def scenario(repository: ModelRepository) -> None:
        first, empty, broken, missing = status(repository, "m")
        assert first == ("1", *OK)
        for version, state, code, _ in (empty, broken, missing):
            assert (state, code) == ("LOADING", "FAILED_PRECONDITION"), version
        assert (
            empty[3] == "the folder 2 has no file that ends in .xml, .onnx, .pb, .pdmodel, .tflite"
        )
        assert broken[3].startswith("OpenVINO on CPU: Unable to read the model")
        assert missing[3] == "there is no folder 4 in its base_path"
        assert str(tmp_path) not in str(repository.statuses())
        assert repository.index()[:2] == [
            IndexEntry("m", "1", "READY"),
            IndexEntry("m", "2", "UNAVAILABLE", empty[3]),
        ]
        # The highest loaded version answers requests that name none.
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        assert not repository.is_model_ready("m", "2")
        with pytest.raises(
            UnavailableError, match=r"Version 2 of the model .* could not be loaded"
        ):
            await numbers(repository, request("m", version="2", X=[0, 0]))
        assert repository.is_ready

    serving([entry(tmp_path, "m", model_version_policy=policy)], scenario)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"base_path": "none"}, 'there is no directory "none", its base_path'),
        ({"base_path": "empty"}, 'its base_path "empty" has no folder of a version, such as 1'),
        ({"base_path": "file.txt"}, 'there is no directory "file.txt", its base_path'),
        ({"base_path": "good/1"}, 'this is the folder of version 1: name "good", which holds it'),
        ({"base_path": "several"}, 'folder "1" holds 2 models: detokenizer.xml, model.xml; leave'),
        ({"base_path": "s3://bucket/../m"}, "the address of its store cannot be read; the forms"),
        (
            {"base_path": "good", "custom_loader_options": {"loader_name": "x"}},
            "custom loaders are not served",
        ),
        ({"base_path": "good", "target_device": "XPU"}, 'OpenVINO on XPU: Device with "XPU" name'),
        ({"base_path": "good", "shape": {"Z": "auto"}}, 'shape: the model has no tensor "Z"'),
        ({"base_path": "good", "plugin_config": {"NO": 1}}, "Unsupported property NO by CPU"),
    ],
)
def test_a_model_that_fails_has_a_reason_and_stops_no_other(
    tmp_path: Path, config: dict[str, object], reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    write_versions(tmp_path, "good", 1)
    several = write_versions(tmp_path, "several", 1)
    (several / "1" / "detokenizer.xml").touch()

    async def scenario(repository: ModelRepository) -> None:
        ((_, state, code, message),) = status(repository, "bad")
        assert (state, code) == ("LOADING", "FAILED_PRECONDITION")
        assert reason in message
        assert str(tmp_path) not in message
        assert repository.is_model_ready("good")
        assert not repository.is_model_ready("bad")
        with pytest.raises(
            UnavailableError, match='The model "bad" could not be loaded: '
        ) as caught:
            await numbers(repository, request("bad", X=[0, 0]))
        assert reason in str(caught.value)
        assert await numbers(repository, request("good", X=[0, 0])) == [1, 1]

    serving([entry(tmp_path, "bad", **config), entry(tmp_path, "good")], scenario)


def test_a_folder_without_a_model_is_no_folder_of_a_version(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    problem = find_versions(entry(tmp_path, "m", base_path="7")).problem
    assert str(problem).endswith("with a model in it, and no graph.pbtxt")


def test_the_file_of_a_model_is_its_version_1(tmp_path: Path) -> None:
    save(add_number_model(5), tmp_path / "model.xml")

    async def scenario(repository: ModelRepository) -> None:
        assert status(repository, "m") == [("1", *OK)]
        assert await numbers(repository, request("m", X=[0, 0])) == [5, 5]

    serving([entry(tmp_path, "m", base_path="model.xml")], scenario)


def test_a_model_reports_its_state_before_and_during_the_load(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def run() -> None:
        repository = ModelRepository([], registry(), None, [entry(tmp_path, "m")])
        assert status(repository, "m") == [("1", "START", "OK", "not loaded yet")]
        assert repository.index() == [IndexEntry("m", "", "LOADING")]
        with pytest.raises(UnavailableError, match='The model "m" is still loading'):
            await numbers(repository, request("m", X=[0, 0]))
        loading = asyncio.create_task(repository.load_all())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert status(repository, "m") == [("1", "LOADING", "OK", "loading")]
        assert not repository.is_ready
        await loading
        assert repository.is_ready
        await repository.close()
        assert status(repository, "m") == [("1", "END", "OK", "unloaded")]

    asyncio.run(run())


def test_closing_interrupts_loads(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def run() -> None:
        repository = ModelRepository([], registry(), None, [entry(tmp_path, "m")])
        loading = asyncio.create_task(repository.load_all())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await repository.close()
        await loading
        assert status(repository, "m")[0][1] == "END"

    asyncio.run(run())
