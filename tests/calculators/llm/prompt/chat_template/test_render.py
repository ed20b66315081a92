"""Guarantees of templates: Hugging Face's environment, and the variables of a chat."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from graph_runtime import Code
from tests.calculators.llm.prompt.chat_template.model_directories import HELLO, render

TOOL = {"type": "function", "function": {"name": "f", "description": "<ü> & 'q'"}}


def test_templates_see_the_variables_of_a_chat() -> None:
    source = (
        "{{ bos_token }}{{ messages[0]['role'] }}{{ eos_token }}"
        "{{ add_generation_prompt }}{{ tools is defined }}"
    )
    assert render(source) == "<s>user</s>TrueFalse"
    assert render(source, tools=[TOOL]) == "<s>user</s>TrueTrue"
    assert render(source, tools=[]) == "<s>user</s>TrueFalse"


@pytest.mark.parametrize("name", ["tools", "documents"])
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ X is none }} {{ X is not none }} {{ X == none }} {{ X != none }}", "True False" * 2),
        ("{{ X is defined }} {{ X is undefined }}", "FalseTrue"),
        ("{% if X %}any{% endif %}{% if not X %}no{% endif %}", "no"),
        ("{% for each in X %}each{% else %}no{% endfor %}", "no"),
        ("{{ X | length }}{{ X | default([]) }}{{ X or 'no' }}", "0[]no"),
        ("{% macro m(x=1) %}{{ x is none }}{% endmacro %}{{ m(X) }}", "True"),
        ("{% set X = X if X is not none else [1] %}{{ X }}", "[1]"),
    ],
)
def test_no_tools_are_undefined_and_none(name: str, source: str, expected: str) -> None:
    """OpenVINO Model Server leaves the variable out; Hugging Face's renderer sets it to None."""
    rendered = render(source.replace("X", name))
    assert rendered.replace(" ", "") == expected.replace(" ", "")


def test_documents_are_a_variable() -> None:
    source = "{% for each in documents %}{{ each.text }}{% endfor %}{{ documents is none }}"
    assert render(source, documents=[{"text": "a"}]) == "aFalse"


def test_blocks_leave_no_lines_behind() -> None:
    source = (
        "{% for message in messages %}\n  {% if true %}\n{{ message.content }}\n  {% endif %}\n"
    )
    assert render(source + "{% endfor %}\n") == "Hello\n"


def test_the_last_line_end_of_the_file_is_dropped() -> None:
    assert render("{{ 'a' }}\n") == "a"


