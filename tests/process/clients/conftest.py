"""Every client library once for all tests of this folder, in processes that several share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.process.clients.asked import MAX_TOKENS, PROMPT, QUESTION
from tests.process.clients.libraries import LIBRARIES, Ask, run
from tests.process.http_client import CHAT, COMPLETIONS, HttpClient
from tests.process.server_process import ServerProcess


@pytest.fixture(scope="package")
def ask(client_libraries: None, demo: ServerProcess) -> Iterator[Ask]:
    """Return a module's facts, per base URL."""
    with ThreadPoolExecutor(max_workers=len(LIBRARIES)) as pool:
        running = {}
        for names in LIBRARIES:
            running.update(dict.fromkeys(names, pool.submit(run, demo.url, names)))

        def seen_by(name: str) -> list[dict[str, Any]]:
            done = running[name].result()
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout.splitlines()[-1])
            assert told["outside"] == []
            assert name not in told["failed"], told["failed"][name]
            facts: dict[str, dict[str, Any]] = told["facts"][name]
            assert list(facts) == ["/v3", "/v1"]
            return list(facts.values())

        yield seen_by
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="package")
def answer(demo: ServerProcess) -> dict[str, Any]:
    """Return the model's answer to the clients' question."""
    return _asked(demo.client, CHAT, messages=[{"role": "user", "content": QUESTION}])


@pytest.fixture(scope="package")
def completion(demo: ServerProcess) -> str:
    text: str = _asked(demo.client, COMPLETIONS, prompt=PROMPT)["choices"][0]["text"]
    return text


def _asked(client: HttpClient, path: str, **members: Any) -> dict[str, Any]:
    reply = client.post(path, temperature=0, max_tokens=MAX_TOKENS, **members)
    whole: dict[str, Any] = reply.json
    return whole
