"""Requests to ``/responses``, their answers and the events of a stream."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    nullable,
    number,
    one_of,
    record,
    ref,
    string,
    tagged,
    union,
    word,
)
from calculators.llm.api.openai.responses_input import ITEM_TYPES, PART_TYPES, PASSED_OVER, STORED
from calculators.llm.openapi.completions_schemas import VIDEO_PART
from calculators.llm.openapi.generation_schemas import FILE, FUNCTION, HAS_FILE
from calculators.llm.requests.client_tools import TOOL_TYPES
from calculators.llm.requests.template_arguments import VERBOSITY
from calculators.llm.requests.tools import LONGEST_NAME, name_pattern

NAME: Final = f"^{name_pattern(LONGEST_NAME)}$"
_STATUS: Final = word(("in_progress", "completed", "incomplete"))
_CONTENT: Final = one_of(string(), array(ref("InputPart")))
#: The id of a call has either name.
_HAS_CALL_ID: Final[list[Schema]] = [
    {"required": [name], "properties": {name: string()}} for name in ("call_id", "id")
]
#: Not written as an object: some generators of clients take no unnamed objects in alternatives.
_NO_VALUE_BUT_OBJECTS: Final = {"not": one_of({"type": ["string", "number", "boolean"]}, array({}))}
_CALL_ID: Final[Members] = {"call_id": {"description": "Or `id`."}}
#: A function in a namespace.
_MEMBER_TOOL: Final = record(
    {"type": {"type": ["string", "null"], "enum": ["function", None]}, **FUNCTION},
    required=("name",),
)
_TEXTS: Final = nullable(array({}, "Parts with a `text`; others are passed over."))

RESPONSES_INPUT_SCHEMAS: Final[dict[str, Schema]] = {
    "ImageUrl": record({"url": string()}, required=("url",)),
    **union(
        "InputPart",
        InputTextPart=record(
            {"type": word(("input_text", "output_text")), "text": string()},
            required=("type", "text"),
        ),
        RefusalPart=tagged("refusal", {"refusal": string()}),
        InputImagePart=record(
            {
                "type": const("input_image"),
                "image_url": nullable(one_of(string(), ref("ImageUrl"))),
                "file_id": FILE["file_id"],
            },
            required=("type",),
            anyOf=[
                record({"image_url": {"not": const(None)}}, required=("image_url",)),
                HAS_FILE[1],
            ],
        ),
        InputVideoPart=VIDEO_PART,
        InputAudioPart=tagged("input_audio", {"input_audio": ref("AudioData")}),
        InputFilePart=record(
            {
                "type": const("input_file"),
                **FILE,
            },
            required=("type",),
            anyOf=HAS_FILE,
        ),
        InputOtherPart=record(
            {"type": {"type": "string", "not": {"enum": list(PART_TYPES)}}},
            "A part that this server does not know: left out with a warning.",
            required=("type",),
        ),
    ),
    **union(
        "InputItem",
        InputMessage=record(
            {
                "type": {"type": ["string", "null"], "enum": ["message", None]},
                "role": string(),
                "content": _CONTENT,
            },
            required=("role", "content"),
        ),
        InputCall=record(
            {
                "type": const("function_call"),
                **_CALL_ID,
                "name": string(),
                "arguments": string("A JSON object, as text."),
            },
            required=("type", "name", "arguments"),
            anyOf=_HAS_CALL_ID,
        ),
        InputCallOutput=record(
            {
                "type": const("function_call_output"),
                "call_id": {"type": ["string", "null"]},
                "output": nullable(_CONTENT),
            },
            required=("type",),
        ),
        InputReasoning=record(
            {"type": const("reasoning"), "content": _TEXTS, "summary": _TEXTS}, required=("type",)
        ),
        InputServerCall=record(
            {
                "type": const("mcp_call"),
                "id": string(),
                "name": string(),
                "arguments": string("A JSON object, as text."),
                "output": {"type": ["string", "null"]},
                "error": {"type": ["string", "null"]},
            },
            "A call that this server ran in an earlier answer.",
            required=("type", "id", "name", "arguments"),
        ),
        InputCustomCall=record(
            {
                "type": const("custom_tool_call"),
                **_CALL_ID,
                "name": string(),
                "input": string(),
            },
            required=("type", "name", "input"),
            anyOf=_HAS_CALL_ID,
        ),
        InputActionCall=record(
            {
                "type": word(("local_shell_call", "shell_call")),
                **_CALL_ID,
                "action": anything(),
            },
            required=("type", "action"),
            anyOf=_HAS_CALL_ID,
        ),
        InputPatchCall=record(
            {
                "type": const("apply_patch_call"),
                **_CALL_ID,
                "operation": anything(),
            },
            required=("type", "operation"),
            anyOf=_HAS_CALL_ID,
        ),
        InputToolSearch=record(
            {
                "type": const("tool_search_call"),
                **_CALL_ID,
                "execution": {"type": ["string", "null"]},
            },
            "A search of the client; of the server's, nothing is read.",
            required=("type",),
            anyOf=[
                {"properties": {"execution": {"not": const("client")}}},
                *(
                    {
                        **each,
                        "properties": {**each["properties"], "arguments": _NO_VALUE_BUT_OBJECTS},
                    }
                    for each in _HAS_CALL_ID
                ),
            ],
        ),
        InputToolOutput=record(
            {
                "type": word(("custom_tool_call_output", "local_shell_call_output")),
                "call_id": {"type": ["string", "null"]},
                "output": nullable(_CONTENT),
            },
            required=("type",),
        ),
        InputRunOutput=record(
            {
                "type": word(("shell_call_output", "apply_patch_call_output")),
                "call_id": {"type": ["string", "null"]},
                "output": one_of(string(), array({}), {"type": "null"}),
            },
            required=("type",),
        ),
        InputAgentMessage=record(
            {"type": const("agent_message"), "content": _CONTENT},
            "A message of the user, for the model.",
            required=("type", "content"),
        ),
        InputMoreTools=record(
            {
                "type": word(("additional_tools", "tool_search_output")),
                "tools": nullable(
                    array(one_of(ref("Tool"), ref("ToolOfClient"), ref("ServerTool")))
                ),
            },
            "Tools beside the request's.",
            required=("type",),
        ),
        InputCompaction=record(
            {"type": const("compaction"), "encrypted_content": string()},
            required=("type", "encrypted_content"),
        ),
        InputItemReference=record(
            {"type": {"type": ["string", "null"], "enum": [*STORED, None]}, "id": string()},
            "An item of a response or conversation that the server keeps.",
            required=("id",),
            maxProperties=2,
        ),
        InputOtherItem=record(
            {"type": {"type": "string", "not": {"enum": [*ITEM_TYPES, *STORED]}}},
            "An item that this server does not know: left out with a warning.",
            required=("type",),
        ),
        InputPassedOver=record(
            {"type": word(PASSED_OVER)},
            "About tools that ran elsewhere; passed over.",
            required=("type",),
        ),
    ),
    **union(
        "ToolOfClient",
        NamespaceTool=record(
            {
                "type": const("namespace"),
                "name": string(pattern=NAME),
                "description": {"type": ["string", "null"]},
                "tools": nullable(
                    array(one_of(_MEMBER_TOOL, ref("ToolOfClient"), ref("ServerTool")))
                ),
            },
            "Functions, which the model knows as `NAME__FUNCTION`.",
            required=("type", "name"),
        ),
        CustomTool=record(
            {
                "type": const("custom"),
                "name": string(pattern=NAME),
                "description": {"type": ["string", "null"]},
                "format": nullable(
                    one_of(
                        tagged("text", {}),
                        tagged(
                            "grammar",
                            {"syntax": word(("lark", "regex")), "definition": string()},
                        ),
                    )
                ),
            },
            "A tool that takes a text.",
            required=("type", "name"),
        ),
        BuiltInTool=record(
            {"type": word(("local_shell", "shell", "apply_patch"))},
            "A tool of the client with a schema that everyone knows.",
            required=("type",),
        ),
        ToolSearch=record(
            {
                "type": const("tool_search"),
                "execution": const("client"),
                "description": {"type": ["string", "null"]},
                "parameters": nullable(anything()),
            },
            "The client's search for tools.",
            required=("type", "execution"),
        ),
        HostedTool=record(
            {"type": string()},
            "A tool that runs at OpenAI, such as `web_search`: left out with a warning.",
            required=("type",),
            anyOf=[
                {"properties": {"type": {"not": {"enum": list(TOOL_TYPES)}}}},
                {
                    "properties": {
                        "type": const("tool_search"),
                        "execution": {"not": const("client")},
                    }
                },
            ],
        ),
    ),
    "McpTool": record(
        {
            "type": const("mcp"),
            "server_label": string("The label of a server of the graph.", minLength=1),
            "server_url": {"type": ["string", "null"]},
            "server_description": {"type": ["string", "null"]},
            "allowed_tools": nullable(
                one_of(
                    array(string()),
                    record({"tool_names": nullable(array(string()))}),
                )
            ),
            "require_approval": const("never"),
        },
        "The tools of a server, for a graph with a tools node.",
        required=("type", "server_label", "require_approval"),
    ),
    "ChosenClientTool": record(
        {
            "type": word(("custom", "local_shell", "shell", "apply_patch", "tool_search")),
            "name": {"type": ["string", "null"]},
        },
        "The tool to call.",
        required=("type",),
        anyOf=[
            {"properties": {"type": {"not": {"const": "custom"}}}},
            {"required": ["name"], "properties": {"name": string()}},
        ],
    ),
    "AllowedTools": record(
        {
            "type": const("allowed_tools"),
            "mode": word(("auto", "required")),
            "tools": nullable(array(ref("AllowedTool"))),
        },
        required=("type", "mode"),
    ),
}

_TEXT_PART: Final = record(
    {
        "type": const("output_text"),
        "text": string(),
        "annotations": array(anything(), maxItems=0),
        "logprobs": array(ref("TokenLogprob")),
    },
    required=("type", "text", "annotations", "logprobs"),
)
_SUMMARY_PART: Final = tagged("summary_text", {"text": string()})
#: A part of a message; a refusal is of a node of the graph.
_PART: Final = one_of(ref("OutputTextPart"), ref("OutputAudioPart"), ref("RefusalPart"))

_ACTION: Final[Members] = {
    "id": string(),
    "status": _STATUS,
    "call_id": string(),
    "action": anything(),
}

RESPONSES_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "OutputTextPart": _TEXT_PART,
    "OutputAudioPart": tagged(
        "output_audio", {"data": string("In Base64."), "transcript": string()}
    ),
    "SummaryPart": _SUMMARY_PART,
    **union(
        "OutputItem",
        OutputReasoning=tagged("reasoning", {"id": string(), "summary": array(ref("SummaryPart"))}),
        OutputMessage=tagged(
            "message",
            {
                "id": string(),
                "status": _STATUS,
                "role": const("assistant"),
                "content": array(_PART),
            },
        ),
        OutputCall=tagged(
            "function_call",
            {
                "id": string(),
                "status": _STATUS,
                "call_id": string(),
                "name": string(),
                "arguments": string("A JSON object, as text."),
            },
        ),
        OutputCustomCall=tagged(
            "custom_tool_call",
            {
                "id": string(),
                "status": _STATUS,
                "call_id": string(),
                "name": string(),
                "input": string(),
            },
        ),
        OutputLocalShellCall=tagged("local_shell_call", _ACTION),
        OutputShellCall=tagged("shell_call", _ACTION),
        OutputPatchCall=tagged(
            "apply_patch_call",
            {"id": string(), "status": _STATUS, "call_id": string(), "operation": anything()},
        ),
        OutputToolSearch=tagged(
            "tool_search_call",
            {
                "id": string(),
                "status": _STATUS,
                "call_id": string(),
                "execution": const("client"),
                "arguments": anything(),
            },
        ),
        OutputServerCall=tagged(
            "mcp_call",
            {
                "id": string(),
                "status": word(("in_progress", "completed", "failed")),
                "server_label": string(),
                "name": string(),
                "arguments": string("A JSON object, as text."),
                "output": nullable(string()),
                "error": nullable(string()),
                "approval_request_id": {"type": "null"},
            },
        ),
        OutputListedTools=tagged(
            "mcp_list_tools",
            {
                "id": string(),
                "server_label": string(),
                "tools": array(
                    record(
                        {
                            "name": string(),
                            "description": string(),
                            "input_schema": anything(),
                            "annotations": {"type": "null"},
                        },
                        required=("name", "description", "input_schema", "annotations"),
                    )
                ),
                "error": {"type": "null"},
            },
        ),
    ),
    "ResponseUsage": record(
        {
            "input_tokens": integer(minimum=0),
            "input_tokens_details": record(
                {
                    name: integer(minimum=0)
                    for name in ("cached_tokens", "cache_write_tokens", "audio_tokens")
                },
                required=("cached_tokens", "cache_write_tokens"),
            ),
            "output_tokens": integer(minimum=0),
            "output_tokens_details": record(
                {name: integer(minimum=0) for name in ("reasoning_tokens", "audio_tokens")},
                required=("reasoning_tokens",),
            ),
            "total_tokens": integer(minimum=0),
        },
        required=(
            "input_tokens",
            "input_tokens_details",
            "output_tokens",
            "output_tokens_details",
            "total_tokens",
        ),
    ),
}

_RESPONSE: Final[dict[str, Schema]] = {
    "id": string(),
    "object": const("response"),
    "created_at": integer("Unix time in seconds."),
    "model": string(),
    "status": word(("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")),
    "completed_at": nullable(integer()),
    "error": nullable(
        record({"code": string(), "message": string()}, required=("code", "message"))
    ),
    "incomplete_details": nullable(
        record({"reason": word(("max_output_tokens", "content_filter"))}, required=("reason",))
    ),
    "background": flag(),
    "instructions": nullable(string()),
    "max_output_tokens": nullable(integer()),
    "max_tool_calls": nullable(integer()),
    "metadata": anything(),
    "output": array(ref("OutputItem")),
    "parallel_tool_calls": flag(),
    "previous_response_id": nullable(string()),
    "prompt_cache_key": nullable(string()),
    "reasoning": record(
        {"effort": nullable(string()), "summary": nullable(string())},
        required=("effort", "summary"),
    ),
    "safety_identifier": nullable(string()),
    "service_tier": string(),
    "store": flag(),
    "temperature": number(),
    "text": record(
        {"format": anything("As it was asked for."), "verbosity": VERBOSITY.schema("")},
        required=("format", "verbosity"),
    ),
    "tool_choice": one_of(string(), anything()),
    "tools": array(
        one_of(
            record(
                {
                    "type": const("function"),
                    "name": string(),
                    "description": nullable(string()),
                    "parameters": nullable(anything()),
                    "strict": nullable(flag()),
                },
                required=("type", "name", "description", "parameters", "strict"),
            ),
            ref("McpTool"),
            ref("ToolOfClient"),
        )
    ),
    "top_logprobs": integer(),
    "top_p": number(),
    "truncation": string(),
    "usage": nullable(ref("ResponseUsage")),
    "user": nullable(string()),
}
RESPONSES_ANSWER_SCHEMAS["ResponseObject"] = record(
    {
        **_RESPONSE,
        "conversation": record({"id": string()}, "If there is one.", required=("id",)),
        "__verbose": ref("Verbose"),
    },
    required=tuple(_RESPONSE),
)

COMPACTION_SCHEMAS: Final[dict[str, Schema]] = {
    "InputTokens": record(
        {"object": const("response.input_tokens"), "input_tokens": integer(minimum=0)},
        required=("object", "input_tokens"),
    ),
    "CompactedConversation": record(
        {
            "id": string(),
            "object": const("response.compaction"),
            "created_at": integer("Unix time in seconds."),
            "output": array(
                one_of(
                    record(
                        {
                            "id": string(),
                            "type": const("message"),
                            "role": const("user"),
                            "status": const("completed"),
                            "content": array(anything()),
                        },
                        required=("id", "type", "role", "content"),
                    ),
                    record(
                        {
                            "id": string(),
                            "type": const("compaction"),
                            "encrypted_content": string(),
                        },
                        required=("id", "type", "encrypted_content"),
                    ),
                ),
                "The next input: the user's messages, and a summary that only this server reads.",
            ),
            "usage": ref("ResponseUsage"),
        },
        required=("id", "object", "created_at", "output", "usage"),
    ),
}

_WHOLE: Final[Members] = {"response": ref("ResponseObject")}
_ITEM: Final[Members] = {"output_index": integer(minimum=0), "item": ref("OutputItem")}
_PLACE: Final[Members] = {"item_id": string(), "output_index": integer(minimum=0)}
_TEXT_PLACE: Final[Members] = {**_PLACE, "content_index": integer(minimum=0)}
_SUMMARY_PLACE: Final[Members] = {**_PLACE, "summary_index": integer(minimum=0)}
_LOGPROBS: Final[Members] = {"logprobs": array(ref("TokenLogprob"))}

#: The members of each event besides its type and its number, which goes up by one from 0.
_EVENTS: Final[dict[str, Members]] = {
    "created": _WHOLE,
    "in_progress": _WHOLE,
    "completed": _WHOLE,
    "incomplete": _WHOLE,
    "failed": _WHOLE,
    "output_item.added": _ITEM,
    "output_item.done": _ITEM,
    "content_part.added": {**_TEXT_PLACE, "part": _PART},
    "content_part.done": {**_TEXT_PLACE, "part": _PART},
    "refusal.delta": {**_TEXT_PLACE, "delta": string()},
    "refusal.done": {**_TEXT_PLACE, "refusal": string()},
    "output_text.delta": {**_TEXT_PLACE, "delta": string(), **_LOGPROBS},
    "output_text.done": {**_TEXT_PLACE, "text": string(), **_LOGPROBS},
    "audio.delta": {**_TEXT_PLACE, "delta": string("In Base64.")},
    "audio.done": _TEXT_PLACE,
    "reasoning_summary_part.added": {**_SUMMARY_PLACE, "part": ref("SummaryPart")},
    "reasoning_summary_part.done": {**_SUMMARY_PLACE, "part": ref("SummaryPart")},
    "reasoning_summary_text.delta": {**_SUMMARY_PLACE, "delta": string()},
    "reasoning_summary_text.done": {**_SUMMARY_PLACE, "text": string()},
    "function_call_arguments.delta": {**_PLACE, "delta": string()},
    "function_call_arguments.done": {**_PLACE, "name": string(), "arguments": string()},
    "custom_tool_call_input.delta": {**_PLACE, "delta": string()},
    "custom_tool_call_input.done": {**_PLACE, "input": string()},
    "mcp_list_tools.in_progress": _PLACE,
    "mcp_list_tools.completed": _PLACE,
    "mcp_call.in_progress": _PLACE,
    "mcp_call_arguments.delta": {**_PLACE, "delta": string()},
    "mcp_call_arguments.done": {**_PLACE, "arguments": string()},
    "mcp_call.completed": _PLACE,
    "mcp_call.failed": _PLACE,
}


def _named(kind: str) -> str:
    """Return the schema's name of an event: ``output_text.delta``: ResponseOutputTextDelta."""
    return "Response" + kind.replace(".", "_").title().replace("_", "")


RESPONSES_EVENT_SCHEMAS: Final[dict[str, Schema]] = {
    "ResponseEvent": one_of(*(ref(_named(kind)) for kind in _EVENTS)),
    **{
        _named(kind): tagged(f"response.{kind}", {"sequence_number": integer(minimum=0), **members})
        for kind, members in _EVENTS.items()
    },
}
