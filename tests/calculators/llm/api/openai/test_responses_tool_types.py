"""Tools of all types in ``/responses``: as functions for the model, and as calls for the client."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.language.delta import FinishReason, Usage
from calculators.language.events import Arguments, OutputEvent, Reasoning, ToolCall
from calculators.llm.answers.response import AnswerChoice
from calculators.llm.api.openai.responses_request import ResponsesRequest, parse_responses_request
from calculators.llm.api.openai.responses_writer import ResponsesAnswerWriter
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from tests.calculators.llm.api.openai.test_responses_writer import read

FUNCTION = {"type": "function", "name": "now", "parameters": {"type": "object"}}
CLOCK = {
    "type": "namespace",
    "name": "mcp__clock",
    "tools": [FUNCTION, {**FUNCTION, "name": "set"}],
}
PATCH = {"type": "custom", "name": "patch", "description": "Patch files."}
HOSTED = ["web_search", "web_search_preview", "image_generation", "code_interpreter", "tool_search"]


@pytest.fixture(autouse=True)
def record() -> Iterator[RequestRecord]:
    made = RequestRecord("mine")
    set_current_record(made)
    yield made
    set_current_record(None)


def parsed(*tools: Any, **members: Any) -> ResponsesRequest:
    body = {"model": "m", "input": "hi", "tools": list(tools), **members}
    return parse_responses_request(body, RequestLimits(), ModelDefaults())


def names(request: ResponsesRequest) -> list[str]:
    return [tool["function"]["name"] for tool in request.tools.items]


def refused(*tools: Any, **members: Any) -> RequestError:
    with pytest.raises(RequestError) as raised:
        parsed(*tools, **members)
    return raised.value


def answered(
    request: ResponsesRequest, *events: OutputEvent, seals: bool = False
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the events of an answer, and its items as they are in a whole answer."""
    made = ResponsesAnswerWriter(request, seals_reasoning=seals)
    text = made.start(Usage(1, 0)) + "".join(made.more(0, [event], None) for event in events)
    text += made.finish(0, FinishReason.TOOL_CALLS) + made.end(Usage(1, 1))
    whole = ResponsesAnswerWriter(request, seals_reasoning=seals).whole(
        [AnswerChoice(list(events), FinishReason.TOOL_CALLS)], Usage(1, 1)
    )
    streamed = read(text)
    items = json.loads(whole)["output"]
    final = streamed[-1]["response"]["output"]
    assert [{**item, "id": ""} for item in items] == [{**item, "id": ""} for item in final]
    assert final == [e["item"] for e in streamed if e["type"] == "response.output_item.done"]
    return streamed, items


def call(name: str, arguments: str, pieces: int = 1) -> list[OutputEvent]:
    cuts = sorted(random.Random(pieces).choices(range(len(arguments) + 1), k=pieces - 1))
    parts = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
    return [ToolCall(name, "call_1"), *map(Arguments, parts)]


# Namespaces ---------------------------------------------------------------------------------------


def test_functions_of_a_namespace_are_called_by_their_short_names() -> None:
    request = parsed(FUNCTION, CLOCK)
    assert names(request) == ["now", "mcp__clock__now", "mcp__clock__set"]
    assert request.tools.schema_paths[1] == "tools[1].tools[0].parameters"
    _, [plain, inner] = answered(request, *call("now", "{}"), *call("mcp__clock__now", '{"a":1}'))
    assert (plain["type"], plain["name"], "namespace" in plain) == ("function_call", "now", False)
    assert (inner["type"], inner["name"]) == ("function_call", "now")
    assert (inner["namespace"], inner["arguments"]) == ("mcp__clock", '{"a":1}')


def test_a_call_in_a_namespace_comes_back_under_the_models_name() -> None:
    items = [
        {"role": "user", "content": "time?"},
        {"type": "function_call", "call_id": "c", "namespace": "mcp__clock", "name": "now",
         "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "noon"},
    ]  # fmt: skip
    [_, said, result] = parsed(CLOCK, input=items).messages
    assert said["tool_calls"][0]["function"]["name"] == "mcp__clock__now"
    assert (result["role"], result["tool_call_id"]) == ("tool", "c")


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "mcp__clock__set"},
        {"type": "function", "name": "set"},
        {"type": "function", "namespace": "mcp__clock", "name": "set"},
    ],
)
def test_a_function_of_a_namespace_can_be_chosen(choice: Any) -> None:
    request = parsed(FUNCTION, CLOCK, tool_choice=choice)
    assert (request.tools.choice, names(request)) == ("named", ["mcp__clock__set"])


