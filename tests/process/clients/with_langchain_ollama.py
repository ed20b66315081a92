"""LangChain's ``ChatOllama`` and ``OllamaLLM``."""

from __future__ import annotations

import asyncio
from typing import Any

import ollama
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_ollama import ChatOllama, OllamaLLM

from tests.process.clients.asked import (
    CHAT_TOOLS,
    MAX_TOKENS,
    MODEL,
    MORE_TOKENS,
    NEEDS_TOOL,
    NO_MODEL,
    QUESTION,
    TOO_HOT,
    TOOL_RESULT,
)
from tests.process.clients.person import Person


def facts(base_url: str) -> dict[str, Any]:
    host = base_url.rpartition("/")[0]
    chat = _chat(host)
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined = joined + chunk
    long = _chat(host, num_predict=MORE_TOKENS)
    tools = long.bind_tools(CHAT_TOOLS)
    asked: list[Any] = [HumanMessage(NEEDS_TOOL)]
    called = tools.invoke(asked)
    results = [ToolMessage(TOOL_RESULT, tool_call_id=call["id"]) for call in called.tool_calls]
    person = long.with_structured_output(Person).invoke(QUESTION)
    thought = _chat(host, num_predict=MORE_TOKENS, reasoning=True).invoke(QUESTION)
    text = OllamaLLM(base_url=host, model=MODEL, temperature=0, num_predict=MAX_TOKENS)
    return {
        "chat": whole.content,
        "finish": whole.response_metadata["done_reason"],
        "usage": whole.usage_metadata and whole.usage_metadata["total_tokens"],
        "stream": joined.content,
        "stream_usage": joined.usage_metadata and joined.usage_metadata["total_tokens"],
        "async": asyncio.run(chat.ainvoke(QUESTION)).content,
        "text": text.invoke(QUESTION),
        "calls": [{"name": each["name"], "arguments": each["args"]} for each in called.tool_calls],
        "tool_answer": tools.invoke([*asked, called, *results]).content,
        "person": type(person).__name__,
        "thinking": [thought.additional_kwargs.get("reasoning_content"), thought.content],
        "bad_request": _error(_chat(host, temperature=TOO_HOT)),
        "not_found": _error(_chat(host, model=NO_MODEL, validate_model_on_init=False)),
    }


def _chat(host: str, **settings: Any) -> ChatOllama:
    own = {"model": MODEL, "temperature": 0, "num_predict": MAX_TOKENS, "num_ctx": 1024}
    return ChatOllama(base_url=host, **{**own, "validate_model_on_init": True, **settings})


def _error(chat: ChatOllama) -> int:
    try:
        chat.invoke(QUESTION)
    except ollama.ResponseError as error:
        status: int = error.status_code
        return status
    return 0
