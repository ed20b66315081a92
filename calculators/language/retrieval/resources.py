"""`RetrievalResourceInitializer`: fills ``RETRIEVAL_NODE_RESOURCES``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from calculators.kit.model_initializer import cache_of, host_of, model_identity
from calculators.kit.tasks.nodes import naming_node
from calculators.language.retrieval.index_file import IndexFile, IndexFileError
from calculators.language.retrieval.index_paths import CALCULATOR
from calculators.language.retrieval.node_options import RetrievalOptions, read_retrieval_options
from calculators.language.retrieval.retriever import (
    Retriever,
    embedder_of,
    make_index_search,
    open_index,
)
from calculators.language.retrieval.search import Search, search_file
from calculators.text.text_models.model_options import compiled_entry
from graph_runtime import NodePlan, NodeResource, ResourceError, ResourceSettings

RESOURCES_TAG: Final = "RETRIEVAL_NODE_RESOURCES"

_log: Final = logging.getLogger("graphrt.retrieval")


class RetrievalResourceInitializer:
    """Opens the index of every `RetrievalCalculator`, and loads its embedding model."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        options = read_retrieval_options(node, settings)
        with naming_node(node):
            open_index(options).close()
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> Retriever:
        options = await asyncio.to_thread(read_retrieval_options, node, settings)
        name = settings.model_name or node.config.name
        with naming_node(node):
            index, search = await asyncio.to_thread(_opened, options)
            _log.info("%s: %d passages in %s", name, index.count, options.index_name)
            embedder = embedder_of(index, options)
            entry = await asyncio.to_thread(
                compiled_entry, embedder.model, cache_of(settings), embedder.head
            )
            retriever = Retriever(options, index, search, host_of(node, settings, entry))
            await retriever.start(settings.progress)
        return retriever

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`."""
        options = read_retrieval_options(node, settings)
        model = options.embedder.model
        return model_identity(
            model, paths=(model.directory, options.index, search_file(options.index))
        )

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> Retriever:
        """Return the index and the model of ``resource`` with the other options of ``node``."""
        assert isinstance(resource, Retriever)
        return resource.with_options(
            await asyncio.to_thread(read_retrieval_options, node, settings)
        )


def _opened(options: RetrievalOptions) -> tuple[IndexFile, Search]:
    index = open_index(options)
    try:
        return index, make_index_search(index)
    except IndexFileError as error:
        index.close()
        raise ResourceError(f"index: {error}") from None
