"""Parsers and requirements of a model, derived from its template."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze, analyze_source
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from tests.calculators.llm.prompt.chat_template.families.oracle import FAMILIES
from tests.calculators.llm.prompt.chat_template.model_directories import make_model

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
        ("<|tool_list_start|>", "lfm2", None),
        ('<|eot_id|>"parameters": ', "llama3", None),
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
def test_markers_in_the_template_choose_the_parsers(
    source: str, tool_parser: str | None, reasoning_parser: str | None
) -> None:
    found = analyze_source(source)
    assert (found.tool_parser, found.reasoning_parser) == (tool_parser, reasoning_parser)
    assert found.supports_tool_calls is (tool_parser is not None)


def test_the_field_that_a_template_reads_reasoning_from_is_found() -> None:
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
def test_templates_that_need_arguments_as_objects_are_found(
    printed: str, wants_objects: bool
) -> None:
    template = ChatTemplate.of_source(HERMES + CALLS.replace("CALL", printed))
    found = analyze(template)
    assert found.requires_object_arguments is wants_objects
    assert found.supports_tool_calls


def test_a_template_that_dumps_messages_supports_no_calls() -> None:
    found = analyze(ChatTemplate.of_source(HERMES + "{{ messages | tojson }}"))
    assert found.tool_parser == "hermes3"
    assert not found.supports_tool_calls


def test_a_template_that_refuses_everything_is_analysed() -> None:
    source = "{{ raise_exception(messages[0].tool_calls) }}"
    assert analyze(ChatTemplate.of_source(source)) == TemplateAnalysis()


NATIVE = "{{ c.function.arguments | tojson }}"


@pytest.mark.parametrize(
    "demand",
    [
        "tools is none",
        "messages[-1].role not in ['user', 'tool']",
        "messages[-1].role != 'user'",
        "messages[0].role != 'system'",
    ],
)
def test_a_template_may_refuse_the_first_chat_of_the_probe(demand: str) -> None:
    refusal = f"{{% if {demand} %}}{{{{ raise_exception('no!') }}}}{{% endif %}}"
    template = ChatTemplate.of_source(HERMES + refusal + CALLS.replace("CALL", NATIVE))
    assert analyze(template).requires_object_arguments


def test_a_template_may_show_calls_only_beside_tools() -> None:
    calls = "{% if tools %}" + CALLS.replace("CALL", NATIVE) + "{% endif %}x"
    assert analyze(ChatTemplate.of_source(HERMES + calls)).requires_object_arguments


@pytest.mark.parametrize(
    ("printed", "wants_objects"),
    [
        # In a syntax of its own, which OpenVINO Model Server does not look for; text fails.
        ("{% for k, v in c.function.arguments.items() %}<k>{{ k }}</k>{% endfor %}", True),
        ("<k>{{ c.function.arguments | string }}</k>", False),
    ],
)
def test_arguments_may_be_in_an_unknown_syntax(printed: str, wants_objects: bool) -> None:
    found = analyze(ChatTemplate.of_source(HERMES + CALLS.replace("CALL", printed)))
    assert found.requires_object_arguments is wants_objects


@pytest.mark.parametrize(
    ("printed", "wants_objects"),
    [
        (NATIVE, True),
        ("{{ '' ~ c.function.arguments }}", False),
        ("{{ '' + c.function.arguments }}", False),
        (
            "{{ c.function.arguments if c.function.arguments is string"
            " else c.function.arguments | tojson }}",
            False,  # text works as well, and OpenVINO Model Server keeps text
        ),
    ],
)
def test_a_template_of_no_known_family_has_no_parsers(printed: str, wants_objects: bool) -> None:
    found = analyze(ChatTemplate.of_source(CALLS.replace("CALL", printed)))
    assert found == TemplateAnalysis(requires_object_arguments=wants_objects)


@pytest.mark.parametrize(
    ("printed", "field"),
    [
        ("{{ m.thinking }}", "thinking"),
        ("{{ m.reasoning_content }}", ""),
        ("{{ m.thinking or m.reasoning_content }}", ""),
        ("{% if thinking %}{{ m.content }}{% endif %}", ""),
        ("{% if m.tool_calls %}{{ m.thinking }}{% endif %}", "thinking"),
    ],
)
@pytest.mark.parametrize("markers", ["", HERMES, "{# <|tool_call_start|> #}"])
def test_the_field_of_reasoning_is_probed(markers: str, printed: str, field: str) -> None:
    source = markers + "{% for m in messages %}x" + printed + "{% endfor %}"
    assert analyze(ChatTemplate.of_source(source)).misnamed_reasoning_field == field


def _calls(
    tool: str, reasoning: str | None = None, *, objects: bool = True, **others: object
) -> dict[str, object]:
    return {
        "tool_parser": tool,
        "reasoning_parser": reasoning,
        "supports_tool_calls": True,
        "requires_object_arguments": objects,
        **others,
    }


OF_FAMILIES: dict[str, dict[str, object]] = {
    "chatml": {},
    "command_r7b": {"requires_object_arguments": True},
    "deepseek_v3": {"reasoning_parser": "qwen3"},
    "devstral": _calls("devstral"),
    "gemma3": {},
    "gemma4": _calls("gemma4", "gemma4"),
    "glm4": {**_calls("hermes3", "qwen3"), "tool_parser": None},  # has a form of its own
    "gpt_oss": _calls(
        "gptoss", "gptoss", misnamed_reasoning_field="thinking", reasoning_excludes_content=True
    ),
    "granite": _calls("hermes3", "qwen3"),
    "hermes3": _calls("hermes3"),
    "kimi_k2": {},
    "lfm2": _calls("lfm2", "lfm2", misnamed_reasoning_field="thinking"),
    "llama2": {},
    "llama3": _calls("llama3"),
    "minicpm5": _calls("minicpm5", "minicpm5"),
    "minimax_m2": {"reasoning_parser": "qwen3", "requires_object_arguments": True},
    "mistral": _calls("mistral"),
    "onyx": _calls("onyx", "onyx"),
    "phi4_mini": _calls("phi4", objects=False),
    "qwen3": _calls("hermes3", "qwen3"),
    "qwen3_coder": _calls("qwen3coder"),
    "smollm3": _calls("hermes3", "qwen3", objects=False),  # shows no calls of earlier turns
}

#: They walk through the arguments.
TAKE_NO_BROKEN_ARGUMENTS = {"glm4", "lfm2", "minimax_m2", "onyx", "qwen3_coder"}


@pytest.mark.parametrize("family", FAMILIES)
def test_templates_of_known_models_are_recognised(family: str) -> None:
    found = analyze(ChatTemplate.of_source(FAMILIES[family], bos_token="<s>", eos_token="</s>"))
    assert found.takes_broken_arguments is (family not in TAKE_NO_BROKEN_ARGUMENTS)
    found = replace(found, takes_broken_arguments=True)
    assert found == TemplateAnalysis(**OF_FAMILIES[family])  # type: ignore[arg-type]


def test_the_template_for_tools_is_analysed_where_the_main_one_knows_none(
    tmp_path: Path,
) -> None:
    calls = CALLS.replace("CALL", KNOWN["hermes3"])
    make_model(
        tmp_path,
        chat_template__jinja="plain <think>",
        additional_chat_templates___tool_use__jinja=HERMES + calls,
    )
    assert analyze(ChatTemplate.load(tmp_path)) == TemplateAnalysis(
        "hermes3", "qwen3", supports_tool_calls=True, requires_object_arguments=True
    )


# Parsers of another form --------------------------------------------------------------------------

#: Templates that write calls in a form of their own, with the marks of a known one.
FOREIGN = {
    "pairs": "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}"
    "<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>",
    "own section": "<own:tool_call><function={{ c.function.name }}>{% for k, v in"
    " c.function.arguments.items() %}<parameter={{ k }}>{{ v }}</parameter>{% endfor %}</function>"
    "</own:tool_call>",
    "marked tags": ']<]own[>[<tool_call>]<]own[>[<invoke name="{{ c.function.name }}">'
    "{{ c.function.arguments | tojson }}]<]own[>[</invoke>]<]own[>[</tool_call>",
    "fenced": "<tool_call>{{ c.function.name }}\n```json\n{{ c.function.arguments | tojson }}\n```"
    "</tool_call>",
}
KNOWN = {
    "hermes3": "<tool_call>\n{{ c.function | tojson }}\n</tool_call>",
    "qwen3coder": "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in"
    " c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>",
    "llama3": '{"name": "{{ c.function.name }}", "parameters": '
    "{{ c.function.arguments | tojson }}}<|eot_id|>",
    "devstral": "[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]"
    "{{ c.function.arguments | tojson }}",
}


def _chat(call: str) -> str:
    return (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>"
        "{{ m.content }}{% for c in m.tool_calls or [] %}" + call + "{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize("shows_tools", [True, False])
def test_no_parser_is_chosen_rather_than_one_of_another_form(form: str, shows_tools: bool) -> None:
    source = _chat(FOREIGN[form])
    if not shows_tools:
        source = source.replace("{{ tools | tojson }}", "")
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    assert (renderer.analysis.tool_parser, renderer.tool_parser) == (None, "")
    assert renderer.knows_tools is shows_tools


@pytest.mark.parametrize("parser", KNOWN)
def test_the_parser_that_reads_the_calls_of_the_template_is_chosen(parser: str) -> None:
    assert ChatRenderer(ChatTemplate.of_source(_chat(KNOWN[parser]))).tool_parser == parser
