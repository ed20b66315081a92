"""Requests to Anthropic's ``/messages`` and ``/messages/count_tokens``, and their answers."""

from __future__ import annotations

from typing import Final

from calculators.llm.api.anthropic.messages_request import EFFORTS, THINKS
from calculators.llm.openapi.generation_schemas import (
    MODEL,
    TEMPLATE_MEMBERS,
    body_schema,
    common_members,
    most_tokens,
    stop_schema,
)
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.request_limits import RequestLimits
from calculators.requests.fields import UINT32_MAX
from calculators.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    const,
    integer,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    tagged,
    union,
    word,
)
from calculators.tasks.operation import TIMEOUT

_TEXT: Final = ref("TextBlock")

_BLOCK_SCHEMAS: Final[dict[str, Schema]] = {
    **union(
        "ImageSource",
        LinkedImage=tagged("url", {"url": string()}),
        SentImage=tagged("base64", {"media_type": string(), "data": string()}),
    ),
    **union(
        "MessageBlock",
        TextBlock=tagged("text", {"text": string()}),
        ImageBlock=tagged("image", {"source": ref("ImageSource")}),
        ToolResultBlock=record(
            {
                "type": const("tool_result"),
                "tool_use_id": string(),
                "content": nullable(one_of(string(), array(one_of(_TEXT, ref("ImageBlock"))))),
                "is_error": {"type": ["boolean", "null"]},
            },
            required=("type", "tool_use_id"),
        ),
        ThoughtBlock=tagged("thinking", {"thinking": string()}),
        RedactedBlock=tagged("redacted_thinking", {}),
        ToolUseBlock=tagged("tool_use", {"id": string(), "name": string(), "input": anything()}),
    ),
    "MessageParam": record(
        {
            "role": word(("user", "assistant", "system")),
            "content": one_of(string(), array(ref("MessageBlock"))),
        },
        required=("role", "content"),
    ),
    "MessageTool": record(
        {
            "type": {"type": ["string", "null"], "enum": ["custom", None]},
            "name": string(),
            "description": {"type": ["string", "null"]},
            "input_schema": anything("The JSON schema of what it is given."),
            "strict": {"type": ["boolean", "null"]},
        },
        required=("name", "input_schema"),
    ),
    **union(
        "MessageToolChoice",
        MessageToolMode=record(
            {
                "type": word(("auto", "any", "none")),
                "disable_parallel_tool_use": {"type": ["boolean", "null"]},
            },
            required=("type",),
        ),
        MessageChosenTool=record(
            {
                "type": const("tool"),
                "name": string(),
                "disable_parallel_tool_use": {"type": ["boolean", "null"]},
            },
            required=("type", "name"),
        ),
    ),
}

_NOT_THERE: Final = {"type": "null", "description": "Nothing is stored or run here."}


def messages_request_schemas(limits: RequestLimits) -> dict[str, Schema]:
    """The bodies of requests."""
    conversation: Members = {
        "messages": array(ref("MessageParam"), minItems=1, maxItems=limits.max_messages),
        "system": one_of(string(), array(_TEXT)),
        "tools": array(ref("MessageTool"), maxItems=limits.max_tools),
        "tool_choice": ref("MessageToolChoice"),
        "thinking": record(
            {
                "type": word(THINKS),
                "budget_tokens": {
                    "type": ["integer", "null"],
                    "minimum": 0,
                    "maximum": UINT32_MAX,
                },
                "display": {"description": "`omitted` leaves out what the model thinks."},
                "block_binding": {},
            },
            additionalProperties=False,
        ),
        **TEMPLATE_MEMBERS,
    }
    count = {
        "model": MODEL,
        **conversation,
        "output_config": _output_config(),
        "timeout": TIMEOUT,
    }
    return {
        **_BLOCK_SCHEMAS,
        "CreateMessageRequest": body_schema(
            Endpoint.MESSAGES,
            {
                **common_members(limits, n=1),
                **conversation,
                "max_tokens": most_tokens(),
                "stop_sequences": stop_schema(limits),
                "output_config": _output_config(format=ref("TextFormat")),
                "output_format": ref("TextFormat"),
                "mcp_servers": array(anything(), maxItems=0),
                "thread": _NOT_THERE,
                "compaction": _NOT_THERE,
                "container": _NOT_THERE,
            },
            required=("model", "messages", "max_tokens"),
        ),
        "CountTokensRequest": body_schema(
            Endpoint.COUNT_TOKENS, count, required=("model", "messages")
        ),
    }


def _output_config(**more: Schema) -> Schema:
    members = {"effort": word(EFFORTS), "format": {}, "task_budget": {}, **more}
    return request(members, additionalProperties=False)


_STOP_REASON: Final = word(("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"))
_ENDING: Final[Members] = {
    "stop_reason": nullable(_STOP_REASON),
    "stop_sequence": nullable(string()),
}

MESSAGES_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "ThinkingBlock": tagged("thinking", {"thinking": string(), "signature": string()}),
    "AnswerBlock": one_of(ref("ThinkingBlock"), _TEXT, ref("ToolUseBlock")),
    **union(
        "BlockDelta",
        ThinkingDelta=tagged("thinking_delta", {"thinking": string()}),
        TextDelta=tagged("text_delta", {"text": string()}),
        InputDelta=tagged("input_json_delta", {"partial_json": string()}),
    ),
    "MessageUsage": record(
        {
            "input_tokens": integer(minimum=0),
            "cache_creation_input_tokens": integer(minimum=0),
            "cache_read_input_tokens": integer(minimum=0),
            "output_tokens": integer(minimum=0),
        },
        required=(
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        ),
    ),
    "Message": record(
        {
            "id": string(),
            "type": const("message"),
            "role": const("assistant"),
            "model": string(),
            "content": array(ref("AnswerBlock")),
            **_ENDING,
            "usage": ref("MessageUsage"),
            "__verbose": ref("Verbose"),
        },
        required=("id", "type", "role", "model", "content", *_ENDING, "usage"),
    ),
    **union(
        "MessageEvent",
        MessageStart=tagged("message_start", {"message": ref("Message")}),
        BlockStart=tagged(
            "content_block_start",
            {"index": integer(minimum=0), "content_block": ref("AnswerBlock")},
        ),
        BlockGrowth=tagged(
            "content_block_delta", {"index": integer(minimum=0), "delta": ref("BlockDelta")}
        ),
        BlockStop=tagged("content_block_stop", {"index": integer(minimum=0)}),
        MessageDelta=record(
            {
                "type": const("message_delta"),
                "delta": record(_ENDING, required=tuple(_ENDING)),
                "usage": ref("MessageUsage"),
                "__verbose": ref("Verbose"),
            },
            required=("type", "delta", "usage"),
        ),
        MessageStop=tagged("message_stop", {}),
    ),
    "TokenCount": record({"input_tokens": integer(minimum=0)}, required=("input_tokens",)),
}
