"""`examples/graphs/stateful`, served: one request at a time, the others wait."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.process.server_process import ENGINE
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import children_of, module_of

FOLDER = ROOT / "examples" / "graphs" / "stateful"
CHAT = "/v3/chat/completions"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]

CLIENT = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="unused")
messages = [{"role": "user", "content": "What is the capital of France?"}]
asked = {"model": "stateful", "messages": messages, "temperature": 0, "max_tokens": 40}
answer = client.chat.completions.create(**asked)
print(answer.choices[0].message.content)
stream = client.chat.completions.create(
    **asked, stream=True, stream_options={"include_usage": True}
)
chunks = list(stream)
print("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))
print(chunks[-1].usage.completion_tokens == answer.usage.completion_tokens)
print(client.responses.create(model="stateful", input="Hello", temperature=0).status)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, "examples/graphs/stateful", calculators=()) as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, **more: Any) -> tuple[int, dict[str, Any]]:
    body = {"model": "stateful", "messages": QUESTION, "temperature": 0, "max_tokens": 20, **more}
    with server.request("POST", CHAT, body) as response:
        return response.status, json.loads(response.read())


def gauge(server: Serving, name: str) -> float:
    with server.request("GET", "/metrics") as response:
        text = response.read().decode()
    (value,) = re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
    return float(value)


def engine_of(server: Serving) -> int:
    """Return the process that runs the model."""
    (engine,) = (pid for pid in children_of(server.pid) if module_of(pid) == ENGINE)
    return engine


def test_the_command_of_the_comment_works() -> None:
    text = (FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert "#   graphrt serve examples/graphs/stateful\n" in text


def test_openais_client_gets_answers_and_streams(server: Serving) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"http://127.0.0.1:{server.port}/v3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    whole, streamed, has_usage, status = done.stdout.splitlines()
    assert "Paris" in whole
    assert streamed == whole
    assert (has_usage, status) == ("True", "completed")


def test_many_clients_are_served_in_turn(server: Serving) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: chat(server), range(16)))
    assert {status for status, _ in answers} == {200}
    assert len({answer["choices"][0]["message"]["content"] for _, answer in answers}) == 1
    assert gauge(server, "graphrt_llm_requests_running") == 0
    assert gauge(server, "graphrt_llm_requests_waiting") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
def test_a_killed_engine_fails_its_requests_and_is_restarted(server: Serving) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(chat, server, max_tokens=1900, ignore_eos=True) for _ in range(2)]
        wait_until(lambda: gauge(server, "graphrt_llm_requests_running") >= 1, "it generates")
        os.kill(engine_of(server), signal.SIGKILL)
        for each in asked:
            status, answer = each.result(60)
            assert status == 503
            assert "it is being started again" in answer["error"]["message"]
    wait_until(lambda: gauge(server, "graphrt_llm_engine_up") >= 1, "the engine is back")
    status, answer = chat(server)
    assert status == 200, answer
    assert gauge(server, "graphrt_llm_engine_restarts_total") == 1
