"""Schemas of the answers of llama.cpp's API."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    flag,
    integer,
    number,
    one_of,
    record,
    ref,
    string,
    word,
)

_COUNT: Final = integer(minimum=0)
_TIME: Final = number(minimum=0)
_TIMINGS: Final = {
    f"{part}_{name}": schema
    for part in ("prompt", "predicted")
    for name, schema in {
        "n": _COUNT,
        "ms": _TIME,
        "per_token_ms": _TIME,
        "per_second": _TIME,
    }.items()
}

LLAMA_CPP_SCHEMAS: Final[dict[str, Schema]] = {
    "LlamaCppTimings": record(
        {"cache_n": _COUNT, **_TIMINGS},
        "Milliseconds and tokens; `prompt_n` is without the `cache_n` that were known.",
    ),
    "LlamaCppCompletion": record(
        {
            "index": _COUNT,
            "content": string(),
            "tokens": array(integer(), "With `return_tokens`."),
            "id_slot": _COUNT,
            "stop": flag("False in all events but the last one of a choice."),
            "model": string(),
            "tokens_predicted": _COUNT,
            "tokens_evaluated": integer("Tokens of the prompt.", minimum=0),
            "generation_settings": anything("The limits and the sampling that were used."),
            "has_new_line": flag(),
            "truncated": flag(),
            "stop_type": word(("eos", "limit", "word", "none"), "Why the text ends."),
            "stopping_word": string(),
            "tokens_cached": _COUNT,
            "timings": ref("LlamaCppTimings"),
        },
        "What `response_fields` chooses, under the names that it has there; else all.",
    ),
    "LlamaCppAnswer": one_of(ref("LlamaCppCompletion"), array(ref("LlamaCppCompletion"))),
}
