"""Requests to ``:generateContent`` and ``:countTokens``: members, readers, checked requests.

The path names the model, the method of the path says whether the answer is a stream, and the query
says of what form; the front adds these to the body as members. A ``Schema`` is OpenAPI's of 2021,
with types in capital letters; `json_schema` translates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests.google_json import camel_case, camel_name, read_object
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.schema import Schema, array, const, one_of, record, ref, string
from calculators.kit.tasks.endpoint import StreamForm
from calculators.language.generation_request import (
    NO_ARGUMENTS,
    NO_TOOLS,
    StructuredOutput,
    TemplateArguments,
    Tools,
)
from calculators.llm.api.google.contents import read_contents
from calculators.llm.grammars import formats
from calculators.llm.requests.checked_request import read_generation
from calculators.llm.requests.completions_request import ChatRequest, CountTokensRequest
from calculators.llm.requests.messages import MediaCheck
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.structured_output import MAX_CHOICES, MAX_SIZE, check_size
from calculators.llm.requests.tools import NO_SUCH_TOOL, read_tools

#: Keywords with a number that protobuf may write as a text, as 64-bit integers in JSON.
_COUNTS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_TABLES: Final = frozenset({"properties", "$defs"})
#: Names that JSON schemas have otherwise.
_RENAMED: Final = {"defs": "$defs", "ref": "$ref", "any_of": "anyOf"}
#: Formats that say which number or text it is, and restrict nothing.
_NO_FORMATS: Final = frozenset({"enum", "int32", "int64", "float", "double", "byte"})


def json_schema(value: object, path: str) -> Schema:
    """Return a ``Schema`` of Google's as a JSON schema.

    Raises:
        RequestError: it is not an object, too long, or nested too deeply.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "a schema (an object)", value)
    check_size(value, MAX_SIZE, path)
    try:
        made: Schema = _converted(value)
    except RecursionError:
        raise fields.invalid(path, "it is nested too deeply") from None
    return made


