"""Spans of tools that the server runs for a model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from servers.config import find_graph
from tests.servers.fronts.http.http_client import chat_bytes
from tests.servers.operations.tracing.collector import Collector
from tests.servers.operations.tracing.test_spans import traced
from tests.support.checkout import ROOT

GRAPH = ROOT / "examples" / "graphs" / "agent" / "graph.pbtxt"
MESSAGES = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = '''
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return f"{city}: 12 degrees and rainy"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The agent with a Python function in place of its MCP server."""
    text = GRAPH.read_text().replace("../../models/demo", str(ROOT / "examples/models/demo"))
    lines = [line for line in text.splitlines() if "server {" not in line]
    (tmp_path / "graph.pbtxt").write_text("\n".join(lines).replace('"clock"', '"weather"'))
    (tmp_path / "weather.py").write_text(WEATHER)
    return tmp_path


def test_a_call_has_a_span_below_its_node(collector: Collector, folder: Path) -> None:
    async def scenario() -> None:
        async with traced(collector, find_graph(folder)) as server:
            name = folder.name
            data = chat_bytes(name, messages=MESSAGES, temperature=0, max_tokens=120)
            reply = await server.ask(data)
            assert reply.status == 200
            assert b"12 degrees" in reply.body

    asyncio.run(scenario())
    assert collector.tree()["execute_tool get_weather"] == "node tools"
    call = collector.only("execute_tool get_weather")
    assert call.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "graphrt.tool_server": "weather",
        "graphrt.tool_output_bytes": len("Paris: 12 degrees and rainy"),
    }
    assert call.begin < call.end
    texts = [str(value) for span in collector.spans for value in span.attributes.values()]
    assert not any("Paris" in text for text in texts)
