"""Messages and options of requests to Ollama's API, and its answers."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests import schema
from calculators.kit.requests.members import COUNT
from calculators.llm.api.ollama import options_schema

_NANOSECONDS: Final = schema.integer("In nanoseconds.", minimum=0)
_CALL: Final = schema.request(
    {
        "id": schema.string(),
        "function": schema.request(
            {
                "index": COUNT.schema(""),
                "name": schema.string(),
                "arguments": schema.one_of(
                    schema.anything(), schema.string(), about="An object; its JSON is read too."
                ),
            },
            required=("name",),
        ),
    },
    required=("function",),
)
_TOKEN: Final = {
    "token": schema.string(),
    "logprob": schema.number(),
    "bytes": schema.array(schema.integer(minimum=0, maximum=255)),
}
_METRICS: Final[dict[str, schema.Schema]] = {
    "total_duration": _NANOSECONDS,
    "load_duration": _NANOSECONDS,
    "prompt_eval_count": schema.integer("The tokens of the prompt.", minimum=0),
    "prompt_eval_duration": _NANOSECONDS,
    "eval_count": schema.integer("The tokens of the answer.", minimum=0),
    "eval_duration": _NANOSECONDS,
}
_ANSWER: Final[dict[str, schema.Schema]] = {
    "model": schema.string(),
    "created_at": schema.string(format="date-time"),
    "done": {"type": "boolean", "description": "It is the last line."},
    "done_reason": schema.word(("stop", "length", "load", "unload")),
    "logprobs": schema.array(
        schema.record({**_TOKEN, "top_logprobs": schema.array(schema.record(_TOKEN))})
    ),
    **_METRICS,
}
OLLAMA_SCHEMAS: Final[dict[str, schema.Schema]] = {
    "OllamaOptions": options_schema(),
    "OllamaMessage": schema.record(
        {
            "role": schema.string("system, user, assistant or tool."),
            "content": schema.nullable(schema.string()),
            "thinking": schema.nullable(
                schema.string("What the model thought before it answered.")
            ),
            "images": schema.nullable(schema.array(schema.string(contentEncoding="base64"))),
            "tool_calls": schema.nullable(schema.array(schema.ref("OllamaToolCall"))),
            "tool_name": schema.nullable(schema.string("Of a result: the name of the tool.")),
            "tool_call_id": schema.nullable(schema.string("Of a result: the id of the call.")),
            "name": schema.nullable(schema.string("As `tool_name`.")),
        },
        required=("role",),
    ),
    "OllamaToolCall": _CALL,
    "OllamaChatResponse": schema.record(
        {
            **_ANSWER,
            "message": schema.record(
                {
                    "role": schema.string(),
                    "content": schema.string(),
                    "thinking": schema.string(),
                    "tool_calls": schema.array(schema.ref("OllamaToolCall")),
                },
                required=("role", "content"),
            ),
        },
        required=("model", "created_at", "message", "done"),
    ),
    "OllamaGenerateResponse": schema.record(
        {
            **_ANSWER,
            "response": schema.string(),
            "thinking": schema.string(),
            "context": schema.array(schema.integer(minimum=0), "For the next request."),
        },
        required=("model", "created_at", "response", "done"),
    ),
}
