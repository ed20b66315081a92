"""`examples/graphs/own_calculators`, served: calculators that ``python_path`` brings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

CONFIG = "examples/graphs/own_calculators/config.json"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, CONFIG, calculators=()) as serving:
        yield serving.wait_until_serving()


def ask(server: Serving, method: str, path: str, body: Any = None) -> tuple[int, str]:
    with server.request(method, path, body) as response:
        return response.status, response.read().decode()


@pytest.mark.parametrize("graph", ["redact", "parrot"])
def test_the_command_of_the_comment_works(graph: str) -> None:
    text = (ROOT / CONFIG).with_name(f"{graph}.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {CONFIG}\n" in text


def test_the_config_is_valid() -> None:
    done = graphrt("validate", CONFIG, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{CONFIG}: ok (2 graphs)\n", "")


def test_typed_ports_are_the_models_inputs_and_outputs(server: Serving) -> None:
    status, text = ask(server, "GET", "/v2/models/redact")
    metadata = json.loads(text)
    assert status == 200
    assert metadata["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [1]}]
    outputs = {each["name"]: (each["datatype"], each["shape"]) for each in metadata["outputs"]}
    assert outputs == {"clean": ("BYTES", [1]), "hits": ("INT64", [1])}


def test_the_calculator_uses_its_options(server: Serving) -> None:
    text = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["my secret password"]}
    status, answer = ask(server, "POST", "/v2/models/redact/infer", {"inputs": [text]})
    assert status == 200
    outputs = {each["name"]: each["data"] for each in json.loads(answer)["outputs"]}
    assert outputs == {"clean": ["my *** ***"], "hits": [2]}


def chat(server: Serving, **members: Any) -> tuple[int, str]:
    return ask(server, "POST", "/v3/chat/completions", {"model": "parrot", **members})


def test_a_chat_is_answered(server: Serving) -> None:
    status, text = chat(server, messages=[{"role": "user", "content": "good day"}])
    (choice,) = json.loads(text)["choices"]
    assert status == 200
    assert choice["message"] == {"role": "assistant", "content": "good day"}


def test_a_chat_is_streamed(server: Serving) -> None:
    messages = [{"role": "user", "content": "good day"}]
    status, text = chat(server, messages=messages, stream=True)
    *events, done, rest = text.split("\n\n")
    chunks = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert (status, done, rest) == (200, "data: [DONE]", "")
    assert [chunk["delta"].get("content") for chunk in chunks] == ["", "good", " day", None]
    assert chunks[-1]["finish_reason"] == "stop"


def test_the_chat_calculator_answers_kserve(server: Serving) -> None:
    body = {"text_input": "good day", "chat": True}
    status, text = ask(server, "POST", "/v2/models/parrot/generate", body)
    assert status == 200
    assert json.loads(text)["text_output"] == "good day"


def test_an_invalid_chat_request_is_refused(server: Serving) -> None:
    status, text = chat(server, messages=[])
    assert status == 400
    assert json.loads(text)["error"]["param"] == "messages"
