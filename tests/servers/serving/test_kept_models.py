"""Models of all families over reloads: their processes go on unless an option that loads them, or a
file of theirs, has changed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import calculators
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import (
    REGISTRY,
    Registry,
    ResourceError,
    ResourceSettings,
    SharingInitializer,
)
from servers.config import find_graph
from servers.serving.graph_definition import GraphDefinition
from servers.serving.graph_source import GraphSource
from servers.serving.loaded_graph import LoadedGraph, load_graph
from servers.serving.models.model_definition import GraphModels
from tests.calculators.images.image_generation import image_models
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.speech.speech_to_text import counter
from tests.calculators.speech.text_to_speech import tone_model
from tests.calculators.tensors.openvino.graphs import session_and_inference
from tests.calculators.tensors.openvino.tiny_models import matmul_model, save
from tests.calculators.tensors.python.running import HTTP_HANDLER
from tests.calculators.text.embeddings import tiny_embedder
from tests.calculators.text.rerank import tiny_rerankers
from tests.calculators.text.text_classification import tiny_classifier
from tests.servers.serving.reloading import Site, reloading, write_config
from tests.servers.serving.served_graphs import write_graph
from tests.support.patience import PATIENCE

HANDLER = """\
import os
import shutil
from beside import word


class OvmsPythonModel:
    def execute(self, inputs):
        return f"{os.getpid()} {word}"
"""


class Family(NamedTuple):
    """A kind of model, with a change of its graph that keeps it and one that loads it again."""

    make: Callable[[Path], object]
    keeps: tuple[str, str]
    loads: tuple[str, str]
    file: str


FAMILIES = {
    "language": Family(
        lambda folder: shutil.copytree(DEMO, folder),
        ('models_path: "./"', 'models_path: "./", max_tokens_limit: 9, tool_parser: "llama3"'),
        ('models_path: "./"', 'models_path: "./", max_num_seqs: 9'),
        "chat_template.jinja",
    ),
    "embeddings": Family(
        lambda folder: tiny_embedder.make_model(folder, tiny_embedder.graph(pooling="MEAN")),
        ("normalize_embeddings: true", "normalize_embeddings: false"),
        ("pooling: MEAN", "pooling: CLS"),
        "tokenizer.json",
    ),
    "rerank": Family(
        lambda folder: tiny_rerankers.make_bert(folder, tiny_rerankers.graph()),
        ("max_allowed_chunks: 10000", "max_allowed_chunks: 7"),
        ("plugin_config: '{", 'plugin_config: \'{"INFERENCE_NUM_THREADS":"1",'),
        "openvino_model.bin",
    ),
    "classification": Family(
        lambda folder: tiny_classifier.make_model(folder, tiny_classifier.CATEGORIES),
        ("threshold: 0.75", "threshold: 0.25"),
        ('models_path: "./"', 'models_path: "./" plugin_config: \'{"NUM_STREAMS":"1"}\''),
        "config.json",
    ),
    "speech": Family(
        lambda folder: tone_model.make_model(folder, tone_model.graph()),
        ('"T2sExecutor"', '"Other"'),
        ('target_device: "CPU"', 'target_device: "CPU" speed_max: 2'),
        "config.json",
    ),
    "recognition": Family(
        counter.make_model,
        ('"S2tExecutor"', '"Other"'),
        ('target_device: "CPU"', 'target_device: "CPU" enable_word_timestamps: true'),
        "config.json",
    ),
    "images": Family(
        lambda folder: image_models.make_model(folder, text=image_models.graph()),
        ('"ImageGenExecutor"', '"Other"'),
        ("default_num_inference_steps: 2", "default_num_inference_steps: 3"),
        "model_index.json",
    ),
}


class Reloads:
    """The graph of a directory, loaded again and again."""

    def __init__(self, folder: Path, loaded: LoadedGraph) -> None:
        self.loaded = loaded
        self._folder = folder

    @property
    def pids(self) -> list[int]:
        (resource,) = self.loaded._resources.resources
        found: Any = resource
        return list(found.pids) if hasattr(found, "pids") else [found.pid]

    async def reload(self) -> None:
        """Load the graph as it is now, and let it replace the present one."""
        kept = self.loaded.keep_resources()
        try:
            new = await load_graph(find_graph(self._folder), _registry(), kept=kept)
        finally:
            await kept.let_go()
        await self.loaded.close()
        self.loaded = new

    async def edit(self, old: str, new: str) -> None:
        graph = self._folder / "graph.pbtxt"
        text = graph.read_text(encoding="utf-8")
        assert old in text
        graph.write_text(text.replace(old, new), encoding="utf-8")
        await self.reload()

    async def ask(self) -> str:
        packets: list[Any] = []
        await self.loaded.answer(HttpPayload("/v3/x", {}, b"{}", {}), packets.append)
        return "".join(packets)


def _registry() -> Registry:
    calculators.register_all(REGISTRY)
    return Registry(REGISTRY)


@asynccontextmanager
async def reloads(folder: Path) -> AsyncIterator[Reloads]:
    found = Reloads(folder, await load_graph(find_graph(folder), _registry()))
    try:
        yield found
    finally:
        await found.loaded.close()


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_another_only_if_it_would_be_loaded_otherwise(tmp_path: Path, name: str) -> None:
    family = FAMILIES[name]
    folder = tmp_path / "model"
    family.make(folder)
    graph = folder / "graph.pbtxt"
    text = graph.read_text(encoding="utf-8")
    before = identity(folder)
    (folder / "README.md").write_text("A text of people.")
    (folder / "nodes.py").write_text("# A calculator of people.")
    graph.write_text(text.replace(*family.keeps), encoding="utf-8")
    assert graph.read_text(encoding="utf-8") != text
    assert identity(folder) == before
    graph.write_text(text.replace(*family.loads), encoding="utf-8")
    assert identity(folder) != before
    graph.write_text(text, encoding="utf-8")
    assert identity(folder) == before
    file = folder / family.file
    file.write_bytes(file.read_bytes())
    assert identity(folder) != before


def identity(folder: Path) -> str:
    """Return the identity of the model of a graph's only node."""
    plan = GraphSource(str(folder / "graph.pbtxt"), _registry()).validate()
    (node,) = plan.nodes
    (found,) = [
        initializer.identity(node, ResourceSettings(folder))
        for initializer in _registry().resource_initializers()
        if initializer.matches(node.calculator_type) and isinstance(initializer, SharingInitializer)
    ]
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["embeddings", "rerank", "classification"])
def test_options_of_requests_are_applied_to_the_same_process(tmp_path: Path, name: str) -> None:
    family = FAMILIES[name]
    family.make(tmp_path)

    async def scenario() -> None:
        async with reloads(tmp_path) as graph:
            before = graph.pids
            (old,) = graph.loaded._resources.resources
            await graph.edit(*family.keeps)
            (new,) = graph.loaded._resources.resources
            assert new is not old
            assert graph.pids == before
            assert graph.loaded.unavailable_reason == ""
            if name == "classification":
                with pytest.raises(ResourceError, match='"insult" is not a label of the model'):
                    await graph.edit('models_path: "./"', 'models_path: "./" labels: "one"')
                assert graph.pids == before
                assert graph.loaded.unavailable_reason == ""
        assert "shut down" in new.unavailable_reason

    run(scenario)


