"""A graph that is served for several tests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Serve a model with the demo's tokenizer and MEAN pooling."""
    # Imported here: quick tests load this file too, and no model library.
    from graph_runtime import REGISTRY
    from servers.config import find_graph
    from servers.serving.loaded_graph import load_graph
    from tests.calculators.text.embeddings.embedded_model import EmbeddedModel
    from tests.calculators.text.embeddings.tiny_embedder import graph, make_model

    directory = make_model(tmp_path_factory.mktemp("model"), graph(pooling="MEAN"))
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield EmbeddedModel(runner, loaded)
        runner.run(loaded.close())
