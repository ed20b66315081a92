"""Models in an object store: loaded, reloaded, and what a store that fails does to the rest.

The store is moto's server, by S3's protocol.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from servers.contract.data_plane import ReloadError
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from tests.servers.model_store.store_servers import Link, S3Server
from tests.servers.serving.models.model_folders import (
    numbers,
    registry,
    request,
    status,
    write_versions,
)
from tests.servers.serving.reloading import Site
from tests.support.patience import PATIENCE

OK = ("AVAILABLE", "OK", "OK")

Scenario = Callable[[Site, ModelRepository], Coroutine[Any, Any, None]]


def write_models(folder: Path, *models: dict[str, Any]) -> None:
    listed = [{"config": each} for each in models]
    (folder / "config.json").write_text(json.dumps({"model_config_list": listed}))


def serving(folder: Path, scenario: Scenario, **settings: Any) -> None:
    async def run() -> None:
        site = Site(folder, registry(), GraphSettings(**settings))
        await site.repository.load_all()
        try:
            await scenario(site, site.repository)
        finally:
            await site.reloader.close()
            await site.repository.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


async def until(site: Site, done: Callable[[], bool]) -> None:
    """Look for changes, as the watch does, until there are the ones that a test made."""
    async with asyncio.timeout(PATIENCE):
        while not done():
            await site.step()
            await asyncio.sleep(0.05)


def test_a_model_is_loaded_and_answers(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    s3.put(bucket, "models/m", write_versions(tmp_path, "here", 1, 2))
    write_models(
        tmp_path,
        {"name": "m", "base_path": f"s3://{bucket}/models/m"},
        {
            "name": "all",
            "base_path": f"s3://{bucket}/models/m/",
            "model_version_policy": {"all": {}},
        },
        {"name": "file", "base_path": f"s3://{s3.endpoint}/{bucket}/models/m/1/model.xml"},
    )

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert status(repository, "m") == [("2", *OK)]
        assert await numbers(repository, request("m", X=[0, 0])) == [2, 2]
        assert status(repository, "all") == [("1", *OK), ("2", *OK)]
        assert await numbers(repository, request("all", version="1", X=[0, 0])) == [1, 1]
        assert await numbers(repository, request("file", X=[0, 0])) == [1, 1]

    serving(tmp_path, scenario)


def test_new_versions_and_changed_files_are_served_and_loaded_versions_stay(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1))
    write_models(
        tmp_path,
        {"name": "m", "base_path": f"s3://{bucket}/m", "model_version_policy": {"all": {}}},
    )

    async def scenario(site: Site, repository: ModelRepository) -> None:
        definition = repository.find_model("m")
        assert definition is not None
        first = definition.versions[1]
        s3.put(bucket, "m", write_versions(tmp_path, "more", 2))
        await until(site, lambda: len(status(repository, "m")) == 2)
        assert repository.find_model("m") is definition
        assert definition.versions[1] is first  # it was not loaded again
        # Other content under the same names.
        write_versions(tmp_path, "other", 7)
        s3.put(bucket, "m/1", tmp_path / "other" / "7")
        await until(site, lambda: repository.find_model("m") is not definition)
        assert await numbers(repository, request("m", version="1", X=[0, 0])) == [7, 7]
        for name in ("model.xml", "model.bin"):
            s3.delete(bucket, f"m/2/{name}")
        await until(site, lambda: len(status(repository, "m")) == 1)

    serving(tmp_path, scenario)


def test_a_reload_that_is_asked_for_takes_what_is_there_at_once(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1))
    write_models(tmp_path, {"name": "m", "base_path": f"s3://{bucket}/m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert not await site.reloader.reload()
        s3.put(bucket, "m", write_versions(tmp_path, "more", 2))
        assert await site.reloader.reload()
        assert await numbers(repository, request("m", X=[0, 0])) == [2, 2]

    serving(tmp_path, scenario)


def test_a_graph_and_its_model_come_from_a_store(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    from tests.servers.serving.models.test_models_of_graphs import graph_text

    s3.put(bucket, "m", write_versions(tmp_path, "here", 3))
    s3.put(bucket, "g/graph.pbtxt", graph_text("m").encode())
    listed = {
        "mediapipe_config_list": [{"name": "g", "base_path": f"s3://{bucket}/g"}],
        "model_config_list": [{"config": {"name": "m", "base_path": f"s3://{bucket}/m"}}],
    }
    (tmp_path / "config.json").write_text(json.dumps(listed))

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert status(repository, "g") == [("1", *OK)]

    serving(tmp_path, scenario)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("s3://no-such-bucket-here/m", "there is no bucket in its store as its base_path names it"),
        ("s3://BUCKET/nothing", "there is nothing at its base_path in its store"),
        ("s3://BUCKET/m/1/", 'this is the folder of version 1: name "m", which holds it'),
        ("s3://127.0.0.1:1/BUCKET/m", "its store does not answer; is there a network?"),
        ("s3://key:secret@host/b", "the address of its store cannot be read; the forms are s3://"),
        ("azfs://share/m", "Azure's file shares (azfs://) are not read; mount the share"),
        ("az://container/m", "Azure's account is not known; set AZURE_STORAGE_CONNECTION_STRING"),
    ],
)
def test_a_store_that_fails_has_a_reason_and_stops_no_other(
    tmp_path: Path, s3: S3Server, bucket: str, address: str, reason: str
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "good", 1))
    write_models(
        tmp_path,
        {"name": "bad", "base_path": address.replace("BUCKET", bucket)},
        {"name": "good", "base_path": "good"},
    )

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert status(repository, "good") == [("1", *OK)]
        ((_, state, code, message),) = status(repository, "bad")
        assert (state, code) == ("LOADING", "FAILED_PRECONDITION")
        assert reason in message
        for secret in ("key-of-the-test", "secret-of-the-test", str(tmp_path)):
            assert secret not in message

    serving(tmp_path, scenario)


def test_a_store_that_hangs_stops_neither_others_nor_a_reload_nor_the_end(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    folder = write_versions(tmp_path, "good", 1)
    with Link(s3.endpoint) as link:
        link.is_hanging = True

        async def run() -> None:
            write_models(
                tmp_path,
                {"name": "bad", "base_path": f"s3://{link.endpoint}/{bucket}/m"},
                {"name": "good", "base_path": "good"},
            )
            site = Site(tmp_path, registry(), GraphSettings())
            loading = asyncio.create_task(site.repository.load_all())
            async with asyncio.timeout(PATIENCE):
                await until(site, lambda: status(site.repository, "good") == [("1", *OK)])
            write_versions(tmp_path, "good", 2)
            await until(site, lambda: status(site.repository, "good") == [("2", *OK)])
            assert not loading.done()
            ((_, _, _, message),) = status(site.repository, "bad")
            assert "its files are being downloaded" in message
            await site.reloader.close()
            await site.repository.close()  # although its thread still waits
            await asyncio.gather(loading, return_exceptions=True)

        asyncio.run(run())
    assert folder.is_dir()


def test_the_loaded_version_answers_while_the_store_is_gone(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1))
    write_models(tmp_path, {"name": "m", "base_path": f"s3://{bucket}/m"})
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)

        async def scenario(site: Site, repository: ModelRepository) -> None:
            link.is_cut = True
            link.cut()
            with pytest.raises(ReloadError, match="m: its store does not answer"):
                await site.reloader.reload()
            assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
            link.is_cut = False
            s3.put(bucket, "m", write_versions(tmp_path, "more", 2))
            await until(site, lambda: status(repository, "m") == [("2", *OK)])

        serving(tmp_path, scenario)


def test_a_start_without_the_store_takes_the_last_copy_and_other_models_answer(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1, 3))
    s3.put(bucket, "never", write_versions(tmp_path, "never", 1))
    write_versions(tmp_path, "good", 1)
    models = [
        {"name": "m", "base_path": f"s3://{bucket}/m"},
        {"name": "file", "base_path": f"s3://{bucket}/m/1/model.xml"},
        {"name": "good", "base_path": "good"},
    ]
    write_models(tmp_path, *models)
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)

        async def before(site: Site, repository: ModelRepository) -> None:
            assert status(repository, "m") == [("3", *OK)]

        async def without(site: Site, repository: ModelRepository) -> None:
            assert status(repository, "m") == [("3", *OK)]
            for name, number in (("m", 3), ("file", 1), ("good", 1)):
                assert await numbers(repository, request(name, X=[0, 0])) == [number] * 2
            ((_, state, _, message),) = status(repository, "never")
            assert (state, "its store does not answer" in message) == ("LOADING", True)
            # The store is there again, with another version.
            link.is_cut = False
            s3.put(bucket, "m", write_versions(tmp_path, "more", 4))
            await until(site, lambda: status(repository, "m") == [("4", *OK)])
            await until(site, lambda: status(repository, "never") == [("1", *OK)])

        serving(tmp_path, before)
        link.is_cut = True
        link.cut()
        monkeypatch.setattr("servers.serving.stored_entry.FIRST_PAUSE", 0.1)
        write_models(tmp_path, *models, {"name": "never", "base_path": f"s3://{bucket}/never"})
        serving(tmp_path, without)


def test_a_copy_is_not_used_where_the_store_says_no_or_a_part_is_missing(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1))
    write_models(tmp_path, {"name": "m", "base_path": f"s3://{bucket}/m"})
    cache = tmp_path / "cache" / "graphrt" / "converted"
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)

        async def before(site: Site, repository: ModelRepository) -> None:
            assert status(repository, "m") == [("1", *OK)]

        async def refused(site: Site, repository: ModelRepository) -> None:
            ((_, state, _, message),) = status(repository, "m")
            assert (state, reason in message) == ("LOADING", True), message

        serving(tmp_path, before)
        for name in ("model.xml", "model.bin"):
            s3.delete(bucket, f"m/1/{name}")
        reason = "there is nothing at its base_path"
        serving(tmp_path, refused)
        link.is_cut = True
        reason = "its store does not answer"
        for listing in cache.rglob("stored-*.json"):
            listing.write_text("[1")
        serving(tmp_path, refused)


def test_a_model_on_demand_is_downloaded_by_its_first_request(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    s3.put(bucket, "m", write_versions(tmp_path, "here", 1))
    write_models(tmp_path, {"name": "m", "base_path": f"s3://{bucket}/m", "load": "on_demand"})
    cache = tmp_path / "cache" / "graphrt" / "converted"

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert not cache.exists()
        assert await numbers(repository, request("m", X=[0, 0])) == [1, 1]
        assert cache.exists()

    serving(tmp_path, scenario)


def test_without_the_library_the_reason_names_the_extra(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    write_models(tmp_path, {"name": "m", "base_path": f"s3://{bucket}/m"})

    async def scenario(site: Site, repository: ModelRepository) -> None:
        ((_, _, _, message),) = status(repository, "m")
        assert message == "models in a store need the package obstore; pip install 'graphrt[cloud]'"

    serving(tmp_path, scenario)
    shutil.rmtree(tmp_path)
