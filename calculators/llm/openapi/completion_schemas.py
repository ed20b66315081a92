"""Answers of ``/completions``."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    nullable,
    number,
    record,
    ref,
    string,
)
from calculators.llm.openapi.generation_schemas import (
    FINISH_REASON,
    PROMPT_TOKEN_IDS,
    TOKEN_IDS,
)

_NUMBER: Final = nullable(number())

COMPLETION_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "CompletionLogprobs": record(
        {
            "tokens": array(string()),
            "token_logprobs": array(_NUMBER),
            "top_logprobs": nullable(
                array(nullable(anything(additionalProperties={"type": "number"})))
            ),
            "text_offset": array(integer(minimum=0)),
        },
        required=("tokens", "token_logprobs", "top_logprobs", "text_offset"),
    ),
    "Completion": record(
        {
            "id": string(),
            "object": const("text_completion"),
            "created": integer("Unix time in seconds."),
            "model": string(),
            "system_fingerprint": nullable(string()),
            "choices": array(
                record(
                    {
                        "index": integer(minimum=0),
                        "text": string(),
                        "logprobs": nullable(ref("CompletionLogprobs")),
                        "finish_reason": nullable(FINISH_REASON),
                        "prompt_token_ids": PROMPT_TOKEN_IDS,
                        "token_ids": TOKEN_IDS,
                    },
                    required=("index", "text", "logprobs", "finish_reason"),
                )
            ),
            "usage": nullable(ref("CompletionUsage")),
            "__verbose": ref("Verbose"),
        },
        "A whole answer, or what an event of a stream says.",
        required=("id", "object", "created", "model", "system_fingerprint", "choices"),
    ),
}
