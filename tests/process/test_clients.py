"""The usual client libraries get their answers, over both base URLs, and errors of the right class.

What an answer is, a plain request tells: the words are the model's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.process.clients.asked import MAX_TOKENS, MODEL, PROMPT, QUESTION
from tests.process.http_client import CHAT, COMPLETIONS, HttpClient
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import ROOT, environment

CLIENTS = (
    "with_openai",
    "with_openai_async",
    "with_langchain",
    "with_pydantic_ai",
    "with_litellm",
    "with_llama_index",
    "with_openai_agents",
    "with_instructor",
)

#: These libraries would tell their makers of their use, or ask them for prices.
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_TELEMETRY": "False",
    "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}

Ask = Callable[[str], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def ask(client_libraries: None, demo: ServerProcess) -> Iterator[Ask]:
    """What a client saw, per base URL. Two at a time: most of their time is importing."""
    environ = {name: text for name, text in environment().items() if "proxy" not in name.lower()}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.process.clients", name, demo.url],
            cwd=ROOT,
            env={**environ, **QUIET},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(max_workers=2) as pool:
        running = {name: pool.submit(run, name) for name in CLIENTS}

        def answers_of(name: str) -> dict[str, dict[str, Any]]:
            done = running[name].result()
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout.splitlines()[-1])
            assert told["outside"] == []
            facts: dict[str, dict[str, Any]] = told["facts"]
            assert list(facts) == ["/v3", "/v1"]
            return facts

        yield answers_of
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def answer(demo: ServerProcess) -> dict[str, Any]:
    """What the model answers to what the clients ask."""
    return _asked(demo.client, CHAT, messages=[{"role": "user", "content": QUESTION}])


@pytest.fixture(scope="module")
def completion(demo: ServerProcess) -> str:
    text: str = _asked(demo.client, COMPLETIONS, prompt=PROMPT)["choices"][0]["text"]
    return text


def _asked(client: HttpClient, path: str, **members: Any) -> dict[str, Any]:
    reply = client.post(path, temperature=0, max_tokens=MAX_TOKENS, **members)
    whole: dict[str, Any] = reply.json
    return whole


def test_openai(ask: Ask, answer: dict[str, Any], completion: str) -> None:
    choice, usage = answer["choices"][0], answer["usage"]
    text, reason = choice["message"]["content"], choice["finish_reason"]
    for facts in ask("with_openai").values():
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
    for facts in ask("with_openai_async").values():
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
    for facts in ask("with_langchain").values():
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
    for facts in ask("with_pydantic_ai").values():
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
    for facts in ask("with_litellm").values():
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
    for facts in ask("with_llama_index").values():
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
    for facts in ask("with_openai_agents").values():
        assert facts == {
            "chat": text,
            "usage": total,
            "stream": text,
            "stream_final": text,
            "bad_request": "BadRequestError",
            "not_found": "NotFoundError",
        }


def test_instructor_is_told_what_is_not_there_yet(ask: Ask, answer: dict[str, Any]) -> None:
    for facts in ask("with_instructor").values():
        assert facts == {
            "chat": answer["choices"][0]["message"]["content"],
            "json": "BadRequestError response_format",
            "json_schema": "BadRequestError response_format",
        }
