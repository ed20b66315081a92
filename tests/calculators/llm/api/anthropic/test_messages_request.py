"""Parsing of ``/messages`` bodies, and their refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.llm.api.anthropic.messages_request import (
    MessagesRequest,
    count_tokens_response,
    parse_count_tokens_request,
    parse_messages_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

SEES = RequestLimits(max_images=2)
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"name": "f", "description": "does f", "input_schema": SCHEMA}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}


def parsed(limits: RequestLimits = SEES, **members: Any) -> MessagesRequest:
    body = {"model": "m", "max_tokens": 9, "messages": [USER], **members}
    return parse_messages_request(body, limits, ModelDefaults())


def conversation(*turns: dict[str, Any], **members: Any) -> list[dict[str, Any]]:
    return parsed(messages=list(turns), **members).messages


def refused(**members: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        parsed(**members)
    return raised.value


@pytest.fixture
def warned() -> Iterator[RequestRecord]:
    record = RequestRecord("mine")
    set_current_record(record)
    yield record
    set_current_record(None)


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("Be short.", "Be short."),
        ([text("Be short.")], "Be short."),
        (
            [{**text("Be short."), "cache_control": {"type": "ephemeral"}}, text("And kind.")],
            [text("Be short."), text("And kind.")],
        ),
    ],
)
def test_the_system_comes_first(system: Any, content: Any) -> None:
    assert conversation(USER, system=system) == [{"role": "system", "content": content}, USER]


@pytest.mark.parametrize("system", [None, "", []])
def test_no_system_is_no_message(system: Any) -> None:
    assert conversation(USER, system=system) == [USER]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_no_blocks_are_an_empty_text(role: str) -> None:
    assert conversation(USER, turn(role)) == [USER, {"role": role, "content": ""}]


def test_images_become_parts() -> None:
    linked = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    [message] = conversation(turn("user", text("look"), IMAGE, linked))
    assert message["content"] == [
        text("look"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
    ]


def test_thoughts_text_and_calls_are_one_message() -> None:
    assistant = turn(
        "assistant",
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "redacted_thinking", "data": "xyz"},
        text("Let me see."),
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "é"}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    )
    [_, message, *_] = conversation(USER, assistant, USER)
    assert message == {
        "role": "assistant",
        "content": "Let me see.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}},
            {"id": "t2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_tool_results_are_messages_of_their_own_and_the_rest_is_the_users() -> None:
    results = turn(
        "user",
        {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [text("a"), IMAGE]},
        {"type": "tool_result", "tool_use_id": "t3"},
        text("go on"),
    )
    assert conversation(results) == [
        {"role": "tool", "tool_call_id": "t1", "content": "sunny"},
        {
            "role": "tool",
            "tool_call_id": "t2",
            "content": [
                text("a"),
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
            ],
        },
        {"role": "tool", "tool_call_id": "t3", "content": ""},
        {"role": "user", "content": "go on"},
    ]


def test_a_result_that_is_an_error_says_so() -> None:
    failed = {"type": "tool_result", "tool_use_id": "t", "content": "no file", "is_error": True}
    [message] = conversation(turn("user", failed))
    assert message["content"] == [text("Error: "), text("no file")]


@pytest.mark.parametrize(
    ("kind", "name", "commands"),
    [
        ("bash_20250124", "bash", None),
        ("text_editor_20250124", "str_replace_editor", {"undo_edit"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"view", "insert"}),
        ("memory_20250818", "memory", {"rename", "delete"}),
    ],
)
def test_tools_of_the_client_that_anthropics_models_know_get_their_schemas(
    kind: str, name: str, commands: set[str] | None
) -> None:
    request = parsed(tools=[{"type": kind, "name": name, "cache_control": None}])
    [tool] = [each["function"] for each in request.tools.items]
    assert tool["name"] == name
    properties = tool["parameters"]["properties"]
    if commands is None:
        assert set(properties) == {"command", "restart"}
    else:
        known = set(properties["command"]["enum"])
        assert commands <= known
        assert ("undo_edit" in known) == (kind < "text_editor_20250429" and kind.startswith("text"))


def test_tools_that_run_at_anthropic_are_left_out(warned: RequestRecord) -> None:
    hosted = [
        {"type": kind, "name": kind.rsplit("_", 1)[0]}
        for kind in ("web_search_20250305", "web_fetch_20250910", "tool_search_tool_regex_20251119")
    ]
    assert [each["function"]["name"] for each in parsed(tools=[*hosted, TOOL]).tools.items] == ["f"]
    for tool, warning in zip(hosted, warned.warnings, strict=True):
        assert f'"{tool["type"]}"' in warning
    forced = refused(tools=[*hosted, TOOL], tool_choice={"type": "tool", "name": "web_search"})
    assert forced.param == "tool_choice"


def test_a_tool_that_was_found_is_named_in_the_result() -> None:
    found = [{"type": "tool_reference", "tool_name": name} for name in ("WebFetch", "Task")]
    result = {"type": "tool_result", "tool_use_id": "t", "content": found}
    [message] = conversation(turn("user", result))
    assert [part["text"] for part in message["content"]] == [
        "The tool WebFetch is loaded.\n",
        "The tool Task is loaded.\n",
    ]


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "document", "title": "a.md", "source": {"type": "text", "data": "one"}},
            '<document name="a.md">\none\n</document>\n',
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "text/plain", "data": "b25l"},
            },
            "<document>\none\n</document>\n",
        ),
        (
            {
                "type": "document",
                "source": {"type": "content", "content": [text("one"), text(" two")]},
            },
            "<document>\none two\n</document>\n",
        ),
        (
            {"type": "document", "source": {"type": "content", "content": "one"}},
            "<document>\none\n</document>\n",
        ),
        (
            {
                "type": "search_result",
                "source": "https://a.example",
                "title": "A",
                "content": [text("one")],
            },
            '<document name="A">\nSource: https://a.example\none\n</document>\n',
        ),
    ],
)
def test_documents_and_search_results_are_read(
    block: dict[str, Any], expected: str, in_result: bool
) -> None:
    if in_result:
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    [message] = conversation(turn("user", block))
    assert message["content"] == expected


def test_blocks_of_tools_that_ran_at_anthropic_are_passed_over() -> None:
    said = turn(
        "assistant",
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        text("Noon."),
    )
    [_, message] = conversation(USER, said)
    assert message["content"] == "Noon."


def test_an_empty_answer_in_the_history_is_kept() -> None:
    [_, assistant, _] = conversation(USER, turn("assistant"), USER)
    assert assistant == {"role": "assistant", "content": ""}


def test_a_system_message_may_follow_others() -> None:
    between = {"role": "system", "content": [text("be quick")]}
    assert conversation(USER, between, USER)[1] == {"role": "system", "content": "be quick"}


def test_tools_have_the_form_that_templates_expect() -> None:
    request = parsed(tools=[{**TOOL, "type": "custom", "cache_control": {"type": "ephemeral"}}])
    assert request.tools.items == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": SCHEMA},
        }
    ]
    assert request.tools.choice == "auto"


@pytest.mark.parametrize(
    ("choice", "kind", "left"),
    [
        (None, "auto", ["f", "g"]),
        ({"type": "auto"}, "auto", ["f", "g"]),
        ({"type": "any"}, "required", ["f", "g"]),
        ({"type": "tool", "name": "g"}, "named", ["g"]),
        ({"type": "none"}, "none", []),
    ],
)
def test_the_tool_choice_is_translated(choice: Any, kind: str, left: list[str]) -> None:
    request = parsed(tools=[TOOL, {**TOOL, "name": "g"}], tool_choice=choice)
    assert request.tools.choice == kind
    assert [tool["function"]["name"] for tool in request.tools.items] == left
    assert request.parallel_tool_calls


def test_parallel_calls_can_be_forbidden() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert not parsed(tools=[TOOL], tool_choice=choice).parallel_tool_calls


@pytest.mark.parametrize(
    ("thinking", "values"),
    [
        (None, {}),
        ({"type": "enabled", "budget_tokens": 2048}, {"enable_thinking": True}),
        ({"type": "adaptive"}, {"enable_thinking": True}),
        ({"type": "disabled"}, {"enable_thinking": False}),
    ],
)
def test_thinking_reaches_the_template(thinking: Any, values: dict[str, Any]) -> None:
    assert parsed(thinking=thinking).template.values == values


def test_the_effort_reaches_the_template_unless_its_arguments_set_it() -> None:
    request = parsed(
        thinking={"type": "enabled", "budget_tokens": 2048},
        output_config={"effort": "low"},
        chat_template_kwargs={"enable_thinking": False},
    )
    assert request.template.values == {"enable_thinking": False, "reasoning_effort": "low"}


@pytest.mark.parametrize("member", ["output_config", "output_format"])
def test_a_format_binds_the_answer(member: str) -> None:
    form = {"type": "json_schema", "schema": SCHEMA}
    members: dict[str, Any] = {member: {"format": form} if member == "output_config" else form}
    assert parsed(**members).structured is not None
    assert parsed().structured is None


def test_sampling_members_are_translated() -> None:
    settings = parsed(
        temperature=0.5, top_p=0.9, top_k=7, stop_sequences=["a", "b"], seed=3
    ).settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 7)
    assert (settings.stop_strings, settings.rng_seed) == (("a", "b"), 3)
    assert settings.max_new_tokens == 9


@pytest.mark.parametrize(
    "members",
    [
        {"metadata": {"user_id": "u"}},
        {"service_tier": "auto"},
        {"context_management": {"edits": []}},
        {"mcp_servers": []},
        {"thread": None},
        {"stop_sequences": []},
    ],
)
def test_members_without_effect_are_accepted(members: dict[str, Any]) -> None:
    assert parsed(**members).settings.stop_strings == ()


@pytest.mark.parametrize(
    ("members", "param", "words"),
    [
        ({"model": None}, "model", "Missing"),
        ({"max_tokens": None}, "max_tokens", "Missing"),
        ({"max_tokens": 0}, "max_tokens", "minimum 1"),
        ({"n": 2}, "n", "one answer"),
        ({"stop_sequences": [1]}, "stop_sequences[0]", "a string"),
        ({"mcp_servers": [{}]}, "mcp_servers[0].name", "label"),
        ({"thread": {"type": "create"}}, "thread", "send all messages"),
        ({"thread": {"type": "continue", "previous_message_id": "x"}}, "thread", "stored"),
        ({"compaction": {"type": "summarize"}}, "compaction", "not supported"),
        ({"container": "container_1"}, "container", "not supported"),
        ({"system": 1}, "system", "array of blocks"),
        ({"system": [IMAGE]}, "system[0].type", "image"),
        ({"messages": None}, "messages", "Missing"),
        ({"output_config": {"format": {}}}, "output_config.format.type", "Missing"),
        ({"output_format": {}}, "output_format.type", "Missing"),
        ({"messages": []}, "messages", "at least one"),
        ({"messages": [{"role": "system", "content": ""}]}, "messages", "nothing is said"),
        ({"messages": [1]}, "messages[0]", "an object"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "Missing"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "assistant"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "Missing"),
        ({"messages": [{"role": "user", "content": 4}]}, "messages[0].content", "array of blocks"),
        ({"messages": [turn("user", "x")]}, "messages[0].content[0]", "an object"),
        ({"messages": [turn("user", {})]}, "messages[0].content[0].type", "Missing"),
        (
            {"messages": [turn("user", {"type": "text"})]},
            "messages[0].content[0].text",
            "Missing",
        ),
        (
            {"messages": [turn("user", {"type": "document", "source": {"type": "url"}})]},
            "messages[0].content[0].source.type",
            "base64",
        ),
        (
            {"messages": [turn("user", {"type": "image", "source": {"type": "file"}})]},
            "messages[0].content[0].source.type",
            "base64",
        ),
        (
            {"messages": [turn("user", IMAGE, IMAGE, IMAGE)]},
            "messages[0].content[2]",
            "2 images",
        ),
        (
            {"messages": [turn("user", {"type": "tool_result", "content": "x"})]},
            "messages[0].content[0].tool_use_id",
            "Missing",
        ),
        (
            {
                "messages": [
                    turn(
                        "user",
                        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "x"}]},
                    )
                ]
            },
            "messages[0].content[0].content[0].type",
            "image",
        ),
        (
            {
                "messages": [
                    USER,
                    turn("assistant", {"type": "weather", "id": "s", "name": "web"}),
                ]
            },
            "messages[1].content[0].type",
            "weather",
        ),
        (
            {
                "messages": [
                    USER,
                    turn("assistant", {"type": "tool_use", "id": "t", "name": "f", "input": "{}"}),
                ]
            },
            "messages[1].content[0].input",
            "an object",
        ),
        ({"tools": [1]}, "tools[0]", "an object"),
        ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools[0].type", "web_search"),
        ({"tools": [{"type": "cutsom", "name": "x"}]}, "tools[0].type", 'mean "custom"'),
        ({"tools": [TOOL, {"type": "bash_20250124"}]}, "tools[1].name", "Missing"),
        ({"tools": [{"input_schema": SCHEMA}]}, "tools[0].name", "Missing"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema", "Missing"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name", "letters"),
        ({"tools": [{**TOOL, "name": "n" * 129}]}, "tools[0].name", "1 to 128 letters"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", "an object"),
        ({"tools": [TOOL], "tool_choice": {"type": "all"}}, "tool_choice.type", '"any"'),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name", "Missing"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice", "none"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "needs tools"),
        (
            {"tools": [{**TOOL, "input_schema": {"title": "x" * 70_000}}]},
            "tools[0].input_schema",
            "maximum 65536",
        ),
        ({"tools": [TOOL, TOOL]}, "tools[1].name", "already"),
        ({"thinking": {"type": "deep"}}, "thinking.type", '"adaptive"'),
        ({"thinking": {"budget_tokens": 5000}}, "thinking.type", "null"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort", '"max"'),
    ],
)
def test_errors_name_the_place(members: dict[str, Any], param: str, words: str) -> None:
    error = refused(**members)
    assert error.param is not None
    assert error.param.startswith(param)
    assert words in str(error)


def test_a_text_model_refuses_images() -> None:
    with pytest.raises(RequestError, match="does not read images"):
        parsed(RequestLimits(), messages=[turn("user", IMAGE)])


def test_counting_tokens_needs_no_max_tokens() -> None:
    body = {
        "model": "m",
        "messages": [USER],
        "system": "s",
        "tools": [TOOL],
        "thinking": {"type": "disabled"},
    }
    request = parse_count_tokens_request(body, SEES)
    assert request.model == "m"
    assert request.messages == [{"role": "system", "content": "s"}, USER]
    assert request.tools.items[0]["function"]["name"] == "f"
    assert request.template.values == {"enable_thinking": False}
    assert json.loads(count_tokens_response(12)) == {"input_tokens": 12}


def test_errors_of_counting_name_the_place() -> None:
    with pytest.raises(RequestError) as raised:
        parse_count_tokens_request({"model": "m", "messages": [{"role": "user"}]}, SEES)
    assert raised.value.param == "messages[0].content"
    toolset: dict[str, Any] = {"type": "mcp_toolset"}
    for more, param in (
        ({}, "mcp_server_name"),
        ({"mcp_server_name": "s", "configs": []}, "configs"),
    ):
        body = {"model": "m", "messages": [USER], "tools": [{**toolset, **more}]}
        with pytest.raises(RequestError) as raised:
            parse_count_tokens_request(body, SEES)
        assert raised.value.param == f"tools[0].{param}"


PREFILLED = [USER, {"role": "assistant", "content": "The answer is ("}]


def test_a_last_message_of_the_assistant_is_continued() -> None:
    continued = parsed(messages=PREFILLED)
    assert continued.messages[-1] == PREFILLED[-1]
    assert continued.template.continues
    assert continued.template.all_values["add_generation_prompt"] is False
    assert not parsed().template.continues
    counted = parse_count_tokens_request({"model": "m", "messages": PREFILLED}, SEES)
    assert counted.template.continues


def test_the_generation_prompt_begins_another_message() -> None:
    begun = parsed(messages=PREFILLED, add_generation_prompt=True)
    assert not begun.template.continues
    assert begun.template.all_values["add_generation_prompt"] is True


def test_a_number_of_tokens_above_the_limit_of_the_graph_is_that_limit() -> None:
    # The member is required, so a client's library may send a default of its own.
    limited = parsed(RequestLimits(max_tokens_limit=100), max_tokens=4096)
    assert limited.settings.max_new_tokens == 100
    assert not limited.limits_itself
