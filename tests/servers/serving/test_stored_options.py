"""Addresses of object stores in options of a graph's nodes: models, drafts and adapters.

The store is moto's server, by S3's protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from calculators import register_all
from calculators.kit.examples import example_model
from graph_runtime import REGISTRY, Registry
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from tests.servers.model_store.store_servers import Link, S3Server
from tests.servers.serving.models.model_folders import status
from tests.servers.serving.reloading import Site
from tests.support.patience import PATIENCE

OK = ("AVAILABLE", "OK", "OK")
EMBEDDINGS = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "EmbeddingsExecutor"
  calculator: "EmbeddingsCalculatorOV"
  input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options: {
    [type.googleapis.com / mediapipe.EmbeddingsCalculatorOVOptions]: {
      models_path: "s3://BUCKET/models/docs_embedder"
    }
  }
}
"""


def _registry() -> Registry:
    made = Registry(REGISTRY)
    register_all(made)
    return made


def write_graphs(folder: Path, bucket: str, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        text = EMBEDDINGS.replace("BUCKET", bucket)
        (folder / name / "graph.pbtxt").write_text(text)
    listed = [{"name": name, "base_path": name} for name in names]
    (folder / "config.json").write_text(json.dumps({"mediapipe_config_list": listed}))


def serving(
    folder: Path, scenario: Callable[[Site, ModelRepository], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        site = Site(folder, _registry(), GraphSettings())
        await site.repository.load_all()
        try:
            await scenario(site, site.repository)
        finally:
            await site.reloader.close()
            await site.repository.close()

    asyncio.run(run())


def put_embedder(s3: S3Server, bucket: str) -> None:
    embedder = example_model("docs_embedder")
    assert embedder is not None
    s3.put(bucket, "models/docs_embedder", embedder)


def test_a_node_takes_its_model_from_a_store(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    put_embedder(s3, bucket)
    write_graphs(tmp_path, bucket, "one", "two")

    async def scenario(site: Site, repository: ModelRepository) -> None:
        assert status(repository, "one") == status(repository, "two") == [("1", *OK)]

    serving(tmp_path, scenario)


def test_a_store_that_is_down_is_tried_again_and_the_last_copy_serves_a_restart(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.serving.stored_entry.FIRST_PAUSE", 0.1)
    put_embedder(s3, bucket)
    write_graphs(tmp_path, bucket, "one")
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)
        link.is_cut = True

        async def comes_back(site: Site, repository: ModelRepository) -> None:
            ((_, state, _, message),) = status(repository, "one")
            assert state == "LOADING"
            assert f'"s3://{bucket}/models/docs_embedder" in the options of a node' in message
            assert "its store does not answer" in message
            link.is_cut = False
            async with asyncio.timeout(PATIENCE):
                while status(repository, "one") != [("1", *OK)]:
                    await site.step()
                    await asyncio.sleep(0.05)

        async def serves_the_copy(site: Site, repository: ModelRepository) -> None:
            assert status(repository, "one") == [("1", *OK)]

        serving(tmp_path, comes_back)
        link.is_cut = True
        link.cut()
        serving(tmp_path, serves_the_copy)


def test_what_is_not_there_is_named(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    write_graphs(tmp_path, bucket, "one")

    async def scenario(site: Site, repository: ModelRepository) -> None:
        ((_, state, _, message),) = status(repository, "one")
        assert state == "LOADING"
        assert "there is nothing at the address in its store" in message

    serving(tmp_path, scenario)
