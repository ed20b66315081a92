"""Requests to ``/completions`` and to ``/tokenize``, and their answers."""

from __future__ import annotations

from typing import Any, Final

from calculators.llm.api.openai.tokenize_request import MAX_CHARACTERS, MAX_TEXTS
from calculators.llm.openapi.generation_schemas import (
    FINISH_REASON,
    MODEL,
    TOKEN_ID,
    body_schema,
    common_members,
    most_tokens,
    stop_schema,
)
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.request_limits import RequestLimits
from calculators.requests.fields import INT32_MAX
from calculators.requests.schema import (
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
    word,
)
from calculators.tasks.operation import TIMEOUT

_TEXT: Final = string(minLength=1)
_IDS: Final = array(TOKEN_ID, minItems=1)
_NUMBER: Final = nullable(number())


def completion_request_schemas(limits: RequestLimits) -> dict[str, Schema]:
    """The body of a request."""
    many: dict[str, Any] = {"minItems": 1, "maxItems": limits.max_prompts}
    return {
        "CreateCompletionRequest": body_schema(
            Endpoint.COMPLETIONS,
            {
                **common_members(limits),
                "prompt": one_of(
                    _TEXT,
                    array(_TEXT, **many),
                    _IDS,
                    array(_IDS, **many),
                    about="A text, or the ids of its tokens; or several of either.",
                ),
                "stream_options": ref("StreamOptions"),
                "max_tokens": most_tokens(
                    "How many tokens the answer may have; 0 only with `echo`.", minimum=0
                ),
                "stop": stop_schema(limits),
                "echo": flag("Each answer begins with its prompt."),
                "logprobs": integer(
                    "0: with the log-probability of each token; 1 repeats it under `top_logprobs`.",
                    minimum=0,
                    maximum=1,
                ),
                "add_special_tokens": flag(),
            },
            required=("model", "prompt"),
        )
    }


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

TOKENIZE_SCHEMAS: Final[dict[str, Schema]] = {
    "TokenizeRequest": body_schema(
        Endpoint.TOKENIZE,
        {
            "model": MODEL,
            "text": one_of(
                string(maxLength=MAX_CHARACTERS),
                array(string(maxLength=MAX_CHARACTERS), minItems=1, maxItems=MAX_TEXTS),
                about=f"All texts together have at most {MAX_CHARACTERS} characters.",
            ),
            "add_special_tokens": flag(),
            "max_length": integer(
                "Tokens of each text at most; the rest is cut off.", minimum=1, maximum=INT32_MAX
            ),
            "pad_to_max_length": flag(),
            "padding_side": word(("left", "right")),
            "timeout": TIMEOUT,
        },
        required=("model", "text"),
    ),
    "TokenizeResponse": record(
        {
            "tokens": one_of(
                array(integer()), array(array(integer())), about="One list where there is one text."
            )
        },
        required=("tokens",),
    ),
}
