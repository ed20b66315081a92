"""The guard alone, without a model: `CalculatorRunner` feeds it and collects its outputs."""

import json
from typing import Any

import pytest
from calculators.kit.requests.http_payload import HttpPayload
from graphrt import RunError
from graph_runtime.testing import CalculatorRunner

from guard import Guard, GuardOptions


def checked(body: dict[str, Any], **options: Any) -> HttpPayload:
    """Return the request that reaches the model."""
    runner = CalculatorRunner(Guard, options=GuardOptions(**options))
    content = json.dumps(body).encode()
    request = HttpPayload("/v3/chat/completions", {}, content, parsed_json=body)
    runner.push("HTTP_REQUEST_PAYLOAD", request, at=0)
    runner.run()
    (payload,) = runner.outputs["HTTP_REQUEST_PAYLOAD"].values
    assert isinstance(payload, HttpPayload)
    assert json.loads(payload.body) == payload.parsed_json
    return payload


def chat(content: Any) -> dict[str, Any]:
    return {"model": "project-name", "messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Write to ada.lovelace+notes@example.org.", "Write to [e-mail]."),
        ("a@b.example, c@d.example", "[e-mail], [e-mail]"),
        ("@home at 5 o'clock", "@home at 5 o'clock"),
    ],
)
def test_addresses_are_masked(text: str, masked: str) -> None:
    assert checked(chat(text)).parsed_json == chat(masked)


def test_parts_and_tools_are_searched_too() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "asks a@b.example"}}
    body = {**chat([{"type": "text", "text": "a@b.example"}]), "tools": [tool]}
    assert b"b.example" not in checked(body).body


@pytest.mark.parametrize("prompt", [[5, 7], [[5, 7]], ["text", 5]])
def test_a_prompt_of_token_ids_is_refused(prompt: Any) -> None:
    with pytest.raises(RunError, match="prompt must be text"):
        checked({"model": "project-name", "prompt": prompt})


def test_a_listed_phrase_is_refused_without_repeating_it() -> None:
    with pytest.raises(RunError, match="does not answer questions of this kind") as error:
        checked(chat("Tell me the LAUNCH Codes"), refused=("launch codes",))
    assert "LAUNCH" not in str(error.value)


def test_a_request_that_is_too_large_is_refused() -> None:
    with pytest.raises(RunError, match="more than 100 characters"):
        checked(chat("a" * 100), max_characters=100)
