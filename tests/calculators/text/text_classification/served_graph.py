"""A graph that classifies texts, asked without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graph_runtime import REGISTRY
from servers.config import find_graph
from servers.serving.loaded_graph import LoadedGraph, load_graph
from tests.calculators.graph_answers import asked
from tests.support.patience import PATIENCE


class ServedGraph:
    """A loaded graph, with an event loop of its own."""

    def __init__(self, runner: asyncio.Runner, loaded: LoadedGraph) -> None:
        self.loaded = loaded
        self._runner = runner

    def ask(self, path: str, **body: Any) -> Any:
        """Return the parsed answer; raise the calculator's own error."""
        return self._runner.run(asyncio.wait_for(asked(self.loaded, path, body), PATIENCE))


@contextmanager
def served(directory: Path) -> Iterator[ServedGraph]:
    """Load the graph of a directory, and close it at the end."""
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        try:
            yield ServedGraph(runner, loaded)
        finally:
            runner.run(loaded.close())
