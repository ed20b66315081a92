"""Thirty-two streams at once, and alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.process.http_client import CHAT
from tests.process.server_process import ServerProcess
from tests.real_models.asking import MODEL, events

STREAMS = 32
#: Characters of an answer that are compared.
BEGINNING = 12
#: In float32 a batch changes the last digits only (docs/llm_options.md).
EXACT = '{"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}'
CITIES = ("Paris", "Rome", "Berlin", "Madrid", "Vienna", "Oslo", "Athens", "Lisbon")
QUESTIONS = [
    f"{what} {city}?"
    for city in CITIES
    for what in ("Where is", "Which river is in", "What can one eat in", "How old is")
]


@pytest.fixture(scope="module")
def exact(gguf: Path, child_program: None) -> Iterator[ServerProcess]:
    with ServerProcess(gguf, "--model_name", MODEL, "--plugin_config", EXACT) as server:
        yield server


def answer(server: ServerProcess, question: str) -> str:
    streamed = events(
        server.client, CHAT, messages=[{"role": "user", "content": question}], max_tokens=40
    )
    deltas: list[Any] = [each["choices"][0]["delta"] for each in streamed if each["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_nearly_all_streams_at_once_begin_as_each_does_alone(exact: ServerProcess) -> None:
    alone = [answer(exact, question) for question in QUESTIONS]
    with ThreadPoolExecutor(STREAMS) as pool:
        together = list(pool.map(lambda question: answer(exact, question), QUESTIONS))
    # The last digits decide between two words of the same likelihood, in a few answers early on.
    same = sum(a[:BEGINNING] == b[:BEGINNING] for a, b in zip(together, alone, strict=True))
    assert same >= STREAMS * 7 / 8
    assert len(set(alone)) > STREAMS / 2
