"""`GenerationRequest.map_text`: every text that a model reads is changed, and nothing else."""

from __future__ import annotations

import pytest

from calculators.language import Api, GenerationRequest, Refusal, Tools, request_for
from calculators.language.generation_request import TEXT_KINDS, TextKind
from calculators.language.mistakes import AuthorMistake
from calculators.language.redaction.redact_calculator import RedactCalculator
from graph_runtime import GraphConfigError, RunError
from graph_runtime.testing import CalculatorRunner
from protos import messages

PICTURE = {"type": "image_url", "image_url": {"url": "data:a"}}
TOOL = {
    "type": "function",
    "function": {
        "name": "a",
        "description": "an a",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string", "description": "a"}},
        },
    },
}


def conversation() -> GenerationRequest:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "a", "arguments": '{"a": ["a", 1]}'}},
        {"id": "a", "type": "function", "function": {"name": "a", "arguments": {"b": "a"}}},
        {"id": "a", "type": "function", "function": {"name": "a", "arguments": "{a"}},
    ]
    return request_for(tools=Tools([TOOL], "auto")).with_messages(
        {"role": "system", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b a"}, PICTURE]},
        {"role": "assistant", "content": "", "reasoning_content": "a", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "a"},
    )


def test_every_text_that_a_model_reads_is_changed() -> None:
    made = conversation().map_text(lambda text: text.replace("a", "X"))
    system, user, assistant, tool = made.messages
    assert system == {"role": "system", "content": "X"}
    assert user["content"] == [{"type": "text", "text": "b X"}, PICTURE]
    assert assistant["reasoning_content"] == "X"
    arguments = [each["function"]["arguments"] for each in assistant["tool_calls"]]
    assert arguments == ['{"a": ["X", 1]}', {"b": "X"}, "{X"]
    assert {each["function"]["name"] for each in assistant["tool_calls"]} == {"a"}
    assert tool == {"role": "tool", "tool_call_id": "a", "content": "X"}
    function = made.tools.items[0]["function"]
    assert (function["name"], function["description"]) == ("a", "Xn X")
    assert function["parameters"]["properties"] == {"a": {"type": "string", "description": "X"}}


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_a_kind_alone_is_changed(kind: TextKind) -> None:
    asked = conversation()
    made = asked.map_text(str.upper, (kind,))
    changed = {
        "content": made.messages[0] != asked.messages[0],
        "reasoning": made.messages[2]["reasoning_content"] == "A",
        "arguments": made.messages[2]["tool_calls"] != asked.messages[2]["tool_calls"],
        "tools": made.tools.items != asked.tools.items,
    }
    assert changed == {name: name == kind for name in TEXT_KINDS}


def test_prompts_are_texts_unless_they_are_token_ids() -> None:
    asked = request_for(api=Api.COMPLETIONS, prompts=("a", (1, 2)))
    assert asked.map_text(str.upper).prompts == ("A", (1, 2))


def test_a_function_that_returns_no_text_is_named() -> None:
    def forgot(text: str) -> str:
        return None  # type: ignore[return-value]

    with pytest.raises(AuthorMistake, match=r"forgot \(.*requests.py:\d+\) returned None, no text"):
        request_for("a").map_text(forgot)


def test_a_tool_of_a_request_cannot_be_changed_in_place() -> None:
    items = conversation().tools.items
    for change in (
        lambda: items.append({}),
        lambda: items[0].clear(),
        lambda: items[0]["function"].update(name="b"),
        lambda: items[0]["function"]["parameters"]["properties"].pop("a"),
    ):
        with pytest.raises(AuthorMistake, match="cannot be changed in place"):
            change()
    with pytest.raises(AuthorMistake, match=r"items of Tools has a str: Tools\(items="):
        Tools(["a"], "auto")  # type: ignore[list-item]


def redacted(request: GenerationRequest, **options: object) -> GenerationRequest:
    made = messages.RedactOptions(words=["secret"], **options)  # type: ignore[arg-type]
    runner = CalculatorRunner(RedactCalculator, options=made)
    runner.push("REQUEST", request)
    runner.run()
    (value,) = runner.outputs["REQUEST"].values
    assert isinstance(value, GenerationRequest)
    return value


@pytest.mark.parametrize("length", [1, 300_000])
def test_requests_are_redacted_before_a_model_reads_them(length: int) -> None:
    request = request_for("x" * length + " my secret")
    assert redacted(request).last_text().endswith("x my ***")
    asked = conversation().map_text(lambda text: f"{text} secret")
    assert "secret" not in f"{redacted(asked).messages} {redacted(asked).tools.items}"
    kept = redacted(asked, channels=[messages.RedactOptions.REASONING])
    assert kept.messages[2]["reasoning_content"] == "a ***"
    assert kept.messages[0]["content"] == "a secret"


def test_a_refused_request_passes_and_one_of_token_ids_is_refused() -> None:
    request = request_for("my secret").refused(Refusal("no"))
    assert redacted(request) is request
    with pytest.raises(RunError, match="prompts of token ids are not accepted"):
        redacted(request_for(api=Api.COMPLETIONS, prompts=((1, 2),)))


def test_the_ends_of_a_redaction_are_of_one_kind() -> None:
    node = 'calculator: "RedactCalculator" input_stream: "REQUEST:a" output_stream: "DELTAS:b"'
    with pytest.raises(GraphConfigError, match="REQUEST in and out for requests"):
        CalculatorRunner(node, options=messages.RedactOptions(words=["a"])).run()
