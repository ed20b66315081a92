"""LiteLLM: tools, structured output, reasoning, and the newer API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import litellm

from tests.process.clients.asked import (
    API_KEY,
    CHAT_TOOLS,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    QUESTION,
    THINKING,
    TOO_HOT,
    TOOL,
    TOOL_RESULT,
)
from tests.process.clients.person import Person, told


def facts(base_url: str) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "api_base": base_url,
        "api_key": API_KEY,
        "max_retries": 0,
        "model": f"openai/{MODEL}",
        "temperature": 0,
    }
    chat = {**asked, "max_tokens": MORE_TOKENS}
    return {
        **_tools(chat),
        **_structured(chat),
        **_reasoning(chat),
        "response": _response(asked),
        "response_error": _response_error({**asked, "temperature": TOO_HOT}),
    }


def _tools(chat: dict[str, Any]) -> dict[str, Any]:
    question = {"role": "user", "content": NEEDS_TOOL}
    asked: dict[str, Any] = {**chat, "messages": [question], "tools": CHAT_TOOLS}
    whole = litellm.completion(**asked).choices[0]
    streamed = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
    (call,) = whole.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": TOOL_RESULT}
    messages = [question, whole.message.model_dump(), result]
    answered = litellm.completion(**{**asked, "messages": messages})
    hello = {**asked, "messages": [{"role": "user", "content": NEEDS_NO_TOOL}]}
    named = {"type": "function", "function": {"name": TOOL}}
    return {
        "call": _call(whole),
        "finish": whole.finish_reason,
        "streamed_call": _call(streamed.choices[0]),
        "streamed_finish": streamed.choices[0].finish_reason,
        "answer": answered.choices[0].message.content,
        "required": _call(litellm.completion(**hello, tool_choice="required").choices[0]),
        "named": _call(litellm.completion(**hello, tool_choice=named).choices[0]),
    }


def _structured(chat: dict[str, Any]) -> dict[str, Any]:
    asked = {
        **chat,
        "messages": [{"role": "user", "content": QUESTION}],
        "response_format": Person,
    }
    whole = litellm.completion(**asked).choices[0].message.content
    streamed = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
    awaited = asyncio.run(litellm.acompletion(**asked)).choices[0].message.content
    return {
        "parsed": told(Person.model_validate_json(whole)),
        "parsed_stream": told(Person.model_validate_json(streamed.choices[0].message.content)),
        "parsed_async": told(Person.model_validate_json(awaited)),
    }


def _reasoning(chat: dict[str, Any]) -> dict[str, Any]:
    asked = {**chat, "messages": [{"role": "user", "content": QUESTION}], "extra_body": THINKING}
    message = litellm.completion(**asked).choices[0].message
    deltas = [chunk.choices[0].delta for chunk in litellm.completion(**asked, stream=True)]
    return {
        "reasoning": message.reasoning_content,
        "reasoned": message.content,
        "streamed_reasoning": "".join(
            getattr(delta, "reasoning_content", None) or "" for delta in deltas
        ),
        "streamed_reasoned": "".join(delta.content or "" for delta in deltas),
    }


def _response(asked: dict[str, Any]) -> dict[str, Any]:
    asked = {**asked, "input": QUESTION, "max_output_tokens": MORE_TOKENS}
    whole = litellm.responses(**asked)
    events = list(litellm.responses(**asked, stream=True))
    return {
        "text": whole.output[0].content[0].text,
        "stream": "".join(
            event.delta for event in events if event.type == "response.output_text.delta"
        ),
        "last_event": events[-1].type,
    }


def _response_error(asked: dict[str, Any]) -> str | None:
    try:
        litellm.responses(**asked, input=QUESTION)
    except litellm.BadRequestError as error:
        return type(error).__name__
    return None


def _call(choice: Any) -> list[Any]:
    (call,) = choice.message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]