def test_a_namespace_can_be_allowed() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [CLOCK]}
    assert names(parsed(FUNCTION, CLOCK, tool_choice=allowed)) == [
        "mcp__clock__now",
        "mcp__clock__set",
    ]


def test_two_namespaces_may_have_the_same_short_name() -> None:
    other = {**CLOCK, "name": "wall"}
    assert names(parsed(CLOCK, other))[2:] == ["wall__now", "wall__set"]
    assert refused(CLOCK, CLOCK).param == "tools[1].tools[0].name"


# Hosted tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HOSTED)
def test_hosted_tools_are_left_out_and_named(record: RequestRecord, kind: str) -> None:
    request = parsed(FUNCTION, {"type": kind, "external_web_access": True})
    assert names(request) == ["now"]
    [warning] = record.warnings
    assert "tools[1].type" in warning
    assert f'"{kind}"' in warning
    assert [tool["type"] for tool in request.echo["tools"]] == ["function"]


def test_a_hosted_tool_that_is_forced_or_must_be_known_is_refused(record: RequestRecord) -> None:
    tools = (FUNCTION, {"type": "web_search"})
    assert refused(*tools, tool_choice={"type": "web_search"}).param == "tool_choice.type"
    assert refused({"type": "web_search"}, tool_choice="required").param == "tool_choice"
    record.unknown_members = UnknownMembers.REFUSE
    assert refused(*tools).param == "tools[1].type"
    record.unknown_members = UnknownMembers.IGNORE
    assert names(parsed(*tools)) == ["now"]


def test_a_shell_in_a_container_of_openai_is_hosted(record: RequestRecord) -> None:
    assert names(parsed({"type": "shell", "environment": {"type": "local"}})) == ["shell"]
    assert names(parsed({"type": "shell", "environment": {"type": "container_auto"}})) == []
    assert len(record.warnings) == 1


# Custom tools -------------------------------------------------------------------------------------

