"""Graphs of embedding models, answering requests without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calculators.text.embeddings.servable import EmbeddingsServable
from servers.serving.loaded_graph import LoadedGraph
from tests.calculators import graph_answers
from tests.calculators.graph_answers import with_graph
from tests.support.patience import PATIENCE

Ask = Callable[..., Awaitable[dict[str, Any]]]


async def asked(loaded: LoadedGraph, uri: str = "/v3/embeddings", **body: Any) -> Any:
    """Return the parsed answer of a graph; raise the calculator's own error."""
    return await graph_answers.asked(loaded, uri, {"model": "tiny", **body})


def served(directory: Path, scenario: Callable[[LoadedGraph, Ask], Awaitable[None]]) -> None:
    """Run a scenario with the graph of a directory."""
    with_graph(directory, lambda loaded: scenario(loaded, partial(asked, loaded)))


def vectors(answer: dict[str, Any]) -> Any:
    assert [each["index"] for each in answer["data"]] == list(range(len(answer["data"])))
    return np.array([each["embedding"] for each in answer["data"]])


class EmbeddedModel:
    """A graph that is served for several tests."""

    def __init__(self, runner: asyncio.Runner, loaded: LoadedGraph) -> None:
        self._runner = runner
        self._loaded = loaded

    @property
    def pid(self) -> int | None:
        """The model's process."""
        (servable,) = self._loaded._resources.resources
        assert isinstance(servable, EmbeddingsServable)
        return servable.pid

    def ask(self, uri: str = "/v3/embeddings", **body: Any) -> dict[str, Any]:
        """Return the answer of the served graph; see `asked`."""
        answering = asyncio.wait_for(asked(self._loaded, uri, **body), PATIENCE)
        return self._runner.run(answering)
