"""The schemas that several endpoints refer to."""

from __future__ import annotations

from typing import Final

from calculators.llm.openapi.structured_schemas import STRUCTURED_SCHEMAS
from calculators.llm.openapi.tool_schemas import TOOL_SCHEMAS
from calculators.requests.schema import (
    Schema,
    flag,
    integer,
    record,
    request,
    string,
    word,
)

FINISH_REASON: Final = word(("stop", "length", "tool_calls", "content_filter"))

SHARED_SCHEMAS: Final[dict[str, Schema]] = {
    **STRUCTURED_SCHEMAS,
    **TOOL_SCHEMAS,
    "StreamOptions": request(
        {
            "include_usage": flag("The last event says how many tokens there were."),
            "include_obfuscation": flag("Changes nothing: no padding is sent."),
        },
        "Only with `stream`.",
        additionalProperties=False,
    ),
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