TEXTS = [
    '*** Begin Patch\n+é "q" \\ \t\U0001f600\n*** End Patch\n',
    "",
    "x",
    '{"input": "nested"}',
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("pieces", [1, 3, 17, 200])
def test_the_text_of_a_custom_tool_streams(text: str, ascii_only: bool, pieces: int) -> None:
    request = parsed(PATCH)
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    events, [item] = answered(request, *call("patch", arguments, pieces))
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", text)
    deltas = [e["delta"] for e in events if e["type"].endswith("custom_tool_call_input.delta")]
    assert "".join(deltas) == text
    [done] = [e for e in events if e["type"].endswith("custom_tool_call_input.done")]
    assert done["input"] == text


@pytest.mark.parametrize("arguments", ["*** Begin Patch", '{"patch": "x"}', '{"input": 5}', "[1]"])
def test_other_arguments_are_the_text(arguments: str) -> None:
    events, [item] = answered(parsed(PATCH), *call("patch", arguments, 4))
    assert item["input"] == arguments
    deltas = [e["delta"] for e in events if e["type"].endswith("custom_tool_call_input.delta")]
    assert "".join(deltas) == arguments


def test_a_custom_tool_with_a_grammar_shows_it_to_the_model() -> None:
    syntax = {"type": "grammar", "syntax": "regex", "definition": "[0-9]+|x"}
    [tool] = parsed({**PATCH, "format": syntax}, tool_choice="required").tools.items
    text = tool["function"]["parameters"]["properties"]["input"]
    assert "[0-9]+|x" in text["description"]
    lark = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'}
    [tool] = parsed({**PATCH, "format": lark}).tools.items
    assert 'start: "a"+' in tool["function"]["parameters"]["properties"]["input"]["description"]
    missing = refused({**PATCH, "format": {"type": "grammar", "syntax": "lark"}})
    assert missing.param == "tools[0].format.definition"


def test_a_custom_call_comes_back_with_its_result() -> None:
    items = [
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a "b"\n'},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    [said, result] = parsed(PATCH, input=items).messages
    function = said["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("patch", {"input": 'a "b"\n'})
    assert result == {"role": "tool", "tool_call_id": "c", "content": "done"}
    assert names(parsed(PATCH, FUNCTION, tool_choice={"type": "custom", "name": "patch"})) == [
        "patch"
    ]


# Shells and patches -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments", "member", "value"),
    [
        (
            "local_shell",
            {"command": ["ls", "-l"], "timeout_ms": 5},
            "action",
            {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5, "user": None,
             "working_directory": None},
        ),
        (
            "shell",
            {"commands": ["ls"]},
            "action",
            {"commands": ["ls"], "timeout_ms": None, "max_output_length": None},
        ),
        (
            "apply_patch",
            {"type": "create_file", "path": "a.py", "diff": "+x"},
            "operation",
            {"type": "create_file", "path": "a.py", "diff": "+x"},
        ),
        (
            "apply_patch",
            {"type": "delete_file", "path": "a.py"},
            "operation",
            {"type": "delete_file", "path": "a.py"},
        ),
    ],
)  # fmt: skip
def test_built_in_tools_of_clients(kind: str, arguments: Any, member: str, value: Any) -> None:
    request = parsed({"type": kind}, tool_choice={"type": kind})
    assert (names(request), request.tools.choice) == ([kind], "named")
    _, [item] = answered(request, *call(kind, json.dumps(arguments), 3))
    assert (item["type"], item[member], item["call_id"]) == (f"{kind}_call", value, "call_1")
    output = [{"stdout": "x"}] if kind == "shell" else "fine"
    back = [item, {"type": f"{kind}_call_output", "call_id": "call_1", "output": output}]
    [said, result] = parsed({"type": kind}, input=back).messages
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == arguments
    assert result["tool_call_id"] == "call_1"
    assert ("stdout" if kind == "shell" else "fine") in result["content"]


SEARCH = {"type": "tool_search", "execution": "client", "description": "Find tools."}


def test_a_search_for_tools_that_the_client_runs(record: RequestRecord) -> None:
    parameters = {"type": "object", "properties": {"goal": {"type": "string"}}}
    own = {**SEARCH, "parameters": parameters}
    request = parsed(own, tool_choice={"type": "tool_search"})
    [tool] = request.tools.items
    assert tool["function"] == {
        "name": "tool_search",
        "description": "Find tools.",
        "parameters": parameters,
    }
    assert request.echo["tools"] == [own]
    _, [item] = answered(request, *call("tool_search", '{"goal": "time"}', 3))
    assert (item["type"], item["execution"], item["call_id"], item["arguments"]) == (
        "tool_search_call",
        "client",
        "call_1",
        {"goal": "time"},
    )
    found = {"type": "tool_search_output", "execution": "client", "call_id": "call_1"}
    back = parsed(own, input=[item, {**found, "tools": [CLOCK]}])
    [said, result] = back.messages
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"goal": "time"}
    assert (result["tool_call_id"], "mcp__clock" in result["content"]) == ("call_1", True)
    assert names(back) == ["tool_search", "mcp__clock__now", "mcp__clock__set"]
    assert record.warnings == ()


def test_a_search_for_tools_without_parameters_takes_a_query() -> None:
    [tool] = parsed(SEARCH).tools.items
    assert tool["function"]["parameters"]["required"] == ["query"]


@pytest.mark.parametrize("arguments", ["", "{", "[]", '{"command": 5, "commands": 5}'])
@pytest.mark.parametrize("kind", ["local_shell", "shell", "apply_patch"])
def test_arguments_that_are_cut_or_wrong_are_no_exception(kind: str, arguments: str) -> None:
    _, [item] = answered(parsed({"type": kind}), *call(kind, arguments))
    assert item["type"] == f"{kind}_call"


# Items --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "tool_search_call", "call_id": "c", "arguments": {}},
        {"type": "image_generation_call", "id": "ig", "result": "AA"},
        {"type": "ghost_snapshot"},
    ],
)
def test_items_of_hosted_tools_are_passed_over(record: RequestRecord, item: Any) -> None:
    messages = parsed(input=[{"role": "user", "content": "hi"}, item]).messages
    assert messages == [{"role": "user", "content": "hi"}]
    assert record.warnings == ()


def test_items_that_nobody_knows_are_left_out(record: RequestRecord) -> None:
    messages = parsed(input=[{"role": "user", "content": "hi"}, {"type": "weather"}]).messages
    assert len(messages) == 1
    assert "input[1].type" in record.warnings[0]


def test_a_message_of_an_agent_is_one_to_the_model() -> None:
    parts = [{"type": "input_text", "text": "go on"}, {"type": "encrypted_content", "text": "x"}]
    item = {"type": "agent_message", "author": "a", "recipient": "b", "content": parts}
    [message] = parsed(input=[item]).messages
    assert message == {"role": "user", "content": [{"type": "text", "text": "go on"}]}


