"""`ModelInitializer`: the resource initializer of a family whose nodes have a model each.

`model_identity` names what is loaded, so that graphs with equal nodes share one resource;
`loading` is the context in which a node's processes load the model.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar, cast

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_cache import CacheEntry, ModelCache, finish, user_cache
from calculators.kit.places import Place, Places
from calculators.kit.tasks.nodes import naming_node
from graph_runtime import (
    NO_METRICS,
    LoadProgress,
    NodeMetrics,
    NodePlan,
    NodeResource,
    ResourceError,
    ResourceSettings,
    identity_of,
)
from graphrt_base.regular_file import check_regular_file


@asynccontextmanager
async def loading(
    entry: CacheEntry | None, close: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Load a model in processes within this context, and keep what OpenVINO has written then.

    If that fails ``close`` is called, which ends the processes and closes the entry.

    Raises:
        ResourceError: the model cannot be loaded.
    """
    try:
        yield
        await asyncio.to_thread(finish, entry)
    except BaseException as error:
        await close()
        if isinstance(error, LoadError):
            raise ResourceError(f"the model cannot be loaded: {error}") from None
        raise


#: Endings of files beside a model that do not belong to it: people edit graphs and calculators
#: there, a server may write its log, and OpenVINO its cache of compiled models.
_OTHERS: Final = frozenset(
    {".pbtxt", ".binarypb", ".py", ".pyc", ".md", ".log", ".blob", ".cl_cache"}
)
#: Folders in folders of a model: its parts, and the settings of each part.
_DEPTH: Final = 2
#: The most files of a model; a directory with more is something else, which takes long to walk.
_MOST_FILES: Final = 10_000
#: Libraries that read the files, in processes of their own.
_LIBRARIES: Final = ("openvino", "openvino-genai", "openvino-tokenizers")


def model_identity(*options: object, paths: tuple[Path, ...]) -> str | None:
    """Return the identity of a model; None if there are too many files. Reads the file system.

    Args:
        options: whatever else decides how the model is loaded; their ``repr`` counts.
        paths: its files, and directories, of which all files count that can belong to a model.
    """
    files = model_files(paths)
    if files is None:
        return None
    return identity_of(*options, *map(_version, _LIBRARIES), files=files)


def model_files(paths: Iterable[Path]) -> list[Path] | None:
    """Return these files, and all below directories that can belong to a model; None if there are
    too many."""
    files: list[Path] = []
    for path in paths:
        for file in _files_of(path):
            files.append(file)
            if len(files) > _MOST_FILES:
                return None
    return files


def check_model_files(paths: Iterable[Path]) -> None:
    """Check that a library can open the files of a model without waiting. Reads the file system.

    Libraries open whatever has the name of a file that they know, and a pipe has no end.

    Raises:
        ResourceError: one is a pipe, a socket or a device.
    """
    for file in model_files(paths) or ():
        try:
            check_regular_file(file)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ResourceError(f"{file.name} cannot be read: {error.strerror}") from None
            # What is missing or a directory is reported by the loader, which knows what it needs.


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        folders[:] = [
            each for each in folders if depth < _DEPTH and not each.startswith((".", "_"))
        ]
        for name in names:
            if not name.startswith(".") and os.path.splitext(name)[1] not in _OTHERS:
                yield Path(folder, name)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


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
