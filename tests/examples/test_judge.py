"""`examples/graphs/judge`, served: two models answer, and a third one chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.checkout import ROOT
from tests.examples.text_clients import ask_with_clients
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving

FOLDER: Final = "examples/graphs/judge"
#: Both models answer the first question in the same words, and the second one in different ones.
AGREED: Final = "Hello!"
DISPUTED: Final = "What is graphrt?"


@pytest.fixture(scope="module")
def server(child_program: None) -> Iterator[Serving]:
    with Serving(ROOT, FOLDER, calculators=()) as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    body = {"model": "judge", "messages": messages, "temperature": 0, "max_tokens": 40}
    with server.request("POST", "/v3/chat/completions", body) as response:
        assert response.status == 200
        answer: dict[str, Any] = json.loads(response.read())
        return answer


def test_the_commands_of_the_comment_work() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER} --port 8000\n" in text
    file = f"{FOLDER}/graph.pbtxt"
    done = graphrt("validate", file, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok (6 nodes)\n", "")


def test_all_clients_get_one_answer_whole_and_streamed(server: Serving) -> None:
    facts = ask_with_clients(f"http://127.0.0.1:{server.port}", "judge", DISPUTED)
    assert facts["chat"] == facts["chat stream"]
    assert facts["chat"][0]
    assert facts["responses"] == facts["responses stream"]
    assert facts["responses pieces"] == facts["responses"][0] == facts["chat"][0]
    assert facts["messages"] == facts["messages stream"]
    assert facts["messages pieces"] == facts["messages"][0] == facts["chat"][0]
    assert facts["completions"] == facts["completions stream"]
    assert facts["kserve"] == facts["kserve stream"]


def test_usage_counts_both_answers_and_the_verdict(server: Serving) -> None:
    agreed, disputed = chat(server, AGREED)["usage"], chat(server, DISPUTED)["usage"]
    # Both models have one tokenizer, and equal answers need no verdict.
    assert agreed["prompt_tokens"] % 2 == agreed["completion_tokens"] % 2 == 0
    assert disputed["prompt_tokens"] > 3 * agreed["prompt_tokens"]


def test_the_log_names_the_answer_that_was_chosen(server: Serving) -> None:
    chat(server, DISPUTED)
    server.wait_for("route='answer ")
