"""Schemas of bodies of requests, from the declarations of their members, and of common parts."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.members import MEMBERS
from calculators.requests.members import body_schema
from calculators.requests.schema import (
    Schema,
    flag,
    integer,
    nullable,
    record,
    request,
    string,
    word,
)
from calculators.tasks.operation import TIMEOUT

_NAMES: Final = {
    Endpoint.CHAT_COMPLETIONS: "CreateChatCompletionRequest",
    Endpoint.COMPLETIONS: "CreateCompletionRequest",
    Endpoint.RESPONSES: "CreateResponseRequest",
    Endpoint.MESSAGES: "CreateMessageRequest",
    Endpoint.COUNT_TOKENS: "CountTokensRequest",
    Endpoint.TOKENIZE: "TokenizeRequest",
}


def request_schemas() -> dict[str, Schema]:
    """The bodies of requests to all endpoints; ``timeout`` is the front's own member."""
    schemas = {_NAMES[endpoint]: body_schema(members) for endpoint, members in MEMBERS.items()}
    for schema in schemas.values():
        schema["properties"]["timeout"] = nullable(TIMEOUT)
    return schemas


STREAM_OPTIONS: Final[dict[str, Schema]] = {
    "StreamOptions": request(
        {
            "include_usage": flag("The last event says how many tokens there were."),
            "include_obfuscation": flag("Changes nothing: no padding is sent."),
        },
        "Only with `stream`.",
        additionalProperties=False,
    )
}


USAGE_SCHEMAS: Final[dict[str, Schema]] = {
    "CompletionUsage": record(
        {
            "prompt_tokens": integer(minimum=0),
            "completion_tokens": integer(minimum=0),
            "total_tokens": integer(minimum=0),
            "prompt_tokens_details": record(
                {"cached_tokens": integer(minimum=0)}, required=("cached_tokens",)
            ),
            "completion_tokens_details": record(
                {"reasoning_tokens": integer(minimum=0)}, required=("reasoning_tokens",)
            ),
        },
        required=("prompt_tokens", "completion_tokens", "total_tokens"),
    ),
    "Verbose": record(
        {"prompt": string(), "content": string()},
        "Only with `--verbose_response`: the prompt, and the raw text of the answer.",
        required=("prompt", "content"),
    ),
}

FINISH_REASON: Final = word(("stop", "length", "tool_calls", "content_filter"))
