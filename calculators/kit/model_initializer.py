"""`ModelInitializer`: the resource initializer of a family whose nodes have a model each."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast

from calculators.kit.model_cache import CacheEntry, ModelCache, user_cache
from calculators.kit.model_identity import check_model_files, model_identity
from calculators.kit.places import Place, Places
from calculators.kit.tasks.options import naming_node
from graph_runtime import (
    NO_METRICS,
    LoadProgress,
    NodeMetrics,
    NodePlan,
    NodeResource,
    ResourceSettings,
)


@dataclass(frozen=True, slots=True)
class ModelHost:
    """The surroundings of a node's model.

    Attributes:
        name: the served model's name, for messages.
        metrics: of the node.
        entry: of the compiled model, which its resource closes; None: it is not kept.
        place: of the model; None: a child process of this one.
    """

    name: str
    metrics: NodeMetrics = NO_METRICS
    entry: CacheEntry | None = None
    place: Place | None = None


def host_of(
    node: NodePlan, settings: ResourceSettings, entry: CacheEntry | None = None
) -> ModelHost:
    """Return the surroundings of the model of ``node``; ``entry``: its own."""
    name = node.config.name
    return ModelHost(
        settings.model_name or name,
        settings.metrics.of_node(name),
        entry,
        settings.of(Places).of_node(node.name),
    )


def cache_of(settings: ResourceSettings) -> ModelCache | None:
    """Return the cache of models that a server has named; None: there is none."""
    return (
        ModelCache(Path(settings.cache_dir), settings.cache_bytes) if settings.cache_dir else None
    )


def conversions_of(settings: ResourceSettings) -> ModelCache:
    """Return the cache of converted models: the server's, else this user's."""
    named = cache_of(settings)
    return user_cache(settings.cache_bytes) if named is None else named


class ModelResource(NodeResource, Protocol):
    """A resource that loads its model in `start`."""

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """


Options = TypeVar("Options")
Resource = TypeVar("Resource", bound=ModelResource)


class ModelInitializer(ABC, Generic[Options, Resource]):
    """A `ResourceInitializer` that checks, shares and names its errors as all families do.

    Attributes:
        family: the family's name, for the log.
        calculators: the ends of the names of the calculators whose nodes have the resource.
    """

    tag: str
    context_tags: Sequence[str] = ()
    family: str
    calculators: tuple[str, ...]

    @abstractmethod
    def read(self, node: NodePlan, settings: ResourceSettings) -> Options:
        """Check the options of a node, and the files that they name. Reads files: for a thread.

        Raises:
            ResourceError: with the node's name, the field, what is wrong, and what would be right.
        """

    @abstractmethod
    def hold(self, options: Options, cache: ModelCache) -> CacheEntry | None:
        """Return the entry of the compiled model, or None; reads files: for a thread."""

    @abstractmethod
    def resource(self, options: Options, host: ModelHost, settings: ResourceSettings) -> Resource:
        """Return the resource of a node, to be started."""

    @abstractmethod
    def paths(self, options: Options) -> tuple[Path, ...]:
        """Return the files and directories of the model."""

    def made_of(self, options: Options) -> str | None:
        """Return the identity of the model; see `graph_runtime.SharingInitializer.identity`."""
        return model_identity(options, paths=self.paths(options))

    def warnings(self, options: Options) -> Sequence[str]:
        """Return texts for the log; by default there are none."""
        return ()

    def with_options(self, resource: Resource, options: Options) -> Resource:
        """Return ``resource`` with options that do not belong to its identity; by default all do.

        Raises:
            ResourceError: it cannot have them.
        """
        return resource

    def matches(self, calculator: str) -> bool:
        """See `graph_runtime.ResourceInitializer`."""
        return calculator.endswith(self.calculators)

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        """See `graph_runtime.CheckingInitializer`."""
        return self.warnings(self._read(node, settings))

    def _read(self, node: NodePlan, settings: ResourceSettings) -> Options:
        options = self.read(node, settings)
        with naming_node(node):
            check_model_files(self.paths(options))
        return options

    async def make(self, node: NodePlan, settings: ResourceSettings) -> Resource:
        """See `graph_runtime.ResourceInitializer`."""
        options = await asyncio.to_thread(self._read, node, settings)
        host = host_of(node, settings)
        cache = cache_of(settings)
        if cache is not None and host.place is None:  # the cache belongs to this machine
            host = replace(host, entry=await asyncio.to_thread(self.hold, options, cache))
        for warning in self.warnings(options):
            logging.getLogger(f"graphrt.{self.family}").warning("%s: %s", host.name, warning)
        resource = self.resource(options, host, settings)
        with naming_node(node):
            await resource.start(settings.progress)
        return resource

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        return self.made_of(self.read(node, settings))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> Resource:
        """See `graph_runtime.SharingInitializer`."""
        options = await asyncio.to_thread(self.read, node, settings)
        with naming_node(node):
            return self.with_options(cast(Resource, resource), options)