def test_loops_have_break_and_continue() -> None:
    source = "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
    assert render(source + "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "023"


def test_generation_blocks_are_transparent() -> None:
    source = "a{% generation %}{% set x = 1 %}b{{ messages[0].content }}{% endgeneration %}c{{ x }}"
    assert render(source) == "abHelloc", "names end with the block, as with Hugging Face"
    source = (
        "{% for m in messages %}{% generation %}{{ loop.index }}{% endgeneration %}{% endfor %}"
    )
    assert render(source) == "1"


def test_the_text_of_raise_exception_is_the_error() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        render("{{ raise_exception('Only <user> roles!') }}")
    assert str(caught.value) == "Only <user> roles!"
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_raise_exception_without_text_is_an_error() -> None:
    with pytest.raises(ChatTemplateError, match="refuses this request"):
        render("{{ raise_exception('') }}")


def test_strftime_now_formats_the_time() -> None:
    before = datetime.now().strftime("%Y-%m-%d")
    rendered = render("{{ strftime_now('%Y-%m-%d') }}")
    assert before <= rendered <= datetime.now().strftime("%Y-%m-%d")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{'b': 1, 'a': [true, none, 1.0]} | tojson", '{"b": 1, "a": [true, null, 1.0]}'),
        ("{'b': 1, 'a': 2} | tojson(sort_keys=true)", '{"a": 2, "b": 1}'),
        ("\"<ü> & 'q' \\u2028\" | tojson", "\"<ü> & 'q' \u2028\""),
        ("'ü' | tojson(ensure_ascii=true)", '"\\u00fc"'),
        ("[1, 2] | tojson(indent=2)", "[\n  1,\n  2\n]"),
        ("[1, 2] | tojson(indent='-')", "[\n-1,\n-2\n]"),
        ("[1, {'a': 2}] | tojson(separators=(',', ':'))", '[1,{"a":2}]'),
        ("[1] | tojson(false, 1)", "[\n 1\n]"),
        ("['ü'] | tojson(1)", '[\n "ü"\n]'),
        ("['ü'] | tojson(true)", '["\\u00fc"]'),
        ("('{\"a\": [1, 1.5, null]}' | from_json).a[1]", "1.5"),
        ("[1, 2, 3] | join(', ')", "1, 2, 3"),
        ("messages | join('-', attribute='role')", "user"),
        ("[1, 2.5] | sum", "3.5"),
        ("[[1], [2]] | sum(start=[])", "[1, 2]"),
        ("messages | sum(attribute='content.n', start=5)", "5"),
        ("'%s is %05.1f' % ('a', 2)", "a is 002.0"),
        ("'%s-%s' | format('a', 'b')", "a-b"),
        ("'{:>5}|{x}'.format('ab', x=1)", "   ab|1"),
        ("'a' ~ 1 ~ none ~ nosuch", "a1None"),
        ("'-' * 3 + 'x'", "---x"),
        ("2 ** 10 // 3 % 7", "5"),
        ("'a,b'.split(',')[1:] | list", "['b']"),
        ("'abc'[::-1]", "cba"),
        ("'a' in 'abc' and 'x' not in ['y']", "True"),
        ("['a', 'b'] | map('upper') | list", "['A', 'B']"),
        ("messages | selectattr('role', 'equalto', 'user') | list | length", "1"),
        ("' a '.strip().replace('a', 'bb').center(6)", "  bb  "),
        ("'ä'.encode('utf-8') | length", "2"),
        ("'a\\nb' | indent(2)", "a\n  b"),
        ("{'a': 1}.items() | list", "[('a', 1)]"),
        ("namespace(a=1).a", "1"),
        ("'<b>' | e", "&lt;b&gt;"),
    ],
)
def test_expressions_have_jinjas_values(expression: str, expected: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": {"n": 0}}]
    assert render("{{ " + expression + " }}", messages) == expected


def test_templates_in_the_text_of_a_user_are_text() -> None:
    text = "{{ 7*7 }} {% raise %} {# x #}"
    assert render("{{ messages[0].content }}", [{"role": "user", "content": text}]) == text


def test_macros_calls_and_filter_blocks_work() -> None:
    source = (
        "{% macro wrap(x) %}<{{ x }}{{ caller() }}>{% endmacro %}"
        "{% call wrap('a') %}b{% endcall %}"
        "{% filter upper %}c{% endfilter %}{% set d %}{{ 'd' }}{% endset %}{{ d }}"
    )
    assert render(source) == "<ab>Cd"


def test_recursive_loops_work() -> None:
    source = "{% for x in [[1, 2], 3] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}"
    assert render(source + "{{ x }}{% endif %}{% endfor %}") == "(12)3"


@pytest.mark.parametrize("kwargs", [{"enable_thinking": False}, {"a b": 1}, {"range": 3}, {"": 0}])
def test_template_kwargs_are_variables(kwargs: dict[str, Any]) -> None:
    source = "{{ 'off' if enable_thinking is defined and not enable_thinking else 'on' }}"
    assert render(source, **kwargs) == ("off" if "enable_thinking" in kwargs else "on")


def test_add_generation_prompt_in_the_kwargs_wins() -> None:
    template = ChatTemplate.of_source("x{% if add_generation_prompt %}!{% endif %}")
    assert template.render(HELLO) == "x!"
    assert template.render(HELLO, add_generation_prompt=False) == "x"
    assert template.render(HELLO, template_kwargs={"add_generation_prompt": False}) == "x"


@pytest.mark.parametrize(
    "key", ["messages", "tools", "bos_token", "eos_token", "self", "tokenize", "chat_template"]
)
def test_reserved_kwargs_are_refused_by_name(key: str) -> None:
    template = ChatTemplate.of_source("x")
    with pytest.raises(ChatTemplateError, match=f"must not set {key}$") as caught:
        template.render(HELLO, template_kwargs={key: []})
    assert caught.value.param == f"chat_template_kwargs.{key}"


@pytest.mark.parametrize("value", ["true", 1, None])
def test_add_generation_prompt_must_be_a_bool(value: object) -> None:
    template = ChatTemplate.of_source("x")
    with pytest.raises(ChatTemplateError, match="must be true or false") as caught:
        template.render(HELLO, template_kwargs={"add_generation_prompt": value})
    assert caught.value.param == "chat_template_kwargs.add_generation_prompt"


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(ChatTemplateError, match="empty prompt"):
        render("{% if false %}x{% endif %}")


def test_failures_name_the_line_and_the_reason() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        render("a\n{% set x = 1 %}\n\n{{ messages[3].content }}")
    text = str(caught.value)
    assert text.startswith("the chat template failed at chat template:4: ")
    assert "list object has no element 3" in text


def test_errors_are_one_clean_short_line() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        render("{{ raise_exception('a\\n\\tb' ~ messages[0].content) }}", [{"content": "x" * 9999}])
    assert re.fullmatch(r"a bx+\.\.\.", str(caught.value))
    assert len(str(caught.value)) < 600
    with pytest.raises(ChatTemplateError) as caught:
        render("{{ nosuch.member }}")
    assert "0x" not in str(caught.value)


def test_errors_can_be_sent_between_processes() -> None:
    error = ChatTemplateError("no", param="a.b", code=Code.FAILED_PRECONDITION)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.param, copy.code) == ("no", "a.b", Code.FAILED_PRECONDITION)


def test_renderings_do_not_share_state() -> None:
    template = ChatTemplate.of_source(
        "{% set ns = namespace(x=1) %}{% set y = y | default(0) + 1 %}{% set ns.x = ns.x + y %}"
        "{{ ns.x }}{{ messages[0].content }}"
    )
    messages = [{"role": "user", "content": "a"}]
    assert [template.render(messages) for _ in range(3)] == ["2a"] * 3
    assert messages == [{"role": "user", "content": "a"}]


def test_threads_can_share_a_template() -> None:
    template = ChatTemplate.of_source("{% for m in messages %}{{ m.content }}{% endfor %}")
    chats = [[{"content": f"{n}."}] * 50 for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        prompts = list(pool.map(template.render, chats))
    assert prompts == [f"{n}." * 50 for n in range(40)]
