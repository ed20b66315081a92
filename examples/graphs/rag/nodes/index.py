"""The index of the passages: made once, when the graph is loaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from graphrt import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    NodePlan,
    Options,
    Out,
    ResourceError,
    ResourceSettings,
    SideIn,
    calculator,
    find_options,
    load_graph_config,
    make_resources,
    options,
    resource_initializer,
    validate_graph,
)
from numpy.typing import NDArray
from passages import Passage, read_passages

#: An array of vectors, (n, size), each of length 1.
Vectors = NDArray[np.float32]

_log = logging.getLogger("rag")


@options("rag.SearchOptions")
class SearchOptions:
    """The options of the node.

    Attributes:
        documents: Markdown files, as patterns below ``root``.
        root: a directory, relative to that of the graph.
        embed_graph: a graph from ``TEXTS`` to ``EMBEDDINGS``, relative to the graph's directory.
        count: the number of passages that are found.
    """

    documents: tuple[str, ...]
    root: str = "."
    embed_graph: str = "embed.pbtxt"
    count: int = 8


class PassageIndex:
    """Passages and their vectors, in memory. The server keeps it as long as the graph."""

    unavailable_reason = ""

    def __init__(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        self._passages = passages
        self._vectors = vectors

    def nearest(self, vector: Vectors, count: int) -> list[Passage]:
        """Return the passages with the highest cosine similarity to a vector, the best first."""
        scores = self._vectors @ vector
        return [self._passages[place] for place in np.argsort(-scores, kind="stable")[:count]]

    async def close(self) -> None:
        """There is nothing to release."""


@resource_initializer
class IndexInitializer:
    """Makes the index of each ``rag.Search`` node before the graph takes requests."""

    tag = "RAG_NODE_RESOURCES"
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == "rag.Search"

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        """Called by ``graphrt validate``: find the errors of `make` that show without a model."""
        find_passages(node, settings)
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> PassageIndex:
        passages = await asyncio.to_thread(find_passages, node, settings)
        graph = settings.directory / find_options(node.config, SearchOptions).embed_graph
        vectors = await embed([each.searched for each in passages], graph, settings)
        _log.info("%s: an index of %d passages", settings.model_name, len(passages))
        return PassageIndex(passages, vectors)


def find_passages(node: NodePlan, settings: ResourceSettings) -> list[Passage]:
    """Return the passages of a node's documents.

    Raises:
        ResourceError: there are none.
    """
    chosen = find_options(node.config, SearchOptions)
    root = (settings.directory / chosen.root).resolve()
    files = sorted({file for pattern in chosen.documents for file in root.glob(pattern)})
    passages = read_passages(files, root)
    if not passages:
        raise ResourceError(
            f'node "{node.config.name}": documents: no Markdown below root "{chosen.root}" '
            f"fits {', '.join(chosen.documents)}; set root and documents to yours"
        )
    return passages


async def embed(texts: list[str], graph_file: Path, settings: ResourceSettings) -> Vectors:
    """Return the vectors of texts, by running a graph once."""
    plan = validate_graph(load_graph_config(str(graph_file)), registry=REGISTRY)
    resources = await make_resources(plan, settings, REGISTRY)
    found: list[Any] = []
    try:
        async with CalculatorGraph(validated_graph=plan) as graph:
            graph.observe_output_stream("vectors", lambda _, packet: found.append(packet.value))
            await graph.start_run_async(resources.side_packets)
            await graph.add_packet_to_input_stream_async("texts", texts, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
    finally:
        await resources.close()
    (vectors,) = found
    return np.asarray(vectors, np.float32)


@calculator("rag.Search")
class Search(Calculator):
    """Finds the passages that are nearest to a question's vector.

    Inputs:
        EMBEDDINGS: the vector, (1, size) float32.
    Outputs:
        PASSAGES: the nearest passages, the nearest first.
        TEXTS: their titles and texts, for a model that ranks them.
    """

    embeddings = In[Vectors]("EMBEDDINGS")
    passages = Out[list[Passage]]("PASSAGES")
    texts = Out[list[str]]("TEXTS")
    resources = SideIn[dict[str, Any]]("RAG_NODE_RESOURCES")
    options = Options(SearchOptions)

    def open(self, cc: CalculatorContext) -> None:
        self._index: PassageIndex = cc.side(self.resources)[cc.node_name]

    def process(self, cc: CalculatorContext) -> None:
        found = self._index.nearest(cc.get(self.embeddings)[0], self.options.count)
        cc.emit(self.passages, found)
        cc.emit(self.texts, [each.searched for each in found])
