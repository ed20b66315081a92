"""LlamaIndex's ``OpenAILike``, over both endpoints."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

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
    chat = _llm(base_url, MODEL, 0.0, is_chat_model=True)
    plain = _llm(base_url, MODEL, 0.0, is_chat_model=False)
    question = [ChatMessage(role="user", content=QUESTION)]
    return {
        "chat": chat.chat(question).message.content,
        "stream": "".join(each.delta or "" for each in chat.stream_chat(question)),
        "async": asyncio.run(chat.achat(question)).message.content,
        "completion": plain.complete(PROMPT).text,
        "completion_stream": "".join(each.delta or "" for each in plain.stream_complete(PROMPT)),
        "bad_request": _error(_llm(base_url, MODEL, TOO_HOT, is_chat_model=True)),
        "not_found": _error(_llm(base_url, NO_MODEL, 0.0, is_chat_model=True)),
    }


def _llm(base_url: str, model: str, temperature: float, *, is_chat_model: bool) -> OpenAILike:
    return OpenAILike(
        api_base=base_url,
        api_key=API_KEY,
        model=model,
        # Not as `temperature`, whose range the library checks itself.
        additional_kwargs={"temperature": temperature},
        max_tokens=MAX_TOKENS,
        is_chat_model=is_chat_model,
        max_retries=0,
    )


def _error(llm: OpenAILike) -> str | None:
    try:
        llm.chat([ChatMessage(role="user", content=QUESTION)])
    except (openai.BadRequestError, openai.NotFoundError) as error:
        return type(error).__name__
    return None
