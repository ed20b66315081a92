"""Tools, calls and results in the prompts of templates that know no tools."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from calculators.llm.parsers.registry import tool_parser, tool_parser_names
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer, calls_of
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.parsers.said import parse

#: As SmolLM2's: every message with its role, and a system message where the chat has none.
CHATML: Final = (
    "{% for m in messages %}"
    "{% if loop.first and m.role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: As Gemma's: no system message, and two roles that take turns.
TURNS: Final = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must take turns') }}{% endif %}[{{ m.role }}] {{ m.content }}\n"
    "{% endfor %}"
)
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
LISTED: Final = (
    "These tools can be called, one JSON object per line:\n"
    f"<tools>\n{json.dumps(TOOL)}\n</tools>\n"
    "A call is written like this:\n"
)
USUAL: Final = '<tool_call>\n{"name": "NAME", "arguments": OBJECT}\n</tool_call>'
QUESTION: Final = {"role": "user", "content": "Paris?"}
CALLED: Final = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
        {"id": "2", "function": {"name": "weather", "arguments": '{"city": "Rom"}'}},
    ],
}
CALLS_TEXT: Final = "\n".join(
    f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
    for city in ("Paris", "Rom")
)
RESULTS: Final = [
    {"role": "tool", "tool_call_id": "1", "content": "rain {}"},
    {"role": "tool", "tool_call_id": "2", "content": "sun"},
]
RESULTS_TEXT: Final = (
    "<tool_response>\nrain {}\n</tool_response>\n<tool_response>\nsun\n</tool_response>"
)


def rendered(source: str, *messages: Any, tools: Any = (TOOL,), parser: str = "") -> str:
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    form = calls_of(parser or renderer.tool_parser)
    return renderer.render(messages, tools=list(tools), calls=form)


def test_tools_are_a_system_message() -> None:
    assert rendered(CHATML, QUESTION) == (
        f"<|im_start|>system\n{LISTED}{USUAL}<|im_end|>\n"
        "<|im_start|>user\nParis?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tools_stand_behind_the_system_message_of_the_chat() -> None:
    system = {"role": "system", "content": "Answer in French."}
    prompt = rendered(CHATML, system, QUESTION)
    assert prompt.startswith(f"<|im_start|>system\nAnswer in French.\n\n{LISTED}{USUAL}<|im_end|>")
    assert prompt.count("<|im_start|>system") == 1


def test_tools_stand_before_the_question_where_a_template_takes_no_system_message() -> None:
    assert rendered(TURNS, QUESTION) == f"[user] {LISTED}{USUAL}\n\nParis?\n"


def test_a_model_without_a_template_gets_them_before_its_prompt(tmp_path: Any) -> None:
    renderer = ChatRenderer(ChatTemplate.load(tmp_path))
    form = calls_of(renderer.tool_parser)
    prompt = renderer.render([QUESTION], tools=[TOOL], calls=form)
    assert prompt == f"{LISTED}{USUAL}\n\nParis?"


def test_calls_and_results_are_text() -> None:
    prompt = rendered(CHATML, QUESTION, CALLED, *RESULTS)
    assert f"<|im_start|>assistant\n{CALLS_TEXT}<|im_end|>\n" in prompt
    assert f"<|im_start|>user\n{RESULTS_TEXT}<|im_end|>\n" in prompt
    assert "<|im_start|>tool" not in prompt


def test_text_beside_calls_stays() -> None:
    prompt = rendered(CHATML, QUESTION, {**CALLED, "content": "A look."}, *RESULTS)
    assert f"assistant\nA look.\n{CALLS_TEXT}<|im_end|>" in prompt


def test_user_and_assistant_take_turns() -> None:
    thanks = {"role": "user", "content": "And now?"}
    prompt = rendered(TURNS, QUESTION, CALLED, *RESULTS, thanks)
    assert f"[assistant] {CALLS_TEXT}\n[user] {RESULTS_TEXT}\nAnd now?\n" in prompt


def test_calls_of_earlier_turns_are_text_also_when_no_tool_may_be_called() -> None:
    prompt = rendered(CHATML, QUESTION, CALLED, *RESULTS, tools=())
    assert CALLS_TEXT in prompt
    assert RESULTS_TEXT in prompt
    assert "<tools>" not in prompt


def test_a_developers_message_takes_the_tools() -> None:
    only_system = CHATML.replace(
        "{% for m in messages %}",
        "{% for m in messages if m.role in ['system', 'user', 'assistant'] %}",
    )
    prompt = rendered(only_system, {"role": "developer", "content": "Be brief."}, QUESTION)
    assert prompt.startswith(f"<|im_start|>system\nBe brief.\n\n{LISTED}")


def test_an_error_names_the_message_of_the_request() -> None:
    known = CHATML.replace(
        "{% for m in messages %}", "{% for m in messages if m.role != 'critic' %}"
    )
    with pytest.raises(ChatTemplateError) as raised:
        rendered(known, QUESTION, *RESULTS, {"role": "critic", "content": "No."})
    assert raised.value.param == "messages[3].role"


@pytest.mark.parametrize("name", tool_parser_names())
def test_calls_are_written_as_the_parser_reads_them(name: str) -> None:
    arguments = {"city": "Paris", "days": 3, "hours": [6, 18], "exact": True}
    calls = [
        {"function": {"name": "weather", "arguments": json.dumps(arguments)}},
        {"function": {"name": "time", "arguments": {}}},
    ]
    form = tool_parser(name).calls
    assert form is not None
    asked = {"role": "assistant", "content": "", "tool_calls": calls[: 1 if form.only_one else 2]}
    text = rendered("{{ messages[0].content }}", asked, tools=(), parser=name)
    schemas = {"weather": {"properties": {"city": {"type": "string"}}}, "time": {}}
    found = [(each, json.loads(said)) for each, said in parse(text, name, tools=schemas).calls]
    assert found == [("weather", arguments), ("time", {})][: len(asked["tool_calls"])]


@pytest.mark.parametrize(
    "shown", ["{{ tools | tojson }}", "{% for t in tools %}{{ t.function.name }}{% endfor %}"]
)
def test_a_template_that_shows_tools_gets_them_as_they_are(shown: str) -> None:
    source = f"{{% if tools %}}{shown}{{% endif %}}|{CHATML}"
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    assert renderer.knows_tools
    assert renderer.tool_parser == ""
    prompt = renderer.render([QUESTION], tools=[TOOL], calls=calls_of("hermes3"))
    assert "weather" in prompt.partition("|")[0]
    assert "<tools>" not in prompt


#: As LFM2's: shows tools and results, and of a turn only its text.
CALLS_HIDDEN: Final = (
    "{% if tools %}List of tools: <|tool_list_start|>{{ tools | tojson }}<|tool_list_end|>"
    "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}<|im_end|>\n"
    "{% endfor %}"
)


def test_calls_are_text_where_a_template_shows_tools_and_no_calls() -> None:
    shown = rendered(CALLS_HIDDEN, QUESTION, CALLED, *RESULTS, parser="lfm2")
    call = "weather(city='{}')"
    written = f"[{call.format('Paris')}, {call.format('Rom')}]".replace("'", '"')
    assert (
        f"<|im_start|>assistant\n<|tool_call_start|>{written}<|tool_call_end|><|im_end|>" in shown
    )
    assert "<|im_start|>tool\nrain {}<|im_end|>" in shown
    cut = {**CALLED, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a'}}]}
    assert "[f()]" in rendered(CALLS_HIDDEN, QUESTION, cut, parser="lfm2")


def test_calls_are_text_where_a_template_shows_them_only_without_text() -> None:
    source = (
        "{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>"
        "{% if m.content %}{{ m.content }}{% elif m.tool_calls %}{% for c in m.tool_calls %}"
        "<call>{{ c.function.name }} {{ c.function.arguments }}</call>{% endfor %}{% endif %}"
        "{% endfor %}"
    )
    said = {**CALLED, "content": "I look."}
    assert "<call>weather" in rendered(source, QUESTION, CALLED, *RESULTS, parser="hermes")
    shown = rendered(source, QUESTION, said, *RESULTS, parser="hermes")
    assert f"<assistant>I look.\n{CALLS_TEXT}" in shown


def test_nothing_is_written_for_a_model_without_a_parser() -> None:
    assert rendered(CHATML, QUESTION, parser="none") == rendered(CHATML, QUESTION, tools=())
    assert not ChatRenderer(ChatTemplate.of_source(CHATML)).knows_tools


#: As Granite 3.0's, which has roles of its own for calls and results.
TOOLS_ONLY: Final = (
    "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}"
    "{% if m.role in ('system', 'user', 'assistant') %}[{{ m.role }}] {{ m.content }}\n"
    "{% elif m.role == 'tool_response' %}[result] {{ m.content }}\n{% endif %}{% endfor %}"
)
NO_RESULTS: Final = TOOLS_ONLY.replace(
    "{% elif", "{% elif m.role == 'tool' %}{{ raise_exception('no tool') }}{% elif"
)
SHOWN_CALLS: Final = TOOLS_ONLY.replace(
    "{{ m.content }}\n{% elif",
    "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}"
    "</tool_call>{% endfor %}\n{% elif",
)


@pytest.mark.parametrize("source", [TOOLS_ONLY, NO_RESULTS])
def test_results_that_a_template_does_not_show_are_the_users(source: str) -> None:
    more = {"role": "user", "content": "And now?"}
    prompt = rendered(source, QUESTION, CALLED, *RESULTS, more, parser="hermes")
    assert prompt == (
        f"{json.dumps([TOOL])}\n[user] Paris?\n[assistant] {CALLS_TEXT}\n"
        f"[user] {RESULTS_TEXT}\nAnd now?\n"
    )


def test_calls_that_a_template_shows_stay_where_it_shows_no_results() -> None:
    prompt = rendered(SHOWN_CALLS, QUESTION, CALLED, *RESULTS)
    assert prompt.count("<tool_call>") == prompt.count('"city"') == 2
    assert prompt.rstrip().endswith(f"[user] {RESULTS_TEXT}")


def test_the_example_models_template_writes_the_same() -> None:
    chat: list[Any] = [{"role": "system", "content": "Be kind."}, QUESTION, CALLED, *RESULTS]
    own = ChatRenderer(ChatTemplate.load(DEMO)).render(chat, tools=[TOOL])
    # Its example of a call has no quotation marks around the name.
    assert rendered(CHATML, *chat).replace('"NAME"', "NAME") == own
