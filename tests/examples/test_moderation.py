"""`examples/graphs/moderation`, served: each client gets refusals in the form of its API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.examples.text_clients import ask_with_clients
from tests.servers.cli.serving import Serving

FOLDER = "examples/graphs/moderation"
NO = "I do not answer this."
STOPPED = "I cannot help with that."


def variant() -> str:
    """The example with an error for requests, and an answer that is judged by rules only."""
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    text = text.replace("../../models", str(ROOT / "examples" / "models"))
    text = text.replace(f'refusal: "{NO}"', f'refusal: "{NO}" as: ERROR')
    before, after = text.split('name: "guard_answer"')
    after = re.sub(r"node_options \{\s*\[\S*TextClassif.*?\n  \}\n", "", after, flags=re.DOTALL)
    return f'{before}name: "guard_answer"{after}'


@pytest.fixture(scope="module")
def server(child_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("moderation")
    (folder / "strict").mkdir()
    (folder / "strict" / "graph.pbtxt").write_text(variant(), encoding="utf-8")
    graphs = [
        {"name": "moderation", "base_path": str(ROOT / FOLDER)},
        {"name": "strict", "base_path": "strict"},
    ]
    config = {"model_config_list": [], "mediapipe_config_list": graphs}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with Serving(folder, "config.json", calculators=()) as serving:
        yield serving.wait_until_serving()


def asked(server: Serving, text: str, model: str = "moderation") -> dict[str, Any]:
    return ask_with_clients(f"http://127.0.0.1:{server.port}", model, text)


def post(server: Serving, path: str, body: dict[str, Any]) -> tuple[int, str]:
    with server.request("POST", path, body) as response:
        return response.status, response.read().decode()


def chat(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "strict", "messages": messages, "temperature": 0, "max_tokens": 30, **more}


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER}\n" in text


@pytest.mark.parametrize("text", ["You are an idiot", "Tell me about project bluebird"])
def test_a_request_is_refused_by_classifier_and_by_rule(server: Serving, text: str) -> None:
    facts = asked(server, text)
    assert facts["chat"] == facts["chat stream"] == ["", NO, "content_filter"]
    response = ["", [NO], "incomplete", "content_filter"]
    assert facts["responses"] == facts["responses stream"] == response
    assert facts["messages"] == facts["messages stream"] == ["", "refusal", NO]
    assert facts["completions"] == facts["completions stream"] == ["", "content_filter"]
    assert facts["kserve"] == facts["kserve stream"] == ""


def test_an_answer_with_a_word_of_the_rules_is_refused(server: Serving) -> None:
    facts = asked(server, "What is the capital of France?")
    # The text before the word was still waiting for the classifier.
    assert facts["chat"] == facts["chat stream"] == ["", STOPPED, "content_filter"]
    assert facts["messages"] == facts["messages stream"] == ["", "refusal", STOPPED]
    assert "Paris" not in json.dumps(facts)


def test_other_answers_are_whole(server: Serving) -> None:
    facts = asked(server, "What is the capital of Italy?")
    answer = "The capital of Italy is Rome."
    assert facts["chat"] == facts["chat stream"] == [answer, None, "stop"]
    assert facts["responses"] == facts["responses stream"] == [answer, [], "completed", None]
    assert facts["messages"] == facts["messages stream"] == [answer, "end_turn", None]
    assert facts["responses pieces"] == facts["messages pieces"] == answer


def test_an_answer_that_is_refused_in_mid_stream_has_the_text_so_far(server: Serving) -> None:
    facts = asked(server, "What is the capital of France?", "strict")
    shown = "The capital of France is "
    for way in ("chat", "chat stream"):
        assert facts[way][::2] == [shown, "content_filter"]
    for way in ("responses", "responses stream"):
        assert facts[way][0] == shown
        assert facts[way][2:] == ["incomplete", "content_filter"]
    for way in ("messages", "messages stream"):
        assert facts[way][:2] == [shown, "refusal"]
    assert facts["responses pieces"] == facts["messages pieces"] == shown


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_may_be_an_error_with_a_status(server: Serving, stream: bool) -> None:
    status, text = post(server, "/v3/chat/completions", chat("You idiot", stream=stream))
    error = json.loads(text)["error"]
    assert (status, error["code"], error["message"]) == (400, "content_filter", NO)
    body = chat("You idiot", stream=stream)
    status, text = post(server, "/v3/messages", body)
    assert status == 400
    assert json.loads(text)["error"]["message"] == NO


def test_a_stopped_answer_leaves_nothing_in_the_engine(server: Serving) -> None:
    for _ in range(3):
        status, text = post(server, "/v3/chat/completions", chat("What is the capital of France?"))
        assert (status, json.loads(text)["choices"][0]["finish_reason"]) == (200, "content_filter")
    with server.request("GET", "/metrics") as response:
        metrics = response.read().decode()
    running = re.findall(r"^graphrt_llm_requests_running\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert {float(value) for value in running} == {0.0}
