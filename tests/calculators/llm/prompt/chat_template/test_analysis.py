"""Parsers and requirements of a model, derived from its template."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.llm.parsers.families import FAMILIES as FAMILIES_OF_CALLS
from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze
from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from tests.calculators.llm.prompt.chat_template.families.oracle import FAMILIES
from tests.calculators.llm.prompt.chat_template.model_directories import make_model

CALLS = "{% for m in messages %}{% for c in m.tool_calls %}CALL{% endfor %}{% endfor %}x"
#: Instructions that name the marks of a form.
HERMES = "{% if tools %}<tool_call> </tool_call>{% endif %}"


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
    assert (found.tool_parser, found.reasoning_parser) == (None, None)
    assert found.requires_object_arguments is wants_objects


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


#: Form of calls, of reasoning, whether arguments are objects, and what is not as usual.
OF_FAMILIES: dict[str, tuple[str | None, str | None, bool, dict[str, object]]] = {
    "chatml": (None, None, False, {}),
    "command_r7b": ("cohere", "cohere", True, {}),
    "deepseek_v3": ("deepseek_v31", "deepseek_v31", False, {}),
    "devstral": ("devstral", None, True, {}),
    "gemma3": (None, None, False, {}),
    "gemma4": ("gemma4", "gemma4", True, {}),
    "glm4": ("glm45", "glm45", True, {}),
    "gpt_oss": (
        "gptoss",
        "gptoss",
        True,
        {
            "misnamed_reasoning_field": "thinking",
            "reasoning_excludes_content": True,
            "takes_many_calls": False,
        },
    ),
    "granite": ("hermes", "hermes", True, {}),
    "hermes3": ("hermes", None, True, {}),
    "kimi_k2": ("kimi_k2", None, True, {"ids_are_headers": True}),
    "lfm2": ("lfm2", "lfm2", True, {"misnamed_reasoning_field": "thinking"}),
    "llama2": (None, None, False, {}),
    "llama3": ("llama3", None, True, {"takes_many_calls": False}),
    "minicpm5": ("minicpm5", "minicpm5", True, {}),
    "minimax_m2": ("minimax_m2", "minimax_m2", True, {}),
    "mistral": ("mistral", None, True, {}),
    "onyx": ("onyx", "onyx", True, {}),
    "phi4_mini": ("phi4mini", None, False, {}),
    "qwen3": ("hermes", "hermes", True, {}),
    "qwen3_coder": ("qwen3coder", None, True, {}),
    "smollm3": ("hermes", "hermes", False, {}),  # shows no calls of earlier turns
}
UNUSUAL = (
    "misnamed_reasoning_field",
    "reasoning_excludes_content",
    "takes_many_calls",
    "hides_calls_beside_text",
    "takes_any_id",
    "ids_are_headers",
    "reasoning_form",
)

#: They walk through the arguments.
TAKE_NO_BROKEN_ARGUMENTS = {"glm4", "lfm2", "minimax_m2", "onyx", "qwen3_coder"}


@pytest.mark.parametrize("family", FAMILIES)
def test_templates_of_known_models_are_recognised(family: str) -> None:
    found = analyze(ChatTemplate.of_source(FAMILIES[family], bos_token="<s>", eos_token="</s>"))
    assert found.takes_broken_arguments is (family not in TAKE_NO_BROKEN_ARGUMENTS)
    calls, reasoning, wants_objects, others = OF_FAMILIES[family]
    assert (found.tool_parser, found.reasoning_parser) == (calls, reasoning)
    assert found.made is None
    assert found.requires_object_arguments is wants_objects
    usual = TemplateAnalysis()
    assert {name: getattr(found, name) for name in UNUSUAL} == {
        **{name: getattr(usual, name) for name in UNUSUAL},
        **others,
    }


def test_the_template_for_tools_is_analysed_where_the_main_one_knows_none(
    tmp_path: Path,
) -> None:
    calls = CALLS.replace("CALL", KNOWN["hermes"])
    make_model(
        tmp_path,
        chat_template__jinja="plain <think>",
        additional_chat_templates___tool_use__jinja=HERMES + calls,
    )
    assert analyze(ChatTemplate.load(tmp_path)).tool_parser == "hermes"


# Forms with the marks of another one -------------------------------------------------------------

#: The declaration that reads the calls; else one is made.
FOREIGN = {
    "glm47": "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}"
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
    "hermes": "<tool_call>\n{{ c.function | tojson }}\n</tool_call>",
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
def test_marks_do_not_decide_but_what_the_template_writes(form: str, shows_tools: bool) -> None:
    source = _chat(FOREIGN[form])
    if not shows_tools:
        source = source.replace("{{ tools | tojson }}", "")
    renderer = ChatRenderer(ChatTemplate.of_source(source))
    assert renderer.tool_parser == (form if form in FAMILIES_OF_CALLS else "made")
    assert renderer.knows_tools is shows_tools


@pytest.mark.parametrize("parser", KNOWN)
def test_the_parser_that_reads_the_calls_of_the_template_is_chosen(parser: str) -> None:
    assert ChatRenderer(ChatTemplate.of_source(_chat(KNOWN[parser]))).tool_parser == parser