def _converted(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    made: Schema = {}
    for given, each in value.items():
        name = _RENAMED.get(given) or camel_name(given)
        if each is None or name in ("nullable", "propertyOrdering", "example"):
            continue
        if name == "type":
            if each != "TYPE_UNSPECIFIED":
                made["type"] = _lower(each)
        elif name == "format" and each in _NO_FORMATS:
            continue
        elif name in _COUNTS and isinstance(each, str) and each.isdecimal():
            made[name] = int(each[:18])
        elif name in _SCHEMAS:
            made[name] = _converted(each)
        elif name in _LISTS and isinstance(each, list):
            made[name] = [_converted(inner) for inner in each]
        elif name in _TABLES and isinstance(each, dict):
            made[name] = {key: _converted(inner) for key, inner in each.items()}
        else:
            made[name] = each
    _order(made, value.get("propertyOrdering") or value.get("property_ordering"))
    return _with_null(made) if value.get("nullable") is True else made


def _lower(kind: Any) -> Any:
    if isinstance(kind, list):
        return [_lower(each) for each in kind]
    return kind.lower() if isinstance(kind, str) else kind


def _order(schema: Schema, names: object) -> None:
    """Put the properties into the order in which the model is to write them."""
    properties = schema.get("properties")
    if isinstance(names, list) and isinstance(properties, dict):
        first = [name for name in names if isinstance(name, str) and name in properties]
        schema["properties"] = {**{name: properties[name] for name in first}, **properties}


def _with_null(schema: Schema) -> Schema:
    if isinstance(schema.get("enum"), list):
        return {"anyOf": [schema, {"type": "null"}]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema


#: The members that the path and the query of a stream have.
_OF_PATH: Final[tuple[str, ...]] = ("model", "stream", "alt")
_STOP: Final = array(
    string(minLength=1, maxLength=LIMITS.max_stop_length), maxItems=LIMITS.max_stop_strings
)
_MIME_TYPES: Final = ("text/plain", "application/json", "text/x.enum")


def _any_case(*words: str) -> declared.Enumeration:
    return declared.Enumeration((*words, *map(str.lower, words)))


def _beside_mime_type() -> Schema:
    """Return the schema of configurations by their MIME type: a list of words needs its words."""
    words = record({"enum": array(string(), minItems=1, maxItems=MAX_CHOICES)}, required=("enum",))
    json, google, nothing = "responseJsonSchema", "responseSchema", const(None)

    def of_type(value: Schema, **more: Schema) -> Schema:
        return {"properties": {"responseMimeType": value, **more}}

    return one_of(
        of_type({"enum": ["application/json", None]}),
        of_type(const("text/plain"), **{json: nothing, google: nothing}),
        {**of_type(const("text/x.enum"), **{json: words}), "required": [json]},
        {**of_type(const("text/x.enum"), **{json: nothing, google: words}), "required": [google]},
    )


_MODALITY: Final = _any_case("TEXT", "MODALITY_UNSPECIFIED")

CONFIG_MEMBERS: Final[declared.Members] = declared.table(
    declared.honoured(
        "temperature", declared.Number(minimum=0, maximum=2), "0 always takes the likeliest token."
    ),
    declared.honoured(
        "topP", declared.Number(minimum=0, maximum=1), "Only the likeliest tokens, up to this sum."
    ),
    declared.honoured(
        "topK",
        declared.Integer(minimum=-1, maximum=fields.INT32_MAX),
        "Only so many of the likeliest tokens; 0 and -1 are all.",
    ),
    declared.honoured("candidateCount", declared.Integer(minimum=1), "How many answers."),
    declared.honoured(
        "maxOutputTokens", declared.COUNT, "How many tokens the answer may have.", minimum=1
    ),
    declared.honoured(
        "stopSequences", declared.Array(_STOP["items"], {"maxItems": LIMITS.max_stop_strings})
    ),
    declared.honoured(
        "seed",
        declared.Integer(minimum=-(2**63), maximum=2**64 - 1),
        "The same seed, the same answer.",
    ),
    declared.honoured("presencePenalty", declared.Number(minimum=-2, maximum=2)),
    declared.honoured("frequencyPenalty", declared.Number(minimum=-2, maximum=2)),
    declared.honoured(
        "responseLogprobs", declared.BOOLEAN, "Each token comes with its log-probability."
    ),
    declared.honoured(
        "logprobs", declared.Integer(maximum=20), "Only the chosen token's is known.", maximum=0
    ),
    declared.honoured(
        "responseMimeType", declared.Enumeration(_MIME_TYPES), beside=_beside_mime_type()
    ),
    declared.honoured(
        "responseSchema", declared.Object(), "A `Schema` of Google's that the answer follows."
    ),
    declared.honoured(
        "responseJsonSchema", declared.Object(ref("JsonSchema")), "A JSON schema; it wins."
    ),
    declared.honoured("responseModalities", declared.Array(_MODALITY.schema("")), "Only `TEXT`."),
    declared.honoured(
        "thinkingConfig",
        declared.Object(ref("ThinkingConfig")),
        "Sets `enable_thinking` and `reasoning_effort` of templates; a budget above 0 is no limit.",
    ),
    declared.ignored(
        "is about sound, pictures or where the model runs",
        "speechConfig audioTimestamp mediaResolution imageConfig routingConfig "
        "modelSelectionConfig enableEnhancedCivicAnswers audioTranscriptionConfig",
    ),
)
_CONVERSATION: Final[declared.Members] = declared.table(
    declared.honoured(
        "contents",
        declared.Value(
            one_of(ref("Content"), array(ref("Content"), minItems=1, maxItems=LIMITS.max_messages))
        ),
        is_required=True,
    ),
    declared.honoured("systemInstruction", declared.Value(one_of(ref("SystemContent"), string()))),
    declared.honoured("tools", declared.Array(ref("GoogleTool"), {"maxItems": LIMITS.max_tools})),
    declared.honoured("toolConfig", declared.Object(ref("GoogleToolConfig"))),
)
GENERATE_CONTENT_MEMBERS: Final[declared.Members] = declared.table(
    _CONVERSATION,
    declared.honoured("generationConfig", declared.Object(ref("GenerationConfig"))),
    declared.honoured("timeout", declared.Value()),  # the front reads it, and knows the schema
    declared.ignored(
        "changes nothing: nothing is moderated here", "safetySettings modelArmorConfig"
    ),
    declared.ignored(
        "says who asks, or what is kept or counted elsewhere", "labels serviceTier store"
    ),
    declared.refused(
        "is not supported: nothing is kept by name, and prefixes are cached without being asked",
        "cachedContent",
    ),
    declared.refused("is not supported", "continuationToken"),
)
COUNT_MEMBERS: Final[declared.Members] = declared.table(
    (
        declared.honoured(member.name, member.reader, member.about, **member.keywords)
        for member in _CONVERSATION.values()
    ),
    declared.honoured(
        "generateContentRequest",
        declared.Object(ref("GenerateContentRequest")),
        "A whole request, instead of the other members.",
    ),
    declared.honoured("timeout", declared.Value()),
    declared.ignored(
        "does not change how many tokens there are", "generationConfig safetySettings"
    ),
)

#: The members of chats that have the meanings of Google's, by name.
_AS_CHATS: Final = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "candidateCount": "n",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
}
_CONFIG: Final = "generationConfig"
_MODE: Final = "toolConfig.functionCallingConfig.mode"
_NAMES: Final = {
    **{chat: f"{_CONFIG}.{name}" for name, chat in _AS_CHATS.items()},
    "tool_choice": _MODE,
}


class GenerateContentRequest(ChatRequest, frozen=True, kw_only=True):
    """A checked request; ``is_array``: its stream is an array."""

    is_array: bool = False


def stream_form(members: Mapping[str, Any]) -> StreamForm:
    """Return the form of a stream: events with ``alt=sse``, else one array."""
    return StreamForm.EVENTS if members.get("alt") == "sse" else StreamForm.ARRAY


def parse_generate_content_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> GenerateContentRequest:
    """Check a parsed body with the members of its path.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    given, body = _read_body(value, GENERATE_CONTENT_MEMBERS)
    form = given.get("alt")
    if form not in (None, "sse", "json"):
        raise fields.invalid("alt", f'{fields.describe(form)} is neither "sse" nor "json"')
    config = read_object(body.get(_CONFIG) or {}, _CONFIG, CONFIG_MEMBERS)
    config = _read_config(config)
    members = {_AS_CHATS[name]: each for name, each in config.items() if name in _AS_CHATS}
    asked = {**members, "model": given.get("model"), "stream": given.get("stream") is True}
    try:
        generation = read_generation(asked, defaults, limits)
        tools = _read_tools(body, limits)
    except RequestError as error:
        raise fields.renamed(error, _NAMES) from None
    media = MediaCheck(limits)
    messages = read_contents(body, limits, media)
    template, shows_thinking = _read_thinking(config.get("thinkingConfig"), messages)
    structured = _read_format(config)
    return GenerateContentRequest(
        **structs.asdict(structs.replace(generation, structured=structured, members=members)),
        tools=tools,
        messages=messages,
        template=template,
        logprobs=generation.settings.logprobs,
        images=tuple(media.images),
        sounds=tuple(media.sounds),
        shows_thinking=shows_thinking,
        is_array=stream_form(given) is StreamForm.ARRAY,
    )


def _read_body(value: object, known: declared.Members) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of the path, and the members of the body."""
    body = fields.body_object(value)
    given = {name: body[name] for name in _OF_PATH if name in body}
    rest = {name: each for name, each in body.items() if name not in given}
    return given, declared.read_members(camel_case(rest), known)


def _read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    read = {}
    for name, value in config.items():
        member = CONFIG_MEMBERS.get(name)
        if value is None or member is None:
            continue
        if (each := member.read(value, f"{_CONFIG}.{name}")) is not None:
            read[name] = each
    for i, kind in enumerate(read.get("responseModalities") or ()):
        if kind not in _MODALITY.words:
            raise fields.invalid(
                f"{_CONFIG}.responseModalities[{i}]",
                f'{fields.describe(kind)} is not "TEXT": answers are text',
            )
    return read


def _read_format(config: Mapping[str, Any]) -> StructuredOutput | None:
    """Return the form that the answer must have."""
    kind = config.get("responseMimeType")
    path, schema = f"{_CONFIG}.responseJsonSchema", config.get("responseJsonSchema")
    if schema is None:
        path, schema = f"{_CONFIG}.responseSchema", config.get("responseSchema")
        if schema is not None:
            schema = json_schema(schema, path)
    else:
        check_size(schema, MAX_SIZE, path)
    if kind == "text/plain":
        if schema is not None:
            raise fields.invalid(path, 'it needs the responseMimeType "application/json"')
        return None
    if kind == "text/x.enum":
        words = (schema or {}).get("enum")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise fields.missing(f"{path}.enum", "the words that the answer may be")
        return StructuredOutput(formats.choice(words, path), path)
    if schema is not None:
        return StructuredOutput(formats.json_schema(schema, path), path)
    if kind is None:
        return None
    path = f"{_CONFIG}.responseMimeType"
    return StructuredOutput(formats.json_schema({"type": ["object", "array"]}, path), path)


_THINKING: Final[declared.Members] = declared.table(
    declared.honoured(
        "includeThoughts",
        declared.BOOLEAN,
        "The answer shows the reasoning; by default it does not.",
    ),
    declared.honoured(
        "thinkingBudget", declared.Integer(minimum=-1), "0: the model does not think."
    ),
    declared.honoured(
        "thinkingLevel",
        _any_case("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH"),
    ),
)
THINKING_MEMBERS: Final = _THINKING


def _read_thinking(
    value: Mapping[str, Any] | None, messages: list[dict[str, Any]]
) -> tuple[TemplateArguments, bool]:
    """Return the variables of the template, and True if the answer shows the reasoning."""
    path = f"{_CONFIG}.thinkingConfig"
    config = read_object(value or {}, path, _THINKING)
    read = {
        name: _THINKING[name].read(each, f"{path}.{name}")
        for name, each in config.items()
        if each is not None and name in _THINKING
    }
    values: dict[str, Any] = {}
    level = read.get("thinkingLevel", "").lower()
    if level and level != "thinking_level_unspecified":
        values = {"reasoning_effort": level, "enable_thinking": True}
    budget = read.get("thinkingBudget", -1)
    if budget >= 0:
        values["enable_thinking"] = budget > 0
    continues = messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls")
    template = TemplateArguments(values, None, continues) if values or continues else NO_ARGUMENTS
    return template, read.get("includeThoughts", False)


_TOOL: Final = (
    *("functionDeclarations", "googleSearch", "googleSearchRetrieval", "codeExecution"),
    *("urlContext", "computerUse", "fileSearch", "googleMaps", "mcpServers", "retrieval"),
    *("enterpriseWebSearch",),
)
_FUNCTION: Final = (
    *("name", "description", "parameters", "parametersJsonSchema", "response"),
    *("responseJsonSchema", "behavior"),
)
_TOOL_CONFIG: Final = (
    *("functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations"),
)
_CALLING: Final = ("mode", "allowedFunctionNames", "streamFunctionCallArguments")
#: OpenAI's words for the modes.
_MODES: Final = {
    "MODE_UNSPECIFIED": "auto",
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "required",
    "NONE": "none",
}
MODE: Final = _any_case(*_MODES)


def _read_tools(body: Mapping[str, Any], limits: RequestLimits) -> Tools:
    """Read ``tools`` and ``toolConfig``. Tools that run at Google are left out with a warning."""
    functions: list[dict[str, Any]] = []
    paths: list[str] = []
    schemas: list[str] = []
    fields.check_most("tools", len(body.get("tools", ())), "tools", limits.max_tools)
    for i, each in enumerate(body.get("tools", ())):
        tool = read_object(each, f"tools[{i}]", _TOOL)
        for name, value in tool.items():
            if name != "functionDeclarations" and value is not None:
                declared.leave_out(fields.invalid(f"tools[{i}].{name}", NO_SUCH_TOOL))
        place = f"tools[{i}].functionDeclarations"
        for j, function in enumerate(fields.array(tool, "functionDeclarations", place) or ()):
            made, member = _function(function, f"{place}[{j}]")
            functions.append(made)
            paths.append(f"{place}[{j}]")
            schemas.append(f"{place}[{j}].{member}")
    choice, allowed = _read_mode(body)
    if allowed is not None:
        kept = [i for i, each in enumerate(functions) if each["name"] in allowed]
        functions, paths = [functions[i] for i in kept], [paths[i] for i in kept]
        schemas = [schemas[i] for i in kept]
    if not functions and choice == "auto":
        return NO_TOOLS
    tools = read_tools({"tools": functions, "tool_choice": choice}, limits, paths=paths)
    return replace(tools, schema_paths=tuple(schemas)) if tools.items else tools


def _read_mode(body: Mapping[str, Any]) -> tuple[str, frozenset[str] | None]:
    """Return the choice in OpenAI's words, and the names of the functions that may be called."""
    config = read_object(body.get("toolConfig", {}), "toolConfig", _TOOL_CONFIG)
    path = "toolConfig.functionCallingConfig"
    calling: Mapping[str, Any] = {}
    if (given := config.get("functionCallingConfig")) is not None:
        calling = read_object(given, path, _CALLING)
    mode = "AUTO"
    if (word := calling.get("mode")) is not None:
        mode = MODE.read(word, f"{path}.mode").upper()
    place = f"{path}.allowedFunctionNames"
    names = fields.array(calling, "allowedFunctionNames", place)
    if not names:
        return _MODES[mode], None
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise fields.wrong_type(f"{place}[{i}]", "a string", name)
    return _MODES[mode], frozenset(names)


def _function(value: object, path: str) -> tuple[dict[str, Any], str]:
    """Return a function as OpenAI's responses have it, and the member with its parameters."""
    function = read_object(value, path, _FUNCTION)
    name = fields.string(function, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    made: dict[str, Any] = {"type": "function", "name": name}
    if (about := fields.string(function, "description", f"{path}.description")) is not None:
        made["description"] = about
    member = "parameters"
    schema = function.get(member)
    if schema is not None:
        schema = json_schema(schema, f"{path}.{member}")
    json_schemas = "parametersJsonSchema"
    given = fields.json_object(function, json_schemas, f"{path}.{json_schemas}")
    if given is not None:
        schema, member = given, json_schemas
    made["parameters"] = schema or {"type": "object", "properties": {}}
    return made, member


def parse_count_tokens_request(value: object, limits: RequestLimits) -> CountTokensRequest:
    """Check the body of a request to count tokens.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    given, body = _read_body(value, COUNT_MEMBERS)
    config: Mapping[str, Any] = {}
    if (inner := body.get("generateContentRequest")) is not None:
        _, body = _read_body(inner, GENERATE_CONTENT_MEMBERS)
        config = _read_config(read_object(body.get(_CONFIG) or {}, _CONFIG, CONFIG_MEMBERS))
    media = MediaCheck(limits)
    messages = read_contents(body, limits, media)
    try:
        tools = _read_tools(body, limits)
    except RequestError as error:
        raise fields.renamed(error, _NAMES) from None
    return CountTokensRequest(
        model=given.get("model", ""),
        messages=messages,
        tools=tools,
        template=_read_thinking(config.get("thinkingConfig"), messages)[0],
        images=tuple(media.images),
    )