@pytest.mark.parametrize("isolation", ["PROCESS", "THREAD"])
def test_a_handler_is_loaded_again_when_its_code_or_what_is_beside_it_changes(
    tmp_path: Path, isolation: str
) -> None:
    text = HTTP_HANDLER.replace('"model.py"', f'"model.py" isolation: {isolation}')
    (tmp_path / "graph.pbtxt").write_text(text)
    (tmp_path / "model.py").write_text(HANDLER)
    (tmp_path / "beside.py").write_text('word = "one"\n')

    async def scenario() -> None:
        async with reloads(tmp_path) as graph:
            before = await graph.ask()
            assert before.endswith(" one")
            (handler,) = graph.loaded._resources.leases
            await graph.edit("input_stream:", "# changed\ninput_stream:")
            assert await graph.ask() == before
            assert [each.resource for _, each in graph.loaded._resources.leases] == [
                handler[1].resource
            ]
            (tmp_path / "model.py").write_text(HANDLER.replace("{word}", "two"))
            await graph.reload()
            after = await graph.ask()
            assert after.endswith(" two")
            if isolation == "PROCESS":
                assert after.split()[0] != before.split()[0]
                (tmp_path / "beside.py").write_text('word = "three"\n')
                await graph.reload()
                assert (await graph.ask()).split()[0] != after.split()[0]
            else:
                assert after.split()[0] == str(os.getpid())

    run(scenario)


def test_a_plain_model_beside_a_graph_is_loaded_once(tmp_path: Path) -> None:
    _registry()
    text = session_and_inference("matmul", ["X:x"], ["Y:y"])
    folder = write_graph(tmp_path, "graph", text).directory
    save(matmul_model(), folder / "matmul.xml")
    write_config(tmp_path, "graph")

    async def scenario(site: Site) -> None:
        def models() -> GraphModels:
            (definition,) = site.repository.servables()
            assert isinstance(definition, GraphDefinition)
            assert definition._models is not None
            return definition._models

        before = await models().get("matmul")
        (folder / "graph.pbtxt").write_text(f"{text}# changed")
        assert await site.step()
        assert await models().get("matmul") is before
        save(matmul_model(), folder / "matmul.xml")
        (folder / "graph.pbtxt").write_text(text)
        assert await site.step()
        assert await models().get("matmul") is not before

    reloading(tmp_path, scenario)
