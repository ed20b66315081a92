"""LangChain's ``ChatOpenAI``."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from langchain_openai import ChatOpenAI

from tests.process.clients.asked import API_KEY, MAX_TOKENS, MODEL, NO_MODEL, QUESTION, TOO_HOT


def facts(base_url: str) -> dict[str, Any]:
    chat = _chat(base_url, MODEL, 0.0)
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined = joined + chunk
    return {
        "chat": whole.content,
        "finish": whole.response_metadata["finish_reason"],
        "usage": whole.usage_metadata["total_tokens"],
        "stream": joined.content,
        "stream_finish": joined.response_metadata["finish_reason"],
        "stream_usage": joined.usage_metadata["total_tokens"],
        "async": asyncio.run(chat.ainvoke(QUESTION)).content,
        "batch": [each.content for each in chat.batch([QUESTION, QUESTION])],
        "bad_request": _error(_chat(base_url, MODEL, TOO_HOT)),
        "not_found": _error(_chat(base_url, NO_MODEL, 0.0)),
    }


def _chat(base_url: str, model: str, temperature: float) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=base_url,
        api_key=API_KEY,
        model=model,
        temperature=temperature,
        max_tokens=MAX_TOKENS,
        max_retries=0,
        stream_usage=True,
    )


def _error(chat: ChatOpenAI) -> str | None:
    try:
        chat.invoke(QUESTION)
    except openai.BadRequestError:
        return "BadRequestError"
    except openai.NotFoundError as error:
        return str(error.code)
    return None
