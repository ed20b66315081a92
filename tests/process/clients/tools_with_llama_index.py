"""LlamaIndex's ``OpenAILike``: tools and structured predictions; and over the newer API."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike, OpenAILikeResponses

from tests.process.clients.asked import (
    API_KEY,
    MODEL,
    MORE_TOKENS,
    NEEDS_NO_TOOL,
    NEEDS_TOOL,
    QUESTION,
    TOO_HOT,
    TOOL,
    TOOL_ABOUT,
    TOOL_RESULT,
)
from tests.process.clients.person import Person, told


def get_weather(city: str) -> str:
    return TOOL_RESULT


_WEATHER = FunctionTool.from_defaults(get_weather, name=TOOL, description=TOOL_ABOUT)


def facts(base_url: str) -> dict[str, Any]:
    chat = OpenAILike(**_where(base_url), temperature=0, max_tokens=MORE_TOKENS, is_chat_model=True)
    newer = OpenAILikeResponses(**_where(base_url), temperature=0, max_output_tokens=MORE_TOKENS)
    hot = OpenAILikeResponses(**_where(base_url), additional_kwargs={"temperature": TOO_HOT})
    return {
        **_tools(chat),
        **_structured(chat),
        "responses": {
            "text": newer.chat([_user(QUESTION)]).message.content,
            "stream": "".join(each.delta or "" for each in newer.stream_chat([_user(QUESTION)])),
            **_tools(newer),
            "bad_request": _error(hot),
        },
    }


def _where(base_url: str) -> dict[str, Any]:
    return {
        "api_base": base_url,
        "api_key": API_KEY,
        "model": MODEL,
        "is_function_calling_model": True,
        "max_retries": 0,
    }


def _user(text: str) -> Any:
    return ChatMessage(role="user", content=text)


def _tools(llm: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"tools": [_WEATHER], "chat_history": [_user(NEEDS_TOOL)]}
    whole = llm.chat_with_tools(**asked)
    *_, streamed = llm.stream_chat_with_tools(**asked)
    (call,) = llm.get_tool_calls_from_response(whole)
    result = ChatMessage(
        role="tool", content=TOOL_RESULT, additional_kwargs={"tool_call_id": call.tool_id}
    )
    answered = llm.chat([_user(NEEDS_TOOL), whole.message, result])
    hello: dict[str, Any] = {"tools": [_WEATHER], "chat_history": [_user(NEEDS_NO_TOOL)]}
    return {
        "call": _call(llm, whole),
        "streamed_call": _call(llm, streamed),
        "answer": answered.message.content,
        "required": _call(llm, llm.chat_with_tools(**hello, tool_required=True)),
    }


def _structured(llm: OpenAILike) -> dict[str, Any]:
    prompt = PromptTemplate(QUESTION)
    awaited = asyncio.run(llm.astructured_predict(Person, prompt))
    return {
        "predicted": told(llm.structured_predict(Person, prompt)),
        "predicted_async": told(awaited),
        "as_structured": told(llm.as_structured_llm(Person).complete(QUESTION).raw),
    }


def _call(llm: Any, answer: Any) -> list[Any]:
    (call,) = llm.get_tool_calls_from_response(answer)
    return [call.tool_name, call.tool_kwargs]


def _error(llm: Any) -> str | None:
    try:
        llm.chat([_user(QUESTION)])
    except openai.BadRequestError as error:
        return str(error.param)
    return None
