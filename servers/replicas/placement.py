"""`Placement`: makes the servables of a repository whose replicas run on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from servers.config import GraphEntry, LoadPolicy, ModelEntry
from servers.config.scale import Scale
from servers.operations.metrics.exposition import MetricsText
from servers.operations.metrics.merged_text import MergedText
from servers.replicas.cluster import RayCluster
from servers.replicas.replica import ReplicaWork
from servers.replicas.replicated_servable import ReplicatedServable
from servers.server.lifecycle import ServerSettings
from servers.serving.graph_definition import GraphDefinition
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from servers.serving.models.model_definition import ModelDefinition

#: Metrics of replicas that are of use: those of engines and of nodes. The front counts requests.
_PREFIX = "graphrt_"


def merged(own: str, replicas: Iterable[tuple[str, str]], accept: str) -> MetricsText:
    """Return the metrics of a front and of replicas in the format that a client accepts.

    Args:
        own: the text of the front. Metrics that it has are not taken from replicas.
        replicas: the name and the text of each replica.
    """
    known = {line.split(" ", 3)[2] for line in own.splitlines() if line.startswith("# TYPE ")}
    text = MergedText()
    text.add(own)
    for replica, its_text in replicas:
        text.add("\n".join(_labelled(replica, its_text, known)))
    return text.text(accept)


def _labelled(replica: str, text: str, known: set[str]) -> Iterable[str]:
    is_taken = False
    for line in text.splitlines():
        if line.startswith("# "):
            name = line.split(" ", 3)[2]
            is_taken = name.startswith(_PREFIX) and name not in known
            if is_taken:
                yield line
        elif is_taken and line:
            head, _, value = line.rpartition(" ")
            name, _, labels = head.partition("{")
            rest = f",{labels}" if labels else "}"
            yield f'{name}{{replica="{replica}"{rest} {value}'


class Placement:
    """A `servers.serving.model_repository.Elsewhere`."""

    def __init__(self, cluster: RayCluster, settings: ServerSettings, directory: Path) -> None:
        """``directory``: where the server was started; the nodes of the cluster have it too."""
        self._cluster = cluster
        self._settings = settings
        self._directory = directory

    def __call__(
        self, definition: GraphDefinition | ModelDefinition, repository: ModelRepository
    ) -> ReplicatedServable:
        return ReplicatedServable(
            definition,
            self._cluster,
            partial(self._work_of, repository),
            self._settings.graph_settings.request_limit,
        )

    async def metrics_text(
        self,
        repository: ModelRepository,
        own: Callable[[str], Awaitable[MetricsText]],
        accept: str,
    ) -> MetricsText:
        """See `servers.serving.model_repository.Elsewhere.metrics_text`."""
        asked = [
            asyncio.create_task(each.replica_metrics(), name=f"metrics of {each.name}")
            for each in repository.servables()
            if isinstance(each, ReplicatedServable)
        ]
        text = await own("")
        # Graphs may share the replicas of a node.
        found = dict([metrics for task in asked for metrics in await task])
        return await asyncio.to_thread(merged, text.body.decode(), found.items(), accept)

    def _work_of(self, repository: ModelRepository, entry: GraphEntry | ModelEntry) -> ReplicaWork:
        models: tuple[ModelEntry, ...] = ()
        if isinstance(entry, GraphEntry):
            entries = (slot.entry for slot in repository.slots())
            models = tuple(
                replace(each, scale=Scale(), residence=LoadPolicy())
                for each in entries
                if isinstance(each, ModelEntry)
            )
        settings = self._settings
        return ReplicaWork(
            # Another number of replicas, or another time of loading, is not another version.
            replace(entry, scale=Scale(), residence=LoadPolicy()),
            models,
            self._graph_settings(),
            settings.calculator_modules,
            settings.calculators,
            repository.shared,
            str(self._directory),
        )

    def _graph_settings(self) -> GraphSettings:
        """Return the settings of graphs for other processes."""
        settings = self._settings.graph_settings
        # Relative to the server's directory; a replica is in another one.
        cache = settings.cache_dir and str(self._directory / settings.cache_dir)
        return replace(settings, cache_dir=cache, metrics=None, live=None)
