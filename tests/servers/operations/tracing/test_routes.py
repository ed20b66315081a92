"""Spans of the choices of models."""

from __future__ import annotations

import asyncio
from pathlib import Path

from servers.config import find_graph
from tests.servers.fronts.http.http_client import chat_bytes
from tests.servers.operations.tracing.collector import Collector
from tests.servers.operations.tracing.test_spans import traced
from tests.support.checkout import ROOT

GRAPH = ROOT / "examples" / "graphs" / "router" / "graph.pbtxt"


def test_a_route_and_a_fall_back_have_a_span_each(collector: Collector, tmp_path: Path) -> None:
    text = GRAPH.read_text().replace("../../models", str(ROOT / "examples" / "models"))
    (tmp_path / "graph.pbtxt").write_text(text)
    words = "which one? " * 36  # more tokens than the small model takes

    async def scenario() -> None:
        async with traced(collector, find_graph(tmp_path)) as server:
            messages = [{"role": "user", "content": words}]
            reply = await server.ask(chat_bytes(tmp_path.name, messages=messages, max_tokens=3))
            assert reply.status == 200
            assert b'"model":"large"' in reply.body

    asyncio.run(scenario())
    routes = [span.attributes for span in collector.spans if span.name == "route"]
    assert routes == [
        {"graphrt.route.name": "small", "graphrt.route.why": "max_prompt_characters"},
        {"graphrt.route.name": "large", "graphrt.route.why": "OUT_OF_RANGE"},
    ]
    texts = [str(value) for span in collector.spans for value in span.attributes.values()]
    assert not any("which" in text for text in texts)