@pytest.mark.parametrize("kind", ["tool_search_output", "additional_tools"])
def test_items_add_tools(kind: str) -> None:
    found = {"type": kind, "call_id": "c", "tools": [CLOCK, {**FUNCTION, "description": "new"}]}
    request = parsed(FUNCTION, input=[{"role": "user", "content": "hi"}, found])
    assert sorted(names(request)) == ["mcp__clock__now", "mcp__clock__set", "now"]
    by_name = {tool["function"]["name"]: tool["function"] for tool in request.tools.items}
    assert by_name["now"]["description"] == "new"
    _, [item] = answered(request, *call("mcp__clock__set", "{}"))
    assert (item["name"], item["namespace"]) == ("set", "mcp__clock")


@pytest.mark.parametrize("kind", ["tool_search_output", "additional_tools"])
def test_servers_of_tools_that_items_add_are_left_out(record: RequestRecord, kind: str) -> None:
    item = {"type": kind, "tools": [{"type": "mcp"}, FUNCTION]}
    request = parsed(input=[{"role": "user", "content": "hi"}, item], instructions="Be short.")
    assert [tool["type"] for tool in request.echo["tools"]] == ["function"]
    assert "input[1].tools[0].type" in record.warnings[0]


def test_instructions_need_no_message_beside_them() -> None:
    request = parsed(input=[{"type": "additional_tools"}], instructions="Be short.")
    assert request.messages == [{"role": "system", "content": "Be short."}]


@pytest.mark.parametrize(
    ("member", "param"),
    [
        ({"name": ""}, "tools[0].name"),
        ({"description": 0}, "tools[0].description"),
        ({"tools": [{"type": "function", "name": ""}]}, "tools[0].tools[0].name"),
    ],
)
def test_namespaces_are_checked(member: dict[str, Any], param: str) -> None:
    assert refused({**CLOCK, **member}).param == param


# Reasoning ----------------------------------------------------------------------------------------


def test_reasoning_comes_back_by_its_opaque_text(record: RequestRecord) -> None:
    events, [thought, _] = answered(
        parsed(FUNCTION), Reasoning("Let me\nsee."), *call("now", "{}"), seals=True
    )
    sealed = thought["encrypted_content"]
    assert "see" not in sealed
    added = next(e["item"] for e in events if e["type"] == "response.output_item.added")
    assert "encrypted_content" not in added
    bare = {**thought, "summary": []}
    [said] = parsed(input=[bare, {"role": "assistant", "content": "Noon."}]).messages
    assert said["reasoning_content"] == "Let me\nsee."
    assert record.warnings == ()


@pytest.mark.parametrize("sealed", ["gAAAA=", "", "grt1.", "grt1.AAAA", "grt1.é"])
def test_an_opaque_text_of_others_is_left_out(record: RequestRecord, sealed: str) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": sealed}
    user = {"role": "user", "content": "hi"}
    assert parsed(input=[user, item]).messages == [user]
    assert [("not of this server" in each) for each in record.warnings] == [True] * bool(sealed)
    summary = [{"type": "summary_text", "text": "so"}]
    [_, said] = parsed(input=[user, {**item, "summary": summary}]).messages
    assert said["reasoning_content"] == "so"


def test_a_changed_opaque_text_is_not_read() -> None:
    _, [thought] = answered(parsed(), Reasoning("a" * 100), seals=True)
    sealed = thought["encrypted_content"]
    other = sealed[:-3] + ("AAA" if sealed[-3:] != "AAA" else "BBB")
    item = {**thought, "summary": [], "encrypted_content": other}
    user = {"role": "user", "content": "hi"}
    assert parsed(input=[user, item]).messages == [user]


# Documents ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", ["aGVsbG8=", "data:text/plain;base64,aGVsbG8=", "data:text/markdown,hello"]
)
def test_a_file_of_text_is_read(data: str) -> None:
    part = {"type": "input_file", "filename": 'a"b.md', "file_data": data}
    [message] = parsed(input=[{"role": "user", "content": [part]}]).messages
    assert message["content"] == [
        {"type": "text", "text": '<document name="a b.md">\nhello\n</document>\n'}
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("!", "Base64"),
        ("data:application/pdf;base64,AAAA", "application/pdf is not read"),
        ("JVBERi0xLjc=", "application/pdf is not read"),
        ("gIGC", "not text in UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_refused(data: str, words: str) -> None:
    part = {"type": "input_file", "file_data": data}
    error = refused(input=[{"role": "user", "content": [part]}])
    assert error.param == "input[0].content[0].file_data"
    assert words in str(error)
