"""A language model through KServe's REST: inference, ``generate`` and ``generate_stream``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.process.http_client import COMPLETIONS, HttpClient

MODEL = "/v2/models/demo"
PROMPT = "The cat"
GREEDY = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """The answer of the first test that asked."""
    return []


def text_of(client: HttpClient, expected: list[str]) -> str:
    """Return the answer of ``/v3/completions`` to the same prompt."""
    if not expected:
        reply = client.post(COMPLETIONS, prompt=PROMPT, **GREEDY)
        expected.append(reply.json["choices"][0]["text"])
    return expected[0]


def events(body: bytes) -> list[dict[str, Any]]:
    *found, rest = body.decode().split("\n\n")
    assert rest == ""
    return [json.loads(event.removeprefix("data: ")) for event in found]


def test_the_metadata_names_text_in_and_out(client: HttpClient) -> None:
    metadata = client.get(MODEL).json
    assert {"name": "text_input", "datatype": "BYTES", "shape": [1]} in metadata["inputs"]
    assert {"name": "text_output", "datatype": "BYTES", "shape": [-1]} in metadata["outputs"]


@pytest.mark.parametrize("inside", [True, False])
def test_generate_answers_with_the_text(
    client: HttpClient, expected: list[str], inside: bool
) -> None:
    body = {"text_input": PROMPT, **({"parameters": GREEDY} if inside else GREEDY)}
    reply = client.ask("POST", f"{MODEL}/generate", body)
    assert reply.status == 200
    text = PROMPT + text_of(client, expected)
    assert reply.json == {"model_name": "demo", "model_version": "1", "text_output": text}


def test_generate_stream_answers_piece_by_piece(client: HttpClient, expected: list[str]) -> None:
    body = {"text_input": PROMPT, "stream": True, "return_finish_reason": True, **GREEDY}
    reply = client.ask("POST", f"{MODEL}/generate_stream", body)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    found = events(reply.body)
    assert len(found) >= 3  # its first token, its last ones, and the end
    assert "".join(event["text_output"] for event in found) == text_of(client, expected)
    assert [event["finish_reason"] for event in found] == ["None"] * (len(found) - 1) + ["length"]


def test_infer_answers_with_the_text(client: HttpClient, expected: list[str]) -> None:
    def tensor(name: str, datatype: str, value: object) -> dict[str, Any]:
        return {"name": name, "datatype": datatype, "shape": [1, 1], "data": [value]}

    body = {
        "id": "7",
        "inputs": [
            tensor("text_input", "BYTES", PROMPT),
            tensor("max_tokens", "INT32", 12),
            tensor("temperature", "FP32", 0),
            tensor("exclude_input_in_output", "BOOL", True),
        ],
    }
    reply = client.ask("POST", f"{MODEL}/infer", body)
    assert reply.status == 200
    assert reply.json["id"] == "7"
    (output,) = reply.json["outputs"]
    assert (output["name"], output["shape"]) == ("text_output", [1])
    assert output["data"] == [text_of(client, expected)]


@pytest.mark.parametrize("path", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, 'the input "text_input" is missing'),
        ({"text_input": ""}, '"text_input": the prompt is empty'),
        ({"text_input": "x", "top_p": 3}, '"top_p": 3.0 is above the maximum 1'),
        ({"text_input": "x", "parameters": {"logit_bias": 1}}, "parameters.logit_bias: "),
        ({"text_input": "x", "bad_words": ["y"]}, '"bad_words": the member is not supported'),
    ],
)
def test_wrong_requests_are_refused(
    client: HttpClient, path: str, members: dict[str, Any], reason: str
) -> None:
    reply = client.ask("POST", f"{MODEL}/{path}", members)
    assert reply.status == 400
    assert reason in reply.json["error"]
