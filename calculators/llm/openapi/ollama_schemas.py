"""Messages and options of requests to Ollama's API, and its answers."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    integer,
    nullable,
    number,
    record,
    ref,
    string,
    word,
)
from calculators.llm.api.ollama.ollama_request import options_schema

_NANOSECONDS: Final = integer("In nanoseconds.", minimum=0)
_CALL: Final = record(
    {
        "id": string(),
        "function": record(
            {
                "index": integer(minimum=0),
                "name": string(),
                "arguments": anything("An object."),
            },
            required=("name",),
        ),
    },
    required=("function",),
)
_TOKEN: Final = {
    "token": string(),
    "logprob": number(),
    "bytes": array(integer(minimum=0, maximum=255)),
}
_METRICS: Final[dict[str, Schema]] = {
    "total_duration": _NANOSECONDS,
    "load_duration": _NANOSECONDS,
    "prompt_eval_count": integer("The tokens of the prompt.", minimum=0),
    "prompt_eval_duration": _NANOSECONDS,
    "eval_count": integer("The tokens of the answer.", minimum=0),
    "eval_duration": _NANOSECONDS,
}
_ANSWER: Final[dict[str, Schema]] = {
    "model": string(),
    "created_at": string(format="date-time"),
    "done": {"type": "boolean", "description": "It is the last line."},
    "done_reason": word(("stop", "length", "load", "unload")),
    "logprobs": array(record({**_TOKEN, "top_logprobs": array(record(_TOKEN))})),
    **_METRICS,
}
OLLAMA_SCHEMAS: Final[dict[str, Schema]] = {
    "OllamaOptions": options_schema(),
    "OllamaMessage": record(
        {
            "role": string("system, user, assistant or tool."),
            "content": nullable(string()),
            "thinking": nullable(string("What the model thought before it answered.")),
            "images": nullable(array(string(contentEncoding="base64"))),
            "tool_calls": nullable(array(ref("OllamaToolCall"))),
            "tool_name": nullable(string("Of a result: the name of the tool.")),
            "tool_call_id": nullable(string("Of a result: the id of the call.")),
        },
        required=("role",),
    ),
    "OllamaToolCall": _CALL,
    "OllamaChatResponse": record(
        {
            **_ANSWER,
            "message": record(
                {
                    "role": string(),
                    "content": string(),
                    "thinking": string(),
                    "tool_calls": array(ref("OllamaToolCall")),
                },
                required=("role", "content"),
            ),
        },
        required=("model", "created_at", "message", "done"),
    ),
    "OllamaGenerateResponse": record(
        {
            **_ANSWER,
            "response": string(),
            "thinking": string(),
            "context": array(integer(minimum=0), "For the next request."),
        },
        required=("model", "created_at", "response", "done"),
    ),
}
