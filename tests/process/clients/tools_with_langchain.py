"""LangChain's ``ChatOpenAI``: tools, structured output, and over the newer API."""

from __future__ import annotations

from typing import Any

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

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
    chat = _chat(base_url)
    newer = _chat(base_url, use_responses_api=True)
    return {
        **_tools(chat),
        **_structured(chat),
        "reasoned": _chat(base_url, extra_body=THINKING).invoke(QUESTION).text,
        "responses": {
            "text": newer.invoke(QUESTION).text,
            "stream": "".join(chunk.text for chunk in newer.stream(QUESTION)),
            **_tools(newer),
            **_structured(newer),
            "reasoning": _reasoning(_chat(base_url, use_responses_api=True, extra_body=THINKING)),
            "bad_request": _error(_chat(base_url, use_responses_api=True, temperature=TOO_HOT)),
        },
    }


def _chat(base_url: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        **{
            "base_url": base_url,
            "api_key": API_KEY,
            "model": MODEL,
            "temperature": 0,
            "max_tokens": MORE_TOKENS,
            "max_retries": 0,
            **more,
        }
    )


def _tools(chat: ChatOpenAI) -> dict[str, Any]:
    able = chat.bind_tools(CHAT_TOOLS)
    question = HumanMessage(NEEDS_TOOL)
    whole = able.invoke([question])
    first, *rest = able.stream([question])
    streamed = sum(rest, start=first)
    (call,) = whole.tool_calls
    result = ToolMessage(TOOL_RESULT, tool_call_id=call["id"])
    return {
        "call": _call(whole),
        "streamed_call": _call(streamed),
        "answer": able.invoke([question, whole, result]).text,
        "required": _call(chat.bind_tools(CHAT_TOOLS, tool_choice="any").invoke(NEEDS_NO_TOOL)),
        "named": _call(chat.bind_tools(CHAT_TOOLS, tool_choice=TOOL).invoke(NEEDS_NO_TOOL)),
    }


def _structured(chat: ChatOpenAI) -> dict[str, Any]:
    by_method = {
        method: told(chat.with_structured_output(Person, method=method).invoke(QUESTION))
        for method in ("json_schema", "function_calling")
    }
    strict = chat.with_structured_output(Person, method="function_calling", strict=True)
    *_, last = chat.with_structured_output(Person, method="json_schema").stream(QUESTION)
    return {**by_method, "strict": told(strict.invoke(QUESTION)), "json_schema_stream": told(last)}


def _reasoning(chat: ChatOpenAI) -> str:
    blocks = chat.invoke(QUESTION).content_blocks
    return "".join(block["reasoning"] for block in blocks if block["type"] == "reasoning")


def _call(message: Any) -> list[Any]:
    (call,) = message.tool_calls
    assert not message.invalid_tool_calls
    return [call["name"], call["args"]]


def _error(chat: ChatOpenAI) -> str | None:
    try:
        chat.invoke(QUESTION)
    except openai.BadRequestError as error:
        return str(error.param)
    return None
