"""Servers of tools that requests name: what is read, refused, and shown in answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from calculators.language import (
    Api,
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Finished,
    FinishReason,
    Gained,
    RequestError,
    ToolCalled,
    ToolRan,
    ToolServer,
    Usage,
    request_for,
)
from calculators.llm.answers.answer_writer import DeltaWriter
from calculators.llm.api.anthropic.messages_request import parse_messages_request
from calculators.llm.api.openai.responses_request import parse_responses_request
from calculators.llm.api.whole_answer import answer_writer
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS
from calculators.llm.requests.tools import refuse_servers

DEFAULTS = ModelDefaults(temperature=0.0)
MCP = {"type": "mcp", "server_label": "weather", "require_approval": "never"}
FUNCTION = {"type": "function", "name": "own", "parameters": {}}


def responses(*tools: dict[str, Any], **members: Any) -> Any:
    body = {"model": "m", "input": "x", "tools": list(tools), **members}
    return parse_responses_request(body, LIMITS, DEFAULTS)


def messages(*servers: Any, **members: Any) -> Any:
    said = [{"role": "user", "content": "x"}]
    body = {"model": "m", "max_tokens": 9, "messages": said, "mcp_servers": list(servers)}
    return parse_messages_request({**body, **members}, LIMITS, DEFAULTS)


def test_responses_name_servers_among_their_tools() -> None:
    request = responses(MCP, FUNCTION, {**MCP, "server_label": "b", "allowed_tools": ["x"]})
    assert request.tool_servers == (
        ToolServer("weather", "tools[0].server_label"),
        ToolServer("b", "tools[2].server_label", allowed=("x",)),
    )
    assert [tool["function"]["name"] for tool in request.tools.items] == ["own"]
    assert request.tools.schema_paths == ("tools[1].parameters",)
    assert [tool["type"] for tool in request.echo["tools"]] == ["mcp", "function", "mcp"]


def test_a_call_may_be_required_of_servers_alone() -> None:
    assert responses(MCP, tool_choice="required").tools.choice == "required"
    with pytest.raises(RequestError, match="needs tools"):
        responses(tool_choice="required")


def test_who_wants_no_calls_is_known() -> None:
    assert responses(FUNCTION, tool_choice="none").tools.is_declined
    assert not responses().tools.is_declined


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "mcp", "require_approval": "never"}, "server_label"),
        ({**MCP, "require_approval": "always"}, "require_approval"),
        ({**MCP, "require_approval": None}, "require_approval"),
        ({**MCP, "headers": {"a": "b"}}, "headers"),
        ({**MCP, "authorization": "token"}, "authorization"),
        ({**MCP, "connector_id": "connector_gmail"}, "connector_id"),
        ({**MCP, "allowed_tools": "x"}, "allowed_tools"),
        ({**MCP, "allowed_tools": [1]}, "allowed_tools"),
        ({**MCP, "allowed_tools": {"tool_names": 1}}, "allowed_tools.tool_names"),
        ({**MCP, "allowed_tools": {"read_only": True}}, "allowed_tools.read_only"),
        ({**MCP, "server_url": 1}, "server_url"),
    ],
)
def test_a_server_of_responses_that_is_wrong_is_named(tool: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        responses(FUNCTION, tool)
    assert caught.value.param == f"tools[1].{param}"


def test_messages_name_servers_and_choose_among_their_tools() -> None:
    servers = [
        {"type": "url", "name": "a", "url": ""},
        {"name": "b", "tool_configuration": {"allowed_tools": ["x"]}},
        {"name": "c"},
        {"name": "d"},
    ]
    tools = [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "c",
            "default_config": {"enabled": False},
            "configs": {"x": {"enabled": True}, "y": {}},
        },
        {"type": "mcp_toolset", "mcp_server_name": "d", "configs": {"x": {"enabled": False}}},
        {"name": "own", "input_schema": {}},
    ]
    request = messages(*servers, tools=tools)
    assert request.tool_servers == (
        ToolServer("a", "mcp_servers[0].name"),
        ToolServer("b", "mcp_servers[1].name", allowed=("x",)),
        ToolServer("c", "mcp_servers[2].name", allowed=("x",)),
        ToolServer("d", "mcp_servers[3].name", refused=("x",)),
    )
    assert request.tools.schema_paths == ("tools[2].input_schema",)


@pytest.mark.parametrize(
    ("servers", "tools", "param"),
    [
        (["x"], [], "mcp_servers[0]"),
        ([{}], [], "mcp_servers[0].name"),
        ([{"name": "a", "type": "stdio"}], [], "mcp_servers[0].type"),
        ([{"name": "a", "authorization_token": "t"}], [], "mcp_servers[0].authorization_token"),
        ([{"name": "a"}, {"name": "a"}], [], "mcp_servers[1].name"),
        ([{"name": str(i)} for i in range(33)], [], "mcp_servers"),
        (
            [{"name": "a"}],
            [{"type": "mcp_toolset", "mcp_server_name": "b"}],
            "tools[0].mcp_server_name",
        ),
        ([], [{"type": "mcp_toolset", "mcp_server_name": "b"}], "tools[0].mcp_server_name"),
    ],
)
def test_a_server_of_messages_that_is_wrong_is_named(
    servers: list[Any], tools: list[Any], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        messages(*servers, tools=tools)
    assert caught.value.param == param


def test_a_model_without_a_tools_node_refuses_servers() -> None:
    asked = ToolServer("weather", "tools[0].server_label")
    refuse_servers((asked._replace(is_offered=True),))
    with pytest.raises(RequestError, match="calls no tool servers") as caught:
        refuse_servers((asked,))
    assert caught.value.param == "tools[0].server_label"


# Conversations ------------------------------------------------------------------------------------

#: Two turns of an earlier answer.
EXPECTED = [
    {"role": "user", "content": "x"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "get", "arguments": '{"a": 1}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "12"},
    {"role": "assistant", "content": "It is 12."},
    {"role": "user", "content": "y"},
]


def test_messages_with_calls_of_servers_can_be_sent_back() -> None:
    said = [
        {"type": "text", "text": "I look."},
        {"type": "mcp_tool_use", "id": "c1", "name": "get", "server_name": "w", "input": {"a": 1}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "c1",
            "is_error": False,
            "content": [{"type": "text", "text": "12"}],
        },
        {"type": "text", "text": "It is 12."},
    ]
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "y"},
    ]
    assert messages(messages=history).messages == EXPECTED


def test_responses_with_calls_of_servers_can_be_sent_back() -> None:
    items = [
        {"role": "user", "content": "x"},
        {"type": "mcp_list_tools", "id": "l", "server_label": "w", "tools": []},
        {"role": "assistant", "content": "I look."},
        {
            "type": "mcp_call",
            "id": "c1",
            "server_label": "w",
            "name": "get",
            "arguments": '{"a": 1}',
            "output": "12",
            "error": None,
        },
        {"role": "assistant", "content": "It is 12."},
        {"role": "user", "content": "y"},
    ]
    assert responses(input=items).messages == EXPECTED


# Answers ------------------------------------------------------------------------------------------

OFFERED = ToolServer(
    "weather",
    "tools[0]",
    tools=({"name": "get", "description": "Gets", "parameters": {"type": "object"}},),
    is_offered=True,
)


def run_of(call_id: str, server: str = "weather", error: str | None = None) -> ToolRan:
    output = "" if error else f"output of {call_id}"
    return ToolRan(0, call_id, "get", server, '{"a":1}', output, error, 0.1)


def called(ran: ToolRan) -> ToolCalled:
    return ToolCalled(ran.choice, ran.call_id, ran.name, ran.server, ran.arguments)


def answer(api: Api, *, stream: bool, servers: Sequence[ToolServer] = (OFFERED,)) -> str:
    """Write an answer with two calls at a time, one of which fails, and one of another server."""
    good, bad, other = run_of("c1"), run_of("c2", error="it broke"), run_of("c3", "other")
    echo = responses(*([MCP] if servers else ())).echo
    request = request_for(
        "x", api=api, stream=stream, tool_servers=tuple(servers), id="id1", echo=echo
    )
    writer = DeltaWriter(answer_writer)
    items: list[Delta] = [
        Begun(1, Usage(1, 0), request),
        Gained(0, (Content("I look."),)),
        *map(called, (good, bad, other)),
        good,
        bad,
        other,
        Gained(0, (Content("It is 12."),)),
        Finished(0, FinishReason.STOP),
        Ended(Usage(2, 3)),
    ]
    return "".join(writer.write(Deltas((item,))) for item in items)


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def kinds(items: Iterable[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in items]


def test_messages_show_calls_and_results_as_blocks() -> None:
    whole = json.loads(answer(Api.MESSAGES, stream=False))["content"]
    assert whole == [
        {"type": "text", "text": "I look."},
        {
            "type": "mcp_tool_use",
            "id": "c1",
            "name": "get",
            "server_name": "weather",
            "input": {"a": 1},
        },
        {
            "type": "mcp_tool_use",
            "id": "c2",
            "name": "get",
            "server_name": "weather",
            "input": {"a": 1},
        },
        {
            "type": "mcp_tool_result",
            "tool_use_id": "c1",
            "is_error": False,
            "content": [{"type": "text", "text": "output of c1"}],
        },
        {
            "type": "mcp_tool_result",
            "tool_use_id": "c2",
            "is_error": True,
            "content": [{"type": "text", "text": "it broke"}],
        },
        {"type": "text", "text": "It is 12."},
    ]
    streamed = events(answer(Api.MESSAGES, stream=True))
    starts = [each for each in streamed if each["type"] == "content_block_start"]
    assert [each["index"] for each in starts] == list(range(6))
    assert kinds(each["content_block"] for each in starts) == kinds(whole)
    inputs = [
        each["delta"]["partial_json"]
        for each in streamed
        if each["type"] == "content_block_delta" and "partial_json" in each["delta"]
    ]
    assert [json.loads(each) for each in inputs] == [{"a": 1}, {"a": 1}]
    assert starts[3]["content_block"] == whole[3]


def test_responses_show_calls_and_the_listed_tools_as_items() -> None:
    whole = json.loads(answer(Api.RESPONSES, stream=False))["output"]
    assert kinds(whole) == ["mcp_list_tools", "message", "mcp_call", "mcp_call", "message"]
    listed, _, good, bad, _ = whole
    assert listed["server_label"] == "weather"
    assert listed["tools"] == [
        {
            "name": "get",
            "description": "Gets",
            "input_schema": {"type": "object"},
            "annotations": None,
        }
    ]
    assert {name: good[name] for name in ("status", "output", "error", "arguments")} == {
        "status": "completed",
        "output": "output of c1",
        "error": None,
        "arguments": '{"a":1}',
    }
    assert (bad["status"], bad["output"], bad["error"]) == ("failed", None, "it broke")


def test_the_events_of_responses_come_in_openais_order() -> None:
    streamed = events(answer(Api.RESPONSES, stream=True))
    assert [each["sequence_number"] for each in streamed] == list(range(len(streamed)))
    of_tools = [
        (each["type"].removeprefix("response."), each["output_index"])
        for each in streamed
        if "mcp" in each["type"] or "mcp" in each.get("item", {}).get("type", "")
    ]
    assert of_tools == [
        ("output_item.added", 0),
        ("mcp_list_tools.in_progress", 0),
        ("mcp_list_tools.completed", 0),
        ("output_item.done", 0),
        ("output_item.added", 2),
        ("mcp_call.in_progress", 2),
        ("mcp_call_arguments.delta", 2),
        ("mcp_call_arguments.done", 2),
        ("output_item.added", 3),
        ("mcp_call.in_progress", 3),
        ("mcp_call_arguments.delta", 3),
        ("mcp_call_arguments.done", 3),
        ("mcp_call.completed", 2),
        ("output_item.done", 2),
        ("mcp_call.failed", 3),
        ("output_item.done", 3),
    ]
    final = streamed[-1]["response"]["output"]
    done = [each["item"] for each in streamed if each["type"] == "response.output_item.done"]
    assert final == sorted(done, key=done.index)
    assert kinds(final) == ["mcp_list_tools", "message", "mcp_call", "mcp_call", "message"]


@pytest.mark.parametrize(
    ("api", "shown"), [(Api.RESPONSES, "mcp_call"), (Api.MESSAGES, "mcp_tool_use")]
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_result_without_its_beginning_shows_the_call_too(
    api: Api, shown: str, stream: bool
) -> None:
    request = request_for("x", api=api, stream=stream, tool_servers=(OFFERED,))
    end = (Finished(0, FinishReason.STOP), Ended(Usage(2, 3)))
    items = (Begun(1, Usage(1, 0), request), run_of("c1"), *end)
    written = DeltaWriter(answer_writer).write(Deltas(items))
    assert f'"{shown}"' in written
    assert "output of c1" in written


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES, Api.MESSAGES])
@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_name_no_server_see_no_calls(api: Api, stream: bool) -> None:
    written = answer(api, stream=stream, servers=())
    for text in ("mcp", "c1", "output of", "get"):
        assert f'"{text}' not in written
