"""The form in which a model writes, found by asking its template."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any, Final

import pytest

from calculators.language.events import Arguments, OutputEvent, ToolCall
from calculators.llm.parsers.families import FAMILIES, AnswerFamily, CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis, analyze
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.detector import CALLS, ProbeChats, find_calls
from tests.calculators.llm.parsers.said import events_of, said
from tests.corpora import corpora

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (corpora() / "template_families.jsonl").read_text(encoding="utf-8").splitlines()
]


def form_of(found: TemplateAnalysis) -> AnswerFamily:
    assert found.tool_parser is not None
    form = found.made if found.tool_parser == "made" else FAMILIES[found.tool_parser]
    assert form is not None
    return form


def calls_of(events: list[OutputEvent]) -> list[tuple[str, Any]]:
    calls: list[tuple[str, list[str]]] = []
    for event in events:
        match event:
            case ToolCall(name):
                calls.append((name, []))
            case Arguments(text):
                calls[-1][1].append(text)
            case _:
                pass
    return [(name, json.loads("".join(parts))) for name, parts in calls]


def turn(template: ChatTemplate, calls: list[tuple[str, Any]], *, as_text: bool = False) -> str:
    """Return what the template writes for a turn with calls."""
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": f"probe000{place}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": json.dumps(arguments) if as_text else arguments,
                },
            }
            for place, (name, arguments) in enumerate(calls)
        ],
    }
    question = {"role": "user", "content": "QUESTION"}
    prompt = template.render([question, message], add_generation_prompt=False)
    return prompt.rpartition("QUESTION")[2]


@functools.cache
def analysis_of(source: str) -> TemplateAnalysis:
    return analyze(ChatTemplate.of_source(source))


def read_back(
    source: str, calls: list[tuple[str, Any]], tools: dict[str, dict[str, Any]]
) -> list[tuple[str, Any]]:
    """Return the calls that the detected form finds in what the template writes for these."""
    found = analysis_of(source)
    written = turn(
        ChatTemplate.of_source(source), calls, as_text=not found.requires_object_arguments
    )
    stream = OutputParsers(form_of(found)).start(tools=tools)
    events = [event for letter in written for event in stream.feed(letter)]
    return calls_of([*events, *stream.finish()])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_template_of_a_family_is_recognised(case: dict[str, Any]) -> None:
    expected = case["expected"]
    found = analysis_of(case["template"])
    assert (found.tool_parser or "") in (expected["calls"], *expected["also_right"])
    marks = expected["reasoning"]
    assert found.marks == (marks and tuple(map(str.strip, marks)))
    if marks:
        assert found.opens == expected["prompt_opens"]
    if expected["calls"]:
        assert found.takes_many_calls is expected["many_calls"]
        assert found.requires_object_arguments is (expected["arguments"] == "object")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.get("round_trip")], ids=lambda case: case["id"]
)
def test_calls_that_a_template_writes_are_read_back(case: dict[str, Any]) -> None:
    calls = [(call["name"], call["arguments"]) for call in case["round_trip"]["calls"]]
    if not analysis_of(case["template"]).takes_many_calls:
        calls = calls[:1]
    string, integer = {"type": "string"}, {"type": "integer"}
    nested = {"zq_in": {"type": "array", "items": {"anyOf": [integer, string]}}}
    schema = {
        "properties": {
            "zq_key": string,
            "zq_num": integer,
            "zq_obj": {"type": "object", "properties": nested},
        }
    }
    assert read_back(case["template"], calls, {name: schema for name, _ in calls}) == calls


# Forms that no declaration has --------------------------------------------------------------------

CHAT = """{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- for m in messages -%}
<|{{ m.role }}|>{{ m.content or '' }}
{%- if m.tool_calls %}BEGIN{% for c in m.tool_calls %}{% set f = c.function %}CALL
{%- if not loop.last %}GAP{% endif %}{% endfor %}END{% endif -%}
<|over|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}"""
PAIRS = "{% for k, v in f.arguments.items() %}PAIR{% endfor %}"
VALUE = "{{ v if v is string else v | tojson }}"
JSON = "{{ f.arguments | tojson }}"
#: By name: what stands before all calls, a call, between calls, and behind them.
INVENTED: dict[str, tuple[str, str, str, str]] = {
    "name, then JSON": ("<<", "run {{ f.name }} with " + JSON + ";", "\n", ">>"),
    "JSON with other members": (
        "[[calls]]",
        '{"op": "{{ f.name }}", "input": ' + JSON + "}",
        "\n",
        "[[/calls]]",
    ),
    "JSON as a text": (
        "<t>",
        '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson | tojson }}}',
        "",
        "</t>",
    ),
    "a list": ("@calls[", '{"name": "{{ f.name }}", "arguments": ' + JSON + "}", ", ", "]@"),
    "keyed": ("<use>", '{"{{ f.name }}": ' + JSON + "}", "\n", "</use>"),
    "wrapped": (
        "",
        '<fn>{"type": "function", "function": {"name": "{{ f.name }}", "arguments": '
        + JSON
        + "}}</fn>",
        "",
        "",
    ),
    "counted": ("", "<c n={{ loop.index }}>{{ f.name }}|" + JSON + "</c>", "", ""),
    "with ids": ("<calls>", "<c {{ c.id }}>{{ f.name }}:" + JSON + "</c>", "", "</calls>"),
    "fenced": ("", "~~~{{ f.name }}\n" + JSON + "\n~~~", "\n", ""),
    "pairs": (
        "<act>\n",
        "<do {{ f.name }}>" + PAIRS.replace("PAIR", "<in {{ k }}>" + VALUE + "</in>") + "</do>",
        "\n",
        "\n</act>",
    ),
    "padded pairs": (
        "",
        "<do:{{ f.name }}>\n"
        + PAIRS.replace("PAIR", "<in:{{ k }}>\n" + VALUE + "\n</in>\n")
        + "</do>",
        "\n",
        "",
    ),
    "typed pairs": (
        "",
        '<do is="{{ f.name }}">'
        + PAIRS.replace(
            "PAIR",
            "<in key=\"{{ k }}\" type=\"{{ 'string' if v is string else 'json' }}\">"
            + VALUE
            + "</in>",
        )
        + "</do>",
        "",
        "",
    ),
    "marks of other letters": (
        "",
        "⟦{{ f.name }}⟧" + PAIRS.replace("PAIR", "⟨{{ k }}⟩" + VALUE + "⟨/⟩") + "⟦/⟧",
        "",
        "",
    ),
    "pairs of JSON": (
        "",
        "<do {{ f.name }}>" + PAIRS.replace("PAIR", "<in {{ k }}>{{ v | tojson }}</in>") + "</do>",
        "\n",
        "",
    ),
    "words": ("", "Action: {{ f.name }}\nInput: " + JSON, "\n", ""),
    "Python": (
        "<py>",
        "{{ f.name }}("
        + "{% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}"
        + "{{ ', ' if not loop.last }}{% endfor %})",
        "\n",
        "</py>",
    ),
}
TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "rate": {"type": "number"},
    "on": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
}
HARD: dict[str, dict[str, Any]] = {
    "plain": {"text": "harbour", "count": 3},
    "none": {},
    "quotes": {"text": 'say "hi" and it\'s \\ done'},
    "lines": {"text": "one\ntwo\n\nfour"},
    "outer blanks": {"text": "  in  "},
    "marks": {"text": "a < b && c > d </x> {y} [z] (w)"},
    "scripts": {"text": "Łódź 函館 🛥️"},
    "digits": {"text": "0042", "rate": 2.5},
    "list": {"list": ["a", "b, c"]},
    "map": {"map": {"a": 1, "b": "x"}},
    "empty text": {"text": ""},
}


def invented(name: str) -> str:
    begin, call, gap, end = INVENTED[name]
    source = CHAT.replace("CALL", call)
    return source.replace("BEGIN", begin).replace("GAP", gap).replace("END", end)


@pytest.mark.parametrize("name", INVENTED)
def test_a_form_is_made_and_reads_hard_arguments(name: str) -> None:
    assert analysis_of(invented(name)).tool_parser == "made"
    schema = {"properties": TYPES}
    tools = {"one": schema, "two_2": schema}
    for arguments in HARD.values():
        calls = [("one", arguments), ("two_2", {"text": "x"}), ("one", arguments)]
        assert read_back(invented(name), calls, tools) == calls


#: Every turn begins with a mark, which the prompt has already, and a name or "say".
LED: Final = """{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' %}<|bot|>{% if m.content %}@@say
{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}@@{{ c.function.name }}
{{ c.function.arguments | tojson }}{% endfor %}
{%- else %}<|{{ m.role }}|>{{ m.content }}{% endif %}<|over|>
{%- endfor -%}
{%- if add_generation_prompt %}<|bot|>@@{% endif -%}"""
#: The same with marks around an answer, and a prompt without.
AROUND: Final = LED.replace("@@say\n{{ m.content }}", "<say>{{ m.content }}</say>").replace(
    "<|bot|>@@{% endif -%}", "<|bot|>{% endif -%}"
)


@pytest.mark.parametrize(
    ("template", "prompt", "answer", "content"),
    [
        (LED, "<|bot|>@@", "say\nHi @@ you", "Hi @@ you"),
        (LED, "<|bot|>@@", "Hi", "Hi"),
        (LED, "<|bot|>@@", 'one\n{"a": 1}@@say\nDone', "Done"),
        (LED, "<|bot|>@@", 'say\nLook@@one\n{"a": 1}', "Look"),
        (AROUND, "<|bot|>", "<say>Hi</say>", "Hi"),
        (AROUND, "<|bot|>", '<say>Look</say>@@one\n{"a": 1}', "Look"),
    ],
)
def test_marks_of_answers_are_made_too(
    template: str, prompt: str, answer: str, content: str
) -> None:
    found = analysis_of(template)
    parsers = OutputParsers.named(found.tool_parser or "", "", found.made)
    for pieces in ([answer], list(answer)):
        result = said(events_of(parsers.start(tools={"one": {}}, prompt=prompt), pieces))
        calls = [("one", '{"a":1}')] if "one" in answer else []
        assert (result.content, result.calls) == (content, calls)


@pytest.mark.parametrize("pair", ["{{ k }}: {{ v | tojson }}\n", "<in {{ k }}>{{ v | tojson }}"])
@pytest.mark.parametrize("end", ["", " ", "~~~"])
def test_a_form_that_no_reader_knows_is_none(pair: str, end: str) -> None:
    call = "~~~{{ f.name }}\n" + PAIRS.replace("PAIR", pair) + end
    source = CHAT.replace("CALL", call).replace("BEGIN", "").replace("GAP", "").replace("END", "")
    assert analysis_of(source).tool_parser is None


def test_the_section_of_a_made_form_is_what_stands_around_all_calls() -> None:
    found = analyze(ChatTemplate.of_source(invented("pairs")))
    assert found.made is not None
    assert found.made.calls == CallSyntax(
        call="<do {name}>{args}</do>",
        argument="<in {key}>{value}</in>",
        section=("<act>\n", "</act>"),
    )


#: Declarations whose calls are found without them, with the whole table hidden.
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["expected"]["calls"] not in ("", "made")],
    ids=lambda case: case["id"],
)
def test_a_form_is_made_where_its_declaration_is_not_known(case: dict[str, Any]) -> None:
    found = find_calls(ProbeChats(ChatTemplate.of_source(case["template"])), families={})
    assert found.name == "made"


# What counts where calls are not rendered ---------------------------------------------------------

SILENT = (
    "{% if tools %}INSTRUCTIONS {{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
)


def test_instructions_of_the_prompt_decide_where_calls_are_not_rendered() -> None:
    told = SILENT.replace("INSTRUCTIONS", "Answer with <seed:tool_call> and <parameter=")
    found = analyze(ChatTemplate.of_source(told))
    assert (found.tool_parser, found.calls_found_by) == ("seed", "the instructions in the prompt")


def test_the_prose_of_a_template_decides_nothing() -> None:
    source = "{# <tool_call> </tool_call> <think> </think> #}" + SILENT.replace("INSTRUCTIONS", "")
    found = analyze(ChatTemplate.of_source(source))
    assert (found.tool_parser, found.reasoning_parser) == (None, None)


def test_the_vocabulary_decides_where_the_template_says_nothing() -> None:
    template = ChatTemplate.of_source(SILENT.replace("INSTRUCTIONS", ""))
    found = analyze(template, vocabulary={"<|tool_call_start|>", "<|tool_call_end|>"})
    assert (found.tool_parser, found.calls_found_by) == ("lfm2", "the vocabulary")


def test_the_architecture_comes_last() -> None:
    template = ChatTemplate.of_source(SILENT.replace("INSTRUCTIONS", ""))
    found = analyze(template, architecture="SeedOssForCausalLM")
    assert (found.tool_parser, found.calls_found_by) == ("seed", "the architecture")
    shown = ChatTemplate.of_source(CASES[0]["template"])
    assert analyze(shown, architecture="SeedOssForCausalLM").tool_parser == "hermes"


RESPONSE_TEMPLATE = {
    "defaults": {"role": "assistant"},
    "fields": {
        "thinking": {"open": "<muse>", "close_pattern": r"</muse>\s*", "content": "text"},
        "tool_calls": {
            "open_pattern": r"<ask>(?P<name>[^<]+)<with>",
            "close": "</ask>",
            "content": "json",
            "transform": {
                "type": "function",
                "function": {"name": "{name}", "arguments": "{content}"},
            },
        },
    },
}


def test_what_the_checkpoint_says_comes_first() -> None:
    files = ChatTemplate.of_source(SILENT.replace("INSTRUCTIONS", "")).files
    template = ChatTemplate(replace(files, response_template=RESPONSE_TEMPLATE))
    found = analyze(template, vocabulary={"<|tool_call_start|>", "<|tool_call_end|>"})
    assert (found.tool_parser, found.calls_found_by) == ("made", "the checkpoint")
    assert found.marks == ("<muse>", "</muse>")
    stream = OutputParsers(found.made, found.made).start(tools={"f": {}})
    text = '<muse>So.</muse><ask>f<with>{"a": 1}</ask>'
    assert calls_of([*stream.feed(text), *stream.finish()]) == [("f", {"a": 1})]


def test_what_the_checkpoint_says_is_not_taken_if_its_template_writes_otherwise() -> None:
    files = ChatTemplate.of_source(CASES[0]["template"]).files
    template = ChatTemplate(replace(files, response_template=RESPONSE_TEMPLATE))
    assert analyze(template).tool_parser == "hermes"


def test_the_marked_calls_are_hard_enough() -> None:
    (text, number, nested) = CALLS[0].arguments.values()
    assert (type(text), type(number), type(nested)) == (str, int, dict)
