"""A repository with a config.json on disk, and the reloader over both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from graph_runtime import Registry
from servers.config import read_config
from servers.serving.graph_definition import GraphDefinition
from servers.serving.loaded_graph import GraphSettings, LoadedGraph
from servers.serving.model_repository import ModelRepository
from servers.serving.python_path import SharedModules
from servers.serving.reloader import Reloader
from tests.servers.serving.asking import answer
from tests.servers.serving.served_graphs import http_graph, make_registry

#: A graph that answers every request with one word, from a file beside it or from its node.
SAY = """\
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Say(Calculator):
    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, %r)
"""


class Site:
    """Files in a directory, the repository that serves them, and `step`, the watcher's."""

    def __init__(self, folder: Path, registry: Registry, settings: GraphSettings) -> None:
        self.folder = folder
        config = read_config(self.config_path)
        shared = SharedModules(registry, config.python_path)
        self.repository = ModelRepository(
            config.graphs, shared.registry, settings, config.models, shared.paths
        )
        reread = partial(read_config, self.config_path)
        self.reloader = Reloader(self.repository, shared, config, reread)

    @property
    def config_path(self) -> Path:
        return self.folder / "config.json"

    async def step(self) -> bool:
        return await self.reloader.step()

    async def ask(self, model: str, body: str = "") -> str:
        """Return the only packet of the answer."""
        (packet,) = await self.packets(model, body)
        return packet

    async def packets(self, model: str, body: str = "") -> list[str]:
        """Return all packets of the answer."""
        packets = await answer(self.repository, model, body)
        return [each if isinstance(each, str) else each.decode() for each in packets]

    def graph(self, name: str) -> LoadedGraph | None:
        """Return the servable that answers under this name now."""
        for servable in self.repository.servables():
            if servable.name == name:
                assert isinstance(servable, GraphDefinition)
                return servable.graph
        raise AssertionError(f"no {name}")

    def status(self, name: str) -> tuple[str, str, str]:
        """Return state, error code and message of its only version."""
        every: Any = self.repository.statuses()
        (version,) = every[name]["model_version_status"]
        return version["state"], version["status"]["error_code"], version["status"]["error_message"]


def write_config(folder: Path, *graphs: Any, **more: Any) -> None:
    """Write a config.json of graphs: names, or objects."""
    listed = [{"name": each} if isinstance(each, str) else each for each in graphs]
    text = json.dumps({"mediapipe_config_list": listed, **more})
    (folder / "config.json").write_text(text)


def write_saying(folder: Path, name: str, word: str) -> None:
    """Write a graph that answers with a word, by a calculator in its ``NAME/say.py``."""
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "graph.pbtxt").write_text(http_graph("Say"))
    (folder / name / "say.py").write_text(SAY % word)


def saying(name: str) -> dict[str, Any]:
    """Return the config entry of a graph of `write_saying`."""
    return {"name": name, "python_path": f"{name}/say.py"}


async def all_retired() -> None:
    """Return True if replaced graphs without requests are gone."""
    tasks = [each for each in asyncio.all_tasks() if each.get_name().startswith("retire ")]
    await asyncio.gather(*tasks)


def reloading(
    folder: Path,
    scenario: Callable[[Site], Coroutine[Any, Any, None]],
    resources: Sequence[Any] = (),
    **settings: Any,
) -> None:
    """Run a scenario on a site that has loaded everything, and close it."""

    async def run() -> None:
        site = Site(folder, make_registry(*resources), GraphSettings(**settings))
        await site.repository.load_all()
        assert not await site.step()
        try:
            await scenario(site)
        finally:
            await site.reloader.close()
            await site.repository.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
