"""docs/workers.md: its command serves the demo by two processes with one engine."""

from __future__ import annotations

from tests.documents.snippets import served
from tests.support.markdown import commands
from tests.support.processes import children_of, module_of

PAGE = "docs/workers.md"
CHAT = "/v3/chat/completions"


def test_the_command_serves_the_demo_by_two_processes() -> None:
    (command,) = commands(PAGE, "graphrt serve examples/config.json")
    with served(command) as server:
        modules = sorted(module_of(pid) for pid in children_of(server.pid))
        assert modules == [
            "calculators.llm.engine.process",
            "calculators.llm.prompt.process",
            "servers.cli.worker",
            "servers.cli.worker",
        ]
        assert any("graphrt serves grpc://" in line for line in server.log)
        body = {
            "model": "demo",
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 2,
        }
        for _ in range(4):
            with server.request("POST", CHAT, body) as response:
                assert response.status == 200
        with server.request("GET", "/metrics") as response:
            text = response.read().decode()
        counted = 'graphrt_llm_requests_total{graph="demo",node="LLMExecutor",outcome="finished"}'
        assert f"{counted} 4.0\n" in text
