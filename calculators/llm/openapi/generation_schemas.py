"""The schemas that several endpoints refer to."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    array,
    flag,
    integer,
    nullable,
    record,
    request,
    string,
    word,
)
from calculators.llm.openapi.structured_schemas import STRUCTURED_SCHEMAS
from calculators.llm.openapi.tool_schemas import TOOL_SCHEMAS
from calculators.llm.requests.streaming_options import STREAM_OPTIONS

FINISH_REASON: Final = word(("stop", "length", "tool_calls", "content_filter"))

#: With ``return_token_ids``.
TOKEN_IDS: Final = array(
    integer(minimum=0), "With `return_token_ids`: the tokens; in events, those since the last one."
)
PROMPT_TOKEN_IDS: Final = nullable(
    array(
        integer(minimum=0),
        "With `return_token_ids`: the tokens of the prompt; in events, only the first one has them."
        " Null if the model sees images.",
    )
)

SHARED_SCHEMAS: Final[dict[str, Schema]] = {
    **STRUCTURED_SCHEMAS,
    **TOOL_SCHEMAS,
    "StreamOptions": request(
        {name: flag(about) for name, about in STREAM_OPTIONS.items()},
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
