"""Spans of a language model: the request's settings, and its phases."""

from __future__ import annotations

import asyncio

import pytest

from servers.config import find_graph
from tests.servers.fronts.http.http_client import chat_bytes
from tests.servers.operations.tracing.collector import Collector
from tests.servers.operations.tracing.test_spans import traced
from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"
MESSAGES = [{"role": "user", "content": "Hello"}]


def test_a_generation_has_spans_of_its_phases(collector: Collector) -> None:
    async def scenario() -> None:
        async with traced(collector, find_graph(DEMO)) as server:
            data = chat_bytes("demo", messages=MESSAGES, max_tokens=5, stream=True)
            reply = await server.ask(data)
            assert reply.status == 200

    asyncio.run(scenario())
    request, node = "POST /v3/chat/completions", "node LLMExecutor"
    assert collector.tree() == {
        request: "",
        "graph demo": request,
        node: "graph demo",
        "chat demo": node,
        "make prompt": "chat demo",
        "prefill": "chat demo",
        "decode": "chat demo",
    }
    assert collector.only(node).attributes["graphrt.calls"] >= 3  # one span per generation
    generation = collector.only("chat demo")
    attributes = generation.attributes
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "demo"
    assert attributes["gen_ai.request.max_tokens"] == 5
    assert attributes["gen_ai.usage.output_tokens"] == 5
    assert attributes["gen_ai.usage.input_tokens"] > 5
    assert attributes["gen_ai.response.finish_reasons"] == ["length"]
    phases = [collector.only(name) for name in ("make prompt", "prefill", "decode")]
    assert phases[0].begin == generation.begin
    assert phases[0].end == phases[1].begin
    assert phases[1].end == phases[2].begin
    assert phases[2].end == generation.end
    seconds = (phases[1].end - generation.begin) / 1e9
    assert attributes["gen_ai.latency.time_to_first_token"] == pytest.approx(seconds)
    texts = [str(value) for span in collector.spans for value in span.attributes.values()]
    assert not any("Hello" in text for text in texts)
