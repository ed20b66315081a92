"""Cohere's client: text, streams, tools, a schema, documents, errors."""

from __future__ import annotations

import json
from typing import Any

import cohere

from tests.process.clients.asked import (
    API_KEY,
    CHAT_TOOLS,
    MAX_TOKENS,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    NO_MODEL,
    QUESTION,
    TOO_HOT,
)
from tests.process.clients.person import Person, told


def facts(base_url: str) -> dict[str, Any]:
    client = cohere.ClientV2(
        api_key=API_KEY, base_url=base_url.removesuffix("/v1").removesuffix("/v3")
    )
    asked: dict[str, Any] = {"model": MODEL, "temperature": 0, "max_tokens": MAX_TOKENS}
    whole = client.chat(messages=_user(QUESTION), **asked)
    events = list(client.chat_stream(messages=_user(QUESTION), **asked))
    more = {**asked, "max_tokens": MORE_TOKENS}
    call = client.chat(messages=_user(NEEDS_TOOL), tools=CHAT_TOOLS, **more)
    forced = client.chat(
        messages=_user(NEEDS_NO_TOOL), tools=CHAT_TOOLS, tool_choice="REQUIRED", **more
    )
    form: Any = {"type": "json_object", "json_schema": Person.model_json_schema()}
    person = client.chat(messages=_user(QUESTION), response_format=form, **more)
    documents: Any = [{"id": "a", "data": {"text": "graphrt is written in Python."}}]
    cited = client.chat(messages=_user(QUESTION), documents=documents, **asked)
    return {
        "text": _text(whole),
        "finish": whole.finish_reason,
        "usage": [whole.usage.tokens.input_tokens, whole.usage.tokens.output_tokens],
        "stream": "".join(
            each.delta.message.content.text for each in events if each.type == "content-delta"
        ),
        "first_and_last": [events[0].type, events[-1].type],
        "stream_finish": events[-1].delta.finish_reason,
        "call": _call(call),
        "call_finish": call.finish_reason,
        "forced": _call(forced),
        "person": told(Person.model_validate_json(_text(person))),
        "with_documents": bool(_text(cited)),
        "errors": [_error(client, MODEL, temperature=TOO_HOT), _error(client, NO_MODEL)],
    }


def _user(text: str) -> Any:
    return [{"role": "user", "content": text}]


def _text(answer: Any) -> str:
    return "".join(part.text for part in answer.message.content if part.type == "text")


def _call(answer: Any) -> list[Any]:
    (call,) = answer.message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]


def _error(client: cohere.ClientV2, model: str, **members: Any) -> list[Any]:
    try:
        client.chat(model=model, messages=_user(QUESTION), **members)
    except cohere.core.ApiError as error:
        return [error.status_code, sorted(error.body)]
    return []
