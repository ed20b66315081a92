"""The usual client libraries get text, over both base URLs, and errors of the right class.

What an answer is, a plain request tells: the words are the model's.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.clients.asked import MODEL
from tests.process.clients.libraries import Ask

#: The first test of a library waits for its import, and for those of others.
pytestmark = pytest.mark.timeout(300)


def test_openai(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    choice, usage = answer["choices"][0], answer["usage"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_openai"):
        assert facts.pop("raw_request_id")
        assert facts == {
            "chat": text,
            "chat_finish": reason,
            "chat_usage": usage,
            "raw_status": 200,
            "raw_chat": text,
            "stream": text,
            "stream_finish": [reason],
            "stream_usage": usage,
            "stream_helper": text,
            "stream_helper_finish": reason,
            "indices": [0, 1],
            "completion": completion,
            "completion_stream": completion,
            "models": [MODEL],
            "model": MODEL,
            "missing_model": "model_not_found",
            "bad_request": {
                "status": 400,
                "code": None,
                "param": "temperature",
                "type": "invalid_request_error",
                "request_id": True,
            },
            "not_found": {
                "status": 404,
                "code": "model_not_found",
                "param": "model",
                "type": "invalid_request_error",
                "request_id": True,
            },
        }


def test_openai_async(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    text = answer["choices"][0]["message"]["content"]
    for facts in ask("with_openai_async"):
        assert facts == {
            "chat": text,
            "streams": [text] * 4,
            "completion": completion,
            "models": [MODEL],
            "missing_model": "model_not_found",
        }


def test_langchain(ask: Ask, answer: dict[str, Any]) -> None:
    choice, total = answer["choices"][0], answer["usage"]["total_tokens"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_langchain"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "usage": total,
            "stream": text,
            "stream_finish": reason,
            "stream_usage": total,
            "async": text,
            "batch": [text, text],
            "bad_request": "BadRequestError",
            "not_found": "model_not_found",
        }


def test_pydantic_ai(ask: Ask, answer: dict[str, Any]) -> None:
    text, total = answer["choices"][0]["message"]["content"], answer["usage"]["total_tokens"]
    for facts in ask("with_pydantic_ai"):
        assert facts == {
            "chat": text,
            "usage": total,
            "stream": text,
            "stream_usage": total,
            "bad_request": 400,
            "not_found": 404,
        }


def test_litellm(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    choice, total = answer["choices"][0], answer["usage"]["total_tokens"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_litellm"):
        assert facts == {
            "chat": text,
            "finish": reason,
            "usage": total,
            "stream": text,
            "stream_usage": [total],
            "async": text,
            "completion": completion,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_llama_index(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    text = answer["choices"][0]["message"]["content"]
    for facts in ask("with_llama_index"):
        assert facts == {
            "chat": text,
            "stream": text,
            "async": text,
            "completion": completion,
            "completion_stream": completion,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_openai_agents(ask: Ask, answer: dict[str, Any]) -> None:
    text, total = answer["choices"][0]["message"]["content"], answer["usage"]["total_tokens"]
    for facts in ask("with_openai_agents"):
        assert facts == {
            "chat": text,
            "usage": total,
            "stream": text,
            "stream_final": text,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_anthropic(ask: Ask, answer: dict[str, Any]) -> None:
    text = answer["choices"][0]["message"]["content"]
    usage = [answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]]
    for facts in ask("with_anthropic"):
        assert facts.pop("raw_request_id")
        assert facts == {
            "text": text,
            "stop": "end_turn",
            "usage": usage,
            "first_event": "message_start",
            "last_event": "message_stop",
            "stream": text,
            "stream_final": text,
            "stream_stop": "end_turn",
            "stream_usage": usage,
            "cut": "max_tokens",
            "stopped": ["stop_sequence", "!"],
            "has_system": True,
            "count": usage[0],
            "async": [text, text],
            "bad_request": {
                "status": 400,
                "type": "invalid_request_error",
                "request_id": True,
            },
            "not_found": {"status": 404, "type": "not_found_error", "request_id": True},
        }
