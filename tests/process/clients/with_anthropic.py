"""Anthropic's own client, whose base URL has no version."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic

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

#: It has no member for it any more.
_COLD = {"temperature": 0}
_TOOLS: list[Any] = [{"name": TOOL, "description": TOOL_ABOUT, "input_schema": TOOL_SCHEMA}]


def facts(base_url: str) -> dict[str, Any]:
    # It appends /v1/messages: OpenVINO Model Server's prefix stays before that.
    where: dict[str, Any] = {
        "base_url": base_url.removesuffix("/v1"),
        "api_key": API_KEY,
        "max_retries": 0,
    }
    client = anthropic.Anthropic(**where)
    return {
        **_text(client),
        **_tools(client),
        **_structured(client),
        **_thinking(client),
        "count": client.messages.count_tokens(model=MODEL, messages=_user(QUESTION)).input_tokens,
        "count_with_tools": client.messages.count_tokens(
            model=MODEL, messages=_user(NEEDS_TOOL), tools=_TOOLS
        ).input_tokens,
        "async": asyncio.run(_async_text(where)),
        "bad_request": _error(client, anthropic.BadRequestError, MODEL, temperature=TOO_HOT),
        "not_found": _error(client, anthropic.NotFoundError, NO_MODEL),
    }


def _user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def _text(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": _user(QUESTION),
        "max_tokens": MAX_TOKENS,
        "extra_body": _COLD,
    }
    whole = client.messages.create(**asked)
    kinds = [event.type for event in client.messages.create(**asked, stream=True)]
    with client.messages.stream(**asked) as stream:
        pieces = "".join(stream.text_stream)
        final = stream.get_final_message()
    raw = client.messages.with_raw_response.create(**asked)
    cut = client.messages.create(**{**asked, "max_tokens": 2})
    stopped = client.messages.create(**asked, stop_sequences=["!"])
    system = client.messages.create(**asked, system=[{"type": "text", "text": "Be brief."}])
    return {
        "text": whole.content[0].text,
        "stop": whole.stop_reason,
        "usage": [whole.usage.input_tokens, whole.usage.output_tokens],
        "first_event": kinds[0],
        "last_event": kinds[-1],
        "stream": pieces,
        "stream_final": final.content[0].text,
        "stream_stop": final.stop_reason,
        "stream_usage": [final.usage.input_tokens, final.usage.output_tokens],
        "raw_request_id": raw.headers["request-id"],
        "cut": cut.stop_reason,
        "stopped": [stopped.stop_reason, stopped.stop_sequence],
        "has_system": bool(system.content[0].text),
    }


async def _async_text(where: dict[str, Any]) -> list[str]:
    async with anthropic.AsyncAnthropic(**where) as client:

        async def text() -> str:
            async with client.messages.stream(
                model=MODEL, messages=_user(QUESTION), max_tokens=MAX_TOKENS, extra_body=_COLD
            ) as stream:
                return str(await stream.get_final_text())

        return list(await asyncio.gather(text(), text()))


def _tools(client: anthropic.Anthropic) -> dict[str, Any]:
    question = _user(NEEDS_TOOL)
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": question,
        "max_tokens": MORE_TOKENS,
        "extra_body": _COLD,
        "tools": _TOOLS,
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        stream.until_done()
        streamed = stream.get_final_message()
    (use,) = whole.content
    result = {"type": "tool_result", "tool_use_id": use.id, "content": TOOL_RESULT}
    turns = [
        *question,
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": [result]},
    ]
    answered = client.messages.create(**{**asked, "messages": turns})
    hello = {**asked, "messages": _user(QUESTION)}
    return {
        "call": _call(whole),
        "call_stop": whole.stop_reason,
        "streamed_call": _call(streamed),
        "streamed_stop": streamed.stop_reason,
        "answer": answered.content[0].text,
        "answer_stop": answered.stop_reason,
        "any": _call(client.messages.create(**hello, tool_choice={"type": "any"})),
        "named": _call(client.messages.create(**hello, tool_choice={"type": "tool", "name": TOOL})),
    }


def _structured(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": _user(QUESTION),
        "max_tokens": MORE_TOKENS,
        "extra_body": _COLD,
        "output_format": Person,
    }
    with client.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    return {
        "parsed": told(client.messages.parse(**asked).parsed_output),
        "parsed_stream": told(streamed.parsed_output),
    }


def _thinking(client: anthropic.Anthropic) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": _user(QUESTION),
        "max_tokens": MORE_TOKENS,
        "thinking": {"type": "adaptive"},
        "extra_body": _COLD,
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        thought = "".join(event.thinking for event in stream if event.type == "thinking")
        final = stream.get_final_message()
    return {
        "blocks": [block.type for block in whole.content],
        "thinking": whole.content[0].thinking,
        "thought": whole.content[1].text,
        "streamed_thinking": thought,
        "streamed_blocks": [block.type for block in final.content],
        "streamed_thought": final.content[1].text,
    }


def _call(message: Any) -> list[Any]:
    """The name and the input of the only call."""
    (use,) = message.content
    assert use.type == "tool_use"
    assert use.id
    return [use.name, use.input]


def _error(
    client: anthropic.Anthropic, kind: type[anthropic.APIStatusError], model: str, **members: Any
) -> dict[str, Any]:
    """The same for a unary request and a stream: nothing has been sent when it fails."""
    told_of = []
    for stream in (False, True):
        try:
            client.messages.create(
                model=model,
                messages=_user(QUESTION),
                max_tokens=MAX_TOKENS,
                stream=stream,
                extra_body=members,
            )
        except kind as error:
            told_of.append(
                {
                    "status": error.status_code,
                    "type": error.body["error"]["type"],
                    "request_id": bool(error.request_id),
                }
            )
    first, second = told_of
    assert first == second
    return first
