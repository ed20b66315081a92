"""Parsing of bodies of Google's ``:generateContent``, and their refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.llm.api.google.generate_content_request import (
    GenerateContentRequest,
    json_schema,
    parse_count_tokens_request,
    parse_generate_content_request,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits

SENSES = RequestLimits(max_images=2, max_sounds=1)
HELLO = {"role": "user", "parts": [{"text": "hi"}]}
FUNCTION = {"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}
TOOLS = [{"functionDeclarations": [FUNCTION, {"name": "g"}]}]


def parsed(limits: RequestLimits = SENSES, **members: Any) -> GenerateContentRequest:
    body = {"model": "m", "contents": [HELLO], **members}
    return parse_generate_content_request(body, limits, ModelDefaults())


def configured(**config: Any) -> GenerateContentRequest:
    return parsed(generationConfig=config)


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


def test_a_whole_configuration_is_read() -> None:
    request = configured(
        temperature=0.5,
        topP=0.9,
        topK=40.0,
        candidateCount=2,
        maxOutputTokens=7,
        stopSequences=["x"],
        seed=3,
        presencePenalty=0.25,
        frequencyPenalty=0.5,
        responseLogprobs=True,
    )
    settings = request.settings
    assert (settings.temperature, settings.top_p, settings.top_k) == (0.5, 0.9, 40)
    assert (settings.max_new_tokens, settings.stop_strings, settings.rng_seed) == (7, ("x",), 3)
    assert (settings.presence_penalty, settings.frequency_penalty) == (0.25, 0.5)
    assert (request.n, request.logprobs, request.limits_itself) == (2, True, True)
    assert request.members is not None
    assert request.members["max_tokens"] == 7


@pytest.mark.parametrize(
    "body",
    [
        {"generation_config": {"max_output_tokens": 7}, "system_instruction": HELLO},
        {"generationConfig": {"maxOutputTokens": 7}, "systemInstruction": HELLO},
        {"generationConfig": {"maxOutputTokens": 7}, "systemInstruction": "hi"},
    ],
)
def test_names_of_protobuf_are_the_same(body: dict[str, Any]) -> None:
    request = parsed(**body)
    assert request.settings.max_new_tokens == 7
    assert request.messages[0] == {"role": "system", "content": "hi"}


def test_one_content_is_a_list_of_one_and_the_users() -> None:
    assert parsed(contents={"parts": {"text": "yo"}}).messages == [
        {"role": "user", "content": "yo"}
    ]


@pytest.mark.parametrize("call_id", [None, "mine"])
def test_calls_and_their_results_find_each_other(call_id: str | None) -> None:
    named = {} if call_id is None else {"id": call_id}
    messages = parsed(
        contents=[
            HELLO,
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "I call."},
                    {"functionCall": {**named, "name": "f", "args": {"a": "ü"}}},
                    {"thoughtSignature": "AAAA"},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {**named, "name": "f", "response": {"output": "done"}}},
                    {"text": "Go on."},
                ],
            },
        ],
        tools=TOOLS,
    ).messages
    said, result, more = messages[1:]
    assert (said["content"], said["reasoning_content"]) == ("I call.", "hm")
    (call,) = said["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": '{"a": "ü"}'}
    assert call["id"] == result["tool_call_id"] == (call_id or "call_0")
    assert (result["role"], result["content"]) == ("tool", "done")
    assert more == {"role": "user", "content": "Go on."}


def test_results_without_ids_belong_to_the_calls_of_their_names_in_order() -> None:
    names = ("f", "g", "f")
    messages = parsed(
        contents=[
            HELLO,
            {"role": "model", "parts": [{"functionCall": {"name": name}} for name in names]},
            {
                "role": "function",
                "parts": [
                    {"functionResponse": {"name": name, "response": {"n": n}}}
                    for n, name in ((0, "g"), (1, "f"), (2, "f"))
                ],
            },
        ]
    ).messages
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert [each["tool_call_id"] for each in messages[2:]] == [ids[1], ids[0], ids[2]]
    assert json.loads(messages[2]["content"]) == {"n": 0}


@pytest.mark.parametrize(
    ("response", "content"),
    [
        ({"error": "no"}, "Error: no"),
        ({"output": {"a": 1}}, '{"output": {"a": 1}}'),
        ({}, "{}"),
        (None, "{}"),
    ],
)
def test_results_are_texts(response: Any, content: str) -> None:
    part = {"functionResponse": {"name": "f", "response": response}}
    assert parsed(contents=[{"parts": [part]}]).messages[0]["content"] == content


def test_images_sounds_and_texts_are_parts() -> None:
    request = parsed(
        contents=[
            {
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                    {"inline_data": {"mime_type": "audio/wav", "data": "QQ=="}},
                    {"inlineData": {"mimeType": "text/markdown", "data": "aGV5"}},
                    {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/x"}},
                ]
            }
        ]
    )
    assert [image.url for image in request.images] == [
        "data:image/png;base64,QQ==",
        "https://a.example/x",
    ]
    assert [sound.param for sound in request.sounds] == ["contents[0].parts[1].inlineData.data"]
    assert "hey" in request.messages[0]["content"][2]["text"]


@pytest.mark.parametrize(
    ("mode", "choice", "names"),
    [
        ({}, "auto", ["f", "g"]),
        ({"mode": "AUTO"}, "auto", ["f", "g"]),
        ({"mode": "VALIDATED"}, "auto", ["f", "g"]),
        ({"mode": "any"}, "required", ["f", "g"]),
        ({"mode": "ANY", "allowedFunctionNames": ["g"]}, "required", ["g"]),
        ({"mode": "NONE"}, "none", []),
    ],
)
def test_the_mode_is_the_choice(mode: dict[str, Any], choice: str, names: list[str]) -> None:
    tools = parsed(tools=TOOLS, toolConfig={"functionCallingConfig": mode}).tools
    assert (tools.choice, list(tools.schemas)) == (choice, names)


def test_schemas_of_functions_are_json_schemas() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "integer"}}}
    function = {"name": "h", "parametersJsonSchema": schema}
    tools = parsed(tools=[*TOOLS, {"function_declarations": [function]}]).tools
    assert tools.schemas["f"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert tools.schemas["h"] == schema
    assert tools.schema_paths == (
        "tools[0].functionDeclarations[0].parameters",
        "tools[0].functionDeclarations[1].parameters",
        "tools[1].functionDeclarations[0].parametersJsonSchema",
    )


def test_a_json_schema_of_a_function_wins_also_if_it_is_empty() -> None:
    other = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    function = {"name": "f", "parameters": other, "parametersJsonSchema": {}}
    request = parsed(tools=[{"functionDeclarations": [function]}])
    made = request.tools.items[0]["function"]["parameters"]
    assert made == {"type": "object", "properties": {}}


def test_tools_that_run_at_google_are_left_out(warned: RequestRecord) -> None:
    assert parsed(tools=[{"googleSearch": {}}, {"codeExecution": {}}]).tools.items == []
    assert len(warned.warnings) == 2
    assert '"tools[0].googleSearch"' in warned.warnings[0]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "STRING", "enum": ["a"], "format": "enum", "nullable": True},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}, "maxItems": "3"},
            {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        ),
        (
            {"any_of": [{"type": "NULL"}, {"type": "BOOLEAN"}]},
            {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        ),
    ],
)
def test_schemas_of_google_are_converted(given: dict[str, Any], made: dict[str, Any]) -> None:
    assert json_schema(given, "x") == made


def test_properties_have_the_order_that_is_asked() -> None:
    given = {
        "type": "OBJECT",
        "properties": {"max_items": {"type": "STRING"}, "b": {}},
        "propertyOrdering": ["b", "max_items", "other"],
    }
    assert list(json_schema(given, "x")["properties"]) == ["b", "max_items"]


@pytest.mark.parametrize(
    ("config", "kind", "path"),
    [
        (
            {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}},
            "json_schema",
            "responseSchema",
        ),
        (
            {"responseSchema": {"type": "STRING"}, "responseJsonSchema": {"type": "object"}},
            "json_schema",
            "responseJsonSchema",
        ),
        ({"responseMimeType": "application/json"}, "json_schema", "responseMimeType"),
        (
            {"responseMimeType": "text/x.enum", "responseSchema": {"enum": ["a", "b"]}},
            "or",
            "responseSchema",
        ),
        ({"responseMimeType": "text/plain"}, None, ""),
    ],
)
def test_the_form_of_an_answer(config: dict[str, Any], kind: str | None, path: str) -> None:
    structured = configured(**config).structured
    if kind is None:
        assert structured is None
    else:
        assert structured is not None
        assert structured.param == f"generationConfig.{path}"


@pytest.mark.parametrize(
    ("config", "values", "shows"),
    [
        ({}, {}, False),
        ({"includeThoughts": True}, {}, True),
        ({"thinkingBudget": 0}, {"enable_thinking": False}, False),
        ({"thinkingBudget": -1}, {}, False),
        ({"thinking_budget": 500}, {"enable_thinking": True}, False),
        ({"thinkingLevel": "HIGH"}, {"reasoning_effort": "high", "enable_thinking": True}, False),
    ],
)
def test_thinking(config: dict[str, Any], values: dict[str, Any], shows: bool) -> None:
    request = configured(thinkingConfig=config)
    assert (request.template.values, request.shows_thinking) == (values, shows)


def test_a_last_turn_of_the_models_is_continued() -> None:
    request = parsed(contents=[HELLO, {"role": "model", "parts": [{"text": "I "}]}])
    assert request.template.continues


def test_safety_and_labels_change_nothing() -> None:
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    seed = {"seed": 1}
    request = parsed(safetySettings=settings, labels={"a": "b"}, generationConfig=seed)
    assert request == configured(**seed)


PART = "contents[0].parts[0]"
SYSTEM = "systemInstruction.parts[0]"
FUNCTIONS = "functionDeclarations[0].name"


NESTED = {"name": "f", "parts": {"fileData": {"mimeType": "text/plain"}}}
TWO_SCHEMAS = {"name": "f", "parameters": [], "parametersJsonSchema": {}}
TWO_SCHEMAS_PATH = "tools[0].functionDeclarations[0].parameters"


def shown(**part: Any) -> dict[str, Any]:
    return {"contents": [{"parts": [part]}]}


def blob(kind: str, data: str = "") -> dict[str, Any]:
    return shown(inlineData={"mimeType": kind, "data": data})


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"contents": None}, "contents"),
        ({"contents": []}, "contents"),
        ({"contents": "hi"}, "contents"),
        ({"contents": [{"role": "ai", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"role": "user", "parts": []}]}, "contents"),
        (shown(text=1), f"{PART}.text"),
        (shown(functionResponse={}), f"{PART}.functionResponse.name"),
        (shown(text="", functionResponse={}), f"{PART}.functionResponse.name"),
        (shown(text="hi", functionCall={"name": "f"}), f"{PART}.text"),
        ({"systemInstruction": {"parts": [{"functionCall": {}}]}}, f"{SYSTEM}.functionCall.name"),
        (
            {"systemInstruction": {"parts": [{"functionCall": {"name": "f", "args": []}}]}},
            f"{SYSTEM}.functionCall.args",
        ),
        (
            {"systemInstruction": {"parts": [{"functionCall": {"name": "f", "id": {}}}]}},
            f"{SYSTEM}.functionCall.id",
        ),
        (shown(text="hi", thought="x"), f"{PART}.thought"),
        (shown(text="hi", videoMetadata={"fps": 0}), f"{PART}.videoMetadata.fps"),
        (
            {"systemInstruction": {"parts": [{"functionResponse": NESTED}]}},
            f"{SYSTEM}.functionResponse.parts[0].fileData.fileUri",
        ),
        (shown(functionResponse={"name": "f", "nam": 1}), f"{PART}.functionResponse.nam"),
        (blob("video/mp4"), f"{PART}.inlineData"),
        (blob("text/plain", "*"), f"{PART}.inlineData.data"),
        (shown(fileData={"fileUri": "files/x"}), f"{PART}.fileData.fileUri"),
        ({"tools": [{"functionDeclarations": [{"name": "a b"}]}]}, f"tools[0].{FUNCTIONS}"),
        ({"tools": TOOLS * 2}, f"tools[1].{FUNCTIONS}"),
        ({"tools": [{"functionDeclarations": [TWO_SCHEMAS]}]}, TWO_SCHEMAS_PATH),
        ({"cachedContent": "cachedContents/x"}, "cachedContent"),
        ({"alt": "proto"}, "alt"),
        ({"content": [HELLO]}, "content"),
    ],
)
def test_refusals_name_the_place(members: dict[str, Any], param: str) -> None:
    error = refused(**members)
    assert error.param == param
    assert f'"{param}"' in str(error)


@pytest.mark.parametrize(
    ("config", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"maxOutputTokens": 0}, "maxOutputTokens"),
        ({"candidateCount": 99}, "candidateCount"),
        ({"stopSequences": [""]}, "stopSequences[0]"),
        ({"responseLogprobs": True, "logprobs": 5}, "logprobs"),
        ({"responseModalities": ["AUDIO"]}, "responseModalities[0]"),
        ({"responseMimeType": "text/html"}, "responseMimeType"),
        ({"responseMimeType": "text/x.enum"}, "responseSchema.enum"),
        ({"maxOutputToken": 5}, "maxOutputToken"),
        ({"thinkingConfig": {"thinkingLevel": "VERY"}}, "thinkingConfig.thinkingLevel"),
    ],
)
def test_refusals_name_the_place_in_the_configuration(config: dict[str, Any], param: str) -> None:
    error = refused(generationConfig=config)
    assert error.param == f"generationConfig.{param}"
    assert f'"generationConfig.{param}"' in str(error)


@pytest.mark.parametrize("mode", ["ANY", "SOME"])
def test_a_mode_without_functions_is_refused(mode: str) -> None:
    error = refused(toolConfig={"functionCallingConfig": {"mode": mode}})
    assert error.param == "toolConfig.functionCallingConfig.mode"


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(20_000):
        schema = {"items": schema}
    assert refused(generationConfig={"responseSchema": schema}).param == (
        "generationConfig.responseSchema"
    )


def test_parts_that_show_nothing_here_are_left_out(warned: RequestRecord) -> None:
    request = parsed(contents=[{"parts": [{"text": "hi"}, {"executableCode": {"code": "1"}}]}])
    assert request.messages == [{"role": "user", "content": "hi"}]
    assert '"contents[0].parts[1]"' in warned.warnings[0]


def test_counting_takes_both_forms() -> None:
    inner = {"contents": [HELLO], "systemInstruction": HELLO, "tools": TOOLS}
    whole = parse_count_tokens_request({"model": "m", **inner}, SENSES)
    within = {"model": "m", "generateContentRequest": {"model": "models/m", **inner}}
    assert parse_count_tokens_request(within, SENSES) == whole
    assert len(whole.messages) == 2
    with pytest.raises(RequestError):
        parse_count_tokens_request({"model": "m"}, SENSES)
