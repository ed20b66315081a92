"""Google's client: text, streams, functions, schemas, thoughts, counts, models, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import google.genai as genai
from google.genai import errors, types

from tests.process.clients.asked import (
    API_KEY,
    MAX_TOKENS,
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    NO_MODEL,
    QUESTION,
    TOO_HOT,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
    TOOL_SCHEMA,
)
from tests.process.clients.person import Person, told

_COLD = {"temperature": 0, "max_output_tokens": MAX_TOKENS}


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return TOOL_RESULT


def facts(base_url: str) -> dict[str, Any]:
    # The client appends its version of the API: the prefix /v3 goes before that.
    version = "v1beta" if base_url.endswith("/v1") else "v1"
    options = types.HttpOptions(base_url=base_url.removesuffix("/v1"), api_version=version)
    with genai.Client(api_key=API_KEY, http_options=options) as client:
        return {
            **_text(client),
            **_functions(client),
            **_schema(client),
            **_thoughts(client),
            "async": asyncio.run(_async_text(client)),
            "count": client.models.count_tokens(model=MODEL, contents=QUESTION).total_tokens,
            "models": [model.name for model in client.models.list()],
            "model": client.models.get(model=MODEL).name,
            "bad_request": _error(client, MODEL, temperature=TOO_HOT),
            "not_found": _error(client, NO_MODEL),
        }


def _asked(contents: Any = QUESTION, **config: Any) -> dict[str, Any]:
    made = types.GenerateContentConfig(**{**_COLD, **config})
    return {"model": MODEL, "contents": contents, "config": made}


def _text(client: genai.Client) -> dict[str, Any]:
    whole = client.models.generate_content(**_asked())
    pieces = list(client.models.generate_content_stream(**_asked()))
    chat = client.chats.create(model=MODEL, config=types.GenerateContentConfig(**_COLD))
    chat.send_message(QUESTION)
    again = chat.send_message(QUESTION)
    cut = client.models.generate_content(**_asked(max_output_tokens=2))
    return {
        "text": whole.text,
        "finish": whole.candidates[0].finish_reason.value,
        "usage": [
            whole.usage_metadata.prompt_token_count,
            whole.usage_metadata.candidates_token_count,
        ],
        "stream": "".join(piece.text or "" for piece in pieces),
        "stream_finish": pieces[-1].candidates[0].finish_reason.value,
        "stream_usage": pieces[-1].usage_metadata.total_token_count,
        "chat": bool(again.text),
        "turns": len(chat.get_history()),
        "cut": cut.candidates[0].finish_reason.value,
        "candidates": len(client.models.generate_content(**_asked(candidate_count=2)).candidates),
    }


async def _async_text(client: genai.Client) -> list[str]:
    async def text() -> str:
        stream = await client.aio.models.generate_content_stream(**_asked())
        return "".join([piece.text or "" async for piece in stream])

    try:
        return list(await asyncio.gather(text(), text()))
    finally:
        await client.aio.aclose()


def _functions(client: genai.Client) -> dict[str, Any]:
    """Return a call that the model makes, one that is forced, and the client's own loop."""
    declared = types.FunctionDeclaration(
        name=TOOL, description=TOOL_ABOUT, parameters_json_schema=TOOL_SCHEMA
    )
    tools = [types.Tool(function_declarations=[declared])]
    more = {"max_output_tokens": MORE_TOKENS, "tools": tools}
    free = client.models.generate_content(**_asked(NEEDS_TOOL, **more))
    (call,) = free.function_calls
    mode = types.FunctionCallingConfig(mode="ANY", allowed_function_names=[TOOL])
    forced = client.models.generate_content(
        **_asked(**more, tool_config=types.ToolConfig(function_calling_config=mode))
    )
    pieces = client.models.generate_content_stream(**_asked(NEEDS_TOOL, **more))
    streamed = [each for piece in pieces for each in piece.function_calls or ()]
    loop = client.models.generate_content(
        **_asked(NEEDS_TOOL, max_output_tokens=MORE_TOKENS, tools=[get_weather])
    )
    return {
        "call": [call.name, call.args],
        "has_id": bool(call.id),
        "forced": forced.function_calls[0].name,
        "stream_call": [[each.name, each.args] for each in streamed],
        "loop": loop.text,
    }


def _schema(client: genai.Client) -> dict[str, Any]:
    form = {"max_output_tokens": MORE_TOKENS, "response_mime_type": "application/json"}
    answer = client.models.generate_content(**_asked(**form, response_schema=Person))
    other = client.models.generate_content(
        **_asked(**form, response_json_schema=Person.model_json_schema())
    )
    return {"person": told(answer.parsed), "other": told(Person.model_validate_json(other.text))}


def _thoughts(client: genai.Client) -> dict[str, Any]:
    config = types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH")
    asked = _asked(max_output_tokens=MORE_TOKENS, thinking_config=config)
    parts = client.models.generate_content(**asked).candidates[0].content.parts
    return {
        "thoughts": [part.text for part in parts if part.thought],
        "after": [part.text for part in parts if not part.thought],
        "signed": [bool(part.thought_signature) for part in parts if not part.thought],
    }


def _error(client: genai.Client, model: str, **config: Any) -> list[Any]:
    try:
        client.models.generate_content(**{**_asked(**config), "model": model})
    except errors.ClientError as error:
        return [error.code, error.status]
    return []
