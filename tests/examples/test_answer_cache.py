"""`examples/graphs/answer_cache`, served: the same question gets the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.examples.text_clients import ask_with_clients
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving

FOLDER: Final = "examples/graphs/answer_cache"


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with Serving(ROOT, FOLDER, calculators=()) as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    body = {"model": "answer_cache", "messages": messages, "max_tokens": 30, **more}
    with server.request("POST", "/v3/chat/completions", body) as response:
        assert response.status == 200
        answer: dict[str, Any] = json.loads(response.read())
        return answer


def test_the_commands_of_the_comment_work() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER} --port 8000\n" in text
    file = f"{FOLDER}/graph.pbtxt"
    done = graphrt("validate", file, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok (4 nodes)\n", "")


def test_the_second_answer_is_the_first_with_another_id(server: Serving) -> None:
    first, second = (chat(server, "Who are you?", temperature=0) for _ in range(2))
    server.wait_for("route='cache'")
    assert first.pop("id") != second.pop("id")
    assert first.pop("created") <= second.pop("created")
    assert first == second


def test_a_stream_and_a_whole_answer_share_an_entry(server: Serving) -> None:
    whole = chat(server, "Hello!", temperature=0)["choices"][0]["message"]["content"]
    messages = [{"role": "user", "content": "Hello!"}]
    body = {"model": "answer_cache", "messages": messages, "max_tokens": 30, "temperature": 0}
    with server.request("POST", "/v3/chat/completions", {**body, "stream": True}) as response:
        events = response.read().decode().removesuffix("\n\n").split("\n\n")
    assert events.pop() == "data: [DONE]"
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events]
    texts = [delta["content"] for delta in deltas if delta.get("content")]
    assert texts == [whole]  # in one piece


def test_all_clients_get_one_answer_whole_and_streamed(server: Serving) -> None:
    text = "What is the capital of France?"
    facts = ask_with_clients(f"http://127.0.0.1:{server.port}", "answer_cache", text)
    assert facts["chat"] == facts["chat stream"]
    assert facts["chat"][0]
    assert facts["responses"] == facts["responses stream"]
    assert facts["responses pieces"] == facts["responses"][0] == facts["chat"][0]
    assert facts["messages"] == facts["messages stream"]
    assert facts["messages pieces"] == facts["messages"][0] == facts["chat"][0]
    assert facts["completions"] == facts["completions stream"]
    assert facts["kserve"] == facts["kserve stream"]
