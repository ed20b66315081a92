"""Parsers and needs of a model, told from its template."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.llm.chat_template import ChatTemplate, TemplateAnalysis, analyze, analyze_source
from tests.calculators.llm.chat_template.model_directories import make_model

CALLS = "{% for m in messages %}{% for c in m.tool_calls %}CALL{% endfor %}{% endfor %}x"
HERMES = "{# <tool_call> </tool_call> #}"


@pytest.mark.parametrize(
    ("source", "tool_parser", "reasoning_parser"),
    [
        ("", None, None),
        ("<|channel|>", "gptoss", "gptoss"),
        ("<|start|><|message|><|eom|><|eot|>", "onyx", "onyx"),
        ("<|start|><|message|>", None, None),
        ("<|tool_call>call:", "gemma4", "gemma4"),
        ("<function=<parameter=</parameter>", "qwen3coder", None),
        ("<function=<parameter=</parameter></think>", "qwen3coder", "qwen3"),
        ('<param name="', "minicpm5", "minicpm5"),
        ("<|tool_call_start|>", "lfm2", None),
        ("keep_past_thinking message.thinking", "lfm2", "lfm2"),
        ("functools", "phi4", None),
        ("[TOOL_CALLS][ARGS]", "devstral", None),
        ("[TOOL_CALLS]", "mistral", None),
        ("[AVAILABLE_TOOLS][/AVAILABLE_TOOLS]", "mistral", None),
        ("<|python_tag|>", "llama3", None),
        ("<tool_call></tool_call>", "hermes3", None),
        ("<tool_call></tool_call>content.split('</think>')", "hermes3", "qwen3"),
        ("<think>", None, "qwen3"),
        ("</think>", None, None),
        ("<|channel|><tool_call></tool_call>", "gptoss", "gptoss"),
    ],
)
def test_markers(source: str, tool_parser: str | None, reasoning_parser: str | None) -> None:
    found = analyze_source(source)
    assert (found.tool_parser, found.reasoning_parser) == (tool_parser, reasoning_parser)
    assert found.supports_tool_calls is (tool_parser is not None)


def test_the_field_in_which_a_template_looks_for_reasoning() -> None:
    assert analyze_source("keep_past_thinking message.thinking").misnamed_reasoning_field == (
        "thinking"
    )
    assert analyze_source("keep_past_thinking").misnamed_reasoning_field == ""


@pytest.mark.parametrize(
    ("printed", "wants_objects"),
    [
        ("{{ c.function.arguments | tojson }}", True),
        (
            "{% if c.function.arguments is string %}{{ c.function.arguments }}"
            "{% else %}{{ c.function.arguments | tojson }}{% endif %}",
            True,
        ),
        ("{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}", True),
        ("{{ c.function.arguments }}", False),
        ("nothing", False),
        ("{{ raise_exception('no calls') }}", False),
    ],
)
def test_whether_a_template_wants_arguments_as_objects(printed: str, wants_objects: bool) -> None:
    template = ChatTemplate.of_source(HERMES + CALLS.replace("CALL", printed))
    found = analyze(template)
    assert found.requires_object_arguments is wants_objects
    assert found.supports_tool_calls


def test_a_template_that_dumps_messages_supports_no_calls() -> None:
    found = analyze(ChatTemplate.of_source(HERMES + "{{ messages | tojson }}"))
    assert found.tool_parser == "hermes3"
    assert not found.supports_tool_calls


def test_a_template_without_tool_calls_is_not_probed() -> None:
    assert analyze(ChatTemplate.of_source("{{ raise_exception('x') }}")) == TemplateAnalysis()


def test_a_template_of_its_own_for_tools_is_asked_where_the_main_one_knows_none(
    tmp_path: Path,
) -> None:
    calls = CALLS.replace("CALL", "{{ c.function.arguments | tojson }}")
    make_model(
        tmp_path,
        chat_template__jinja="plain <think>",
        additional_chat_templates___tool_use__jinja=HERMES + calls,
    )
    assert analyze(ChatTemplate.load(tmp_path)) == TemplateAnalysis(
        "hermes3", "qwen3", supports_tool_calls=True, requires_object_arguments=True
    )
