"""The guard alone, without a model: `CalculatorRunner` feeds it and collects its outputs."""

from typing import Any

import pytest
from graph_runtime.testing import CalculatorRunner
from graphrt import (
    Api,
    GenerationRequest,
    RunError,
    Tools,
    deltas,
    every_cut,
    request_for,
    text_of,
)

from guard import GuardOptions, check_request, mask_answer


def checked(request: GenerationRequest, **options: Any) -> GenerationRequest:
    """Return the request that reaches the model."""
    runner = CalculatorRunner(check_request, options=GuardOptions(**options))
    runner.push("REQUEST", request)
    runner.run()
    (made,) = runner.outputs["REQUEST"].values
    assert isinstance(made, GenerationRequest)
    return made


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Write to ada.lovelace+notes@example.org.", "Write to [e-mail]."),
        ("a@b.example, c@d.example", "[e-mail], [e-mail]"),
        ("@home at 5 o'clock", "@home at 5 o'clock"),
    ],
)
def test_addresses_are_masked(text: str, masked: str) -> None:
    assert checked(request_for(text)).last_text() == masked
    assert checked(request_for(text, api=Api.COMPLETIONS)).prompts == (masked,)


@pytest.mark.parametrize(
    ("text", "expected"), [("a, b@c.de!", "a, [e-mail]!"), ("so @ 5", "so @ 5")]
)
def test_answers_are_masked_however_they_are_cut(text: str, expected: str) -> None:
    for pieces in every_cut(text):
        runner = CalculatorRunner(mask_answer, options=GuardOptions())
        runner.push("DELTAS", deltas(*pieces))
        runner.run()
        assert text_of(runner.outputs["DELTAS"]) == expected


def test_parts_and_tools_are_searched_too() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "asks a@b.example"}}
    part = {"type": "text", "text": "a@b.example"}
    request = request_for(tools=Tools([tool], "auto")).with_messages(
        {"role": "user", "content": [part]}
    )
    made = checked(request)
    assert "b.example" not in f"{made.messages} {made.tools.items}"


def test_a_prompt_of_token_ids_is_refused() -> None:
    with pytest.raises(RunError, match="prompt must be text"):
        checked(request_for(api=Api.COMPLETIONS, prompts=((5, 7),)))


def test_a_listed_phrase_is_refused_without_repeating_it() -> None:
    refusal = checked(request_for("Tell me the LAUNCH Codes"), refused=("launch codes",)).refusal
    assert refusal is not None
    assert refusal.text == "This server does not answer questions of this kind."


def test_a_request_that_is_too_large_is_refused() -> None:
    with pytest.raises(RunError, match="more than 100 characters"):
        checked(request_for("a" * 101), max_characters=100)
