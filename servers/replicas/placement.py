"""`Placement`: makes the servables of a repository whose replicas run on a cluster.

`HeadWatch`: ends a process whose cluster is lost; a front gives each request an error first.

Ray ends the process of a front by itself, 60 s after the head has died, and breaks its streams off.
So the front refuses and ends requests before that, as for SIGTERM. Then it ends its process without
the farewells that Ray would wait for, and its supervisor starts the next one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from servers.config import GraphEntry, LoadPolicy, ModelEntry
from servers.config.entries import Scale
from servers.operations.metrics.exposition import MergedText, MetricsText
from servers.replicas.cluster import RayCluster
from servers.replicas.replica import ReplicaWork
from servers.replicas.replicated_servable import ReplicatedServable
from servers.server.lifecycle import ServerSettings
from servers.serving.graph_definition import GraphDefinition
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from servers.serving.models.model_definition import ModelDefinition

_log: Final = logging.getLogger(__name__)

_POLL_SECONDS: Final = 1.0
#: Seconds that a head may be away: one whose tables are in a Redis comes back.
AWAY_SECONDS: Final = 45.0
#: Seconds that requests have to end when the head is away for longer, and on a cluster that was
#: started here, which cannot come back.
DRAIN_SECONDS: Final = 5.0
OWN_DRAIN_SECONDS: Final = 10.0
#: Seconds for the errors of the requests that are left.
_ERROR_SECONDS: Final = 2.0


class HeadWatch:
    """Looks at a cluster in a thread; use it as a context manager around what needs it."""

    def __init__(
        self,
        is_lost: Callable[[], bool],
        abandon: Callable[[], None],
        address: str,
        *,
        is_own: bool,
        is_front: bool,
        away: float = AWAY_SECONDS,
    ) -> None:
        """
        Args:
            is_lost: looks whether the cluster is lost now; it may block for seconds.
            abandon: called before the end of the process, for what would outlive it.
            address: of the head, for the log.
            is_own: the cluster was started here.
            is_front: SIGTERM lets the process end its requests.
            away: seconds that the head of another cluster may be away.
        """
        self._is_lost = is_lost
        self._abandon = abandon
        self._address = address
        self._away = 0.0 if is_own else away
        self._is_front = is_front
        self._drain = OWN_DRAIN_SECONDS if is_own else DRAIN_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch the head", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        lost_since: float | None = None
        while not self._stop.wait(_POLL_SECONDS):
            if not self._is_lost():
                if lost_since is not None:
                    _log.warning("the head of the Ray cluster %s is back", self._address)
                lost_since = None
                continue
            now = time.monotonic()
            if lost_since is None:
                lost_since = now
                _log.error(
                    "the Ray cluster %s is lost: this process ends in %g s",
                    self._address,
                    self._away + (self._drain if self._is_front else 0.0),
                )
            if now - lost_since >= self._away:
                self._end()
                return

    def _end(self) -> None:
        if self._is_front:
            os.kill(os.getpid(), signal.SIGTERM)
            if not self._stop.wait(self._drain):
                os.kill(os.getpid(), signal.SIGTERM)  # what is still in flight gets an error
                self._stop.wait(_ERROR_SECONDS)
        try:
            self._abandon()
            logging.shutdown()
        finally:
            os._exit(1)


#: Metrics of replicas that are of use: of engines and of nodes. The front counts requests.
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
