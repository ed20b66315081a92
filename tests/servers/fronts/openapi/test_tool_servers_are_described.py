"""Requests that name servers of tools, and answers with their calls, fit the document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.language import Api
from tests.calculators.llm.api.test_tool_servers import MCP, answer
from tests.servers.fronts.openapi.described import Described

RESPONSES = "/v3/responses"
MESSAGES = "/v3/messages"
SAID = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def described() -> Described:
    return Described()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RESPONSES, {"input": "x", "tools": [MCP, {"type": "function", "name": "f"}]}),
        (RESPONSES, {"input": "x", "tools": [{**MCP, "allowed_tools": {"tool_names": ["a"]}}]}),
        (MESSAGES, {"messages": SAID, "max_tokens": 9, "mcp_servers": [{"name": "weather"}]}),
        (
            MESSAGES,
            {
                "messages": SAID,
                "max_tokens": 9,
                "mcp_servers": [{"type": "url", "name": "weather", "url": ""}],
                "tools": [{"type": "mcp_toolset", "mcp_server_name": "weather"}],
            },
        ),
    ],
)
def test_requests_fit(described: Described, path: str, body: dict[str, Any]) -> None:
    assert described.request_errors(path, {"model": "m", **body}) == []


def test_items_of_an_answer_may_be_sent_back(described: Described) -> None:
    output = json.loads(answer(Api.RESPONSES, stream=False))["output"]
    body: dict[str, Any] = {"model": "m", "input": [*SAID, *output], "tools": [MCP]}
    assert described.request_errors(RESPONSES, body) == []
    content = json.loads(answer(Api.MESSAGES, stream=False))["content"]
    messages = [*SAID, {"role": "assistant", "content": content}, *SAID]
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    assert described.request_errors(MESSAGES, body) == []


@pytest.mark.parametrize(("api", "path"), [(Api.RESPONSES, RESPONSES), (Api.MESSAGES, MESSAGES)])
@pytest.mark.parametrize("stream", [False, True])
def test_answers_fit(described: Described, api: Api, path: str, stream: bool) -> None:
    written = answer(api, stream=stream)
    kind = "text/event-stream" if stream else "application/json"
    described.check_answer(path, "post", 200, kind, written.encode())
