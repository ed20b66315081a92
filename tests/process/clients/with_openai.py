"""OpenAI's blocking client."""

from __future__ import annotations

from typing import Any

import openai

from tests.process.clients.asked import (
    API_KEY,
    MAX_TOKENS,
    MODEL,
    NO_MODEL,
    PROMPT,
    QUESTION,
    TOO_HOT,
)


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    return {
        **_chat(client),
        **_completions(client),
        **_models(client),
        "bad_request": _error(client, openai.BadRequestError, MODEL, TOO_HOT),
        "not_found": _error(client, openai.NotFoundError, NO_MODEL, 0.0),
    }


def _chat(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    whole = client.chat.completions.create(**asked)
    raw = client.chat.completions.with_raw_response.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    with client.chat.completions.stream(**asked) as events:
        for _ in events:
            pass
        final = events.get_final_completion()
    several = client.chat.completions.create(**asked, n=2)
    return {
        "chat": whole.choices[0].message.content,
        "chat_finish": whole.choices[0].finish_reason,
        "chat_usage": whole.usage.to_dict(),
        "raw_status": raw.http_response.status_code,
        "raw_request_id": raw.headers["x-request-id"],
        "raw_chat": raw.parse().choices[0].message.content,
        "stream": "".join(
            choice.delta.content or "" for chunk in chunks for choice in chunk.choices
        ),
        "stream_finish": [
            choice.finish_reason
            for chunk in chunks
            for choice in chunk.choices
            if choice.finish_reason
        ],
        "stream_usage": chunks[-1].usage.to_dict(),
        "stream_helper": final.choices[0].message.content,
        "stream_helper_finish": final.choices[0].finish_reason,
        "indices": [choice.index for choice in several.choices],
    }


def _completions(client: openai.OpenAI) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "prompt": PROMPT,
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    whole = client.completions.create(**asked)
    chunks = client.completions.create(**asked, stream=True)
    return {
        "completion": whole.choices[0].text,
        "completion_stream": "".join(chunk.choices[0].text for chunk in chunks),
    }


def _models(client: openai.OpenAI) -> dict[str, Any]:
    try:
        client.models.retrieve(NO_MODEL)
        missing = None
    except openai.NotFoundError as error:
        missing = error.code
    return {
        "models": [model.id for model in client.models.list()],
        "model": client.models.retrieve(MODEL).id,
        "missing_model": missing,
    }


def _error(
    client: openai.OpenAI, kind: type[openai.APIStatusError], model: str, temperature: float
) -> dict[str, Any]:
    """Return the error, the same for unary requests and streams: nothing was sent before."""
    told = []
    for stream in (False, True):
        try:
            client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": QUESTION}],
                temperature=temperature,
                stream=stream,
            )
        except kind as error:
            told.append(
                {
                    "status": error.status_code,
                    "code": error.code,
                    "param": error.param,
                    "type": error.type,
                    "request_id": bool(error.request_id),
                }
            )
    first, second = told
    assert first == second
    return first
