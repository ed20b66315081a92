"""`examples/graphs/moderation`, served: each client gets refusals in the form of its API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.examples.text_clients import ask_several
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/moderation"
NO = "I do not answer this."
STOPPED = "I cannot help with that."
FRANCE = "What is the capital of France?"
ITALY = "What is the capital of Italy?"

Facts = dict[tuple[str, str], Any]


#: One guard behind the model, which judges the request while the model reads it; by rules only.
BESIDE = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "REQUEST:request"
}
node {
  name: "LLMExecutor"
  calculator: "LLMCalculator"
  input_stream: "REQUEST:request"
  input_stream: "LOOPBACK:loopback"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  output_stream: "LOOPBACK:loopback"
  output_stream: "DELTAS:raw"
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "%s" }
  }
}
node {
  name: "guard"
  calculator: "ModerationCalculator"
  input_stream: "REQUEST:request"
  input_stream: "DELTAS:raw"
  output_stream: "DELTAS:judged"
  node_options {
    [type.googleapis.com/graphrt.ModerationOptions] {
      words: "idiot"
      words: "Paris"
      refusal: "I do not answer this."
      as: ERROR
    }
  }
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:judged"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


@pytest.fixture(scope="module")
def server(child_program: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("moderation")
    (folder / "strict").mkdir()
    text = BESIDE % (ROOT / "examples" / "models" / "demo")
    (folder / "strict" / "graph.pbtxt").write_text(text, encoding="utf-8")
    graphs = [
        {"name": "moderation", "base_path": str(ROOT / FOLDER)},
        {"name": "strict", "base_path": "strict"},
    ]
    config = {"model_config_list": [], "mediapipe_config_list": graphs}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with Serving(folder, "config.json", calculators=()) as serving:
        yield serving.wait_until_serving()


@pytest.fixture(scope="module")
def facts(server: Serving) -> Facts:
    """Answers that all clients saw, by model and question."""
    questions = [
        ("moderation", "You are an idiot"),
        ("moderation", "Tell me about project bluebird"),
        ("moderation", FRANCE),
        ("moderation", ITALY),
        ("strict", FRANCE),
    ]
    answers = ask_several(f"http://127.0.0.1:{server.port}", *questions)
    return dict(zip(questions, answers, strict=True))


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
def test_a_request_is_refused_by_classifier_and_by_rule(facts: Facts, text: str) -> None:
    seen = facts["moderation", text]
    assert seen["chat"] == seen["chat stream"] == ["", NO, "content_filter"]
    response = ["", [NO], "incomplete", "content_filter"]
    assert seen["responses"] == seen["responses stream"] == response
    assert seen["messages"] == seen["messages stream"] == ["", "refusal", NO]
    assert seen["completions"] == seen["completions stream"] == ["", "content_filter"]
    assert seen["kserve"] == seen["kserve stream"] == ""


def test_an_answer_with_a_word_of_the_rules_is_refused(facts: Facts) -> None:
    seen = facts["moderation", FRANCE]
    # The text before the word was still waiting for the classifier.
    assert seen["chat"] == seen["chat stream"] == ["", STOPPED, "content_filter"]
    assert seen["messages"] == seen["messages stream"] == ["", "refusal", STOPPED]
    assert "Paris" not in json.dumps(seen)


def test_other_answers_are_whole(facts: Facts) -> None:
    seen = facts["moderation", ITALY]
    answer = "The capital of Italy is Rome."
    assert seen["chat"] == seen["chat stream"] == [answer, None, "stop"]
    assert seen["responses"] == seen["responses stream"] == [answer, [], "completed", None]
    assert seen["messages"] == seen["messages stream"] == [answer, "end_turn", None]
    assert seen["responses pieces"] == seen["messages pieces"] == answer


def test_an_answer_that_is_refused_in_mid_stream_has_the_text_so_far(facts: Facts) -> None:
    seen = facts["strict", FRANCE]
    shown = "The capital of France is "
    for way in ("chat", "chat stream"):
        assert seen[way][::2] == [shown, "content_filter"]
    for way in ("responses", "responses stream"):
        assert seen[way][0] == shown
        assert seen[way][2:] == ["incomplete", "content_filter"]
    for way in ("messages", "messages stream"):
        assert seen[way][:2] == [shown, "refusal"]
    assert seen["responses pieces"] == seen["messages pieces"] == shown


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
