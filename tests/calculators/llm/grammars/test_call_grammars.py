"""Grammars of calls from the declarations: what they let a model write, its parser reads."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import jsonschema
import pytest

from calculators.language.events import Arguments, Content, ToolCall
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import FormError, form_grammar
from calculators.llm.grammars.formats import Tool
from calculators.llm.grammars.grammar import AnswerForm, SpecialLetters
from calculators.llm.parsers.families import FAMILIES, AnswerFamily, CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.pattern import marks
from calculators.llm.parsers.registry import tool_parser
from tests.calculators.llm.grammars.answers import schema_of
from tests.calculators.llm.grammars.derivations import Derivations

_TEXT: Final = {"type": "string"}
_NOT_EMPTY: Final = {"type": "string", "minLength": 1}
#: Schemas with all that a declaration may write in its own way.
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "write_file": {
        **schema_of(path=_TEXT, text=_TEXT),
        "properties": {
            "path": _TEXT,
            "text": _TEXT,
            "mode": {"enum": ["a", "w", "x y", "007"]},
            "lines": {"type": "integer", "minimum": 0, "maximum": 99},
        },
    },
    "plan.trip-2": {
        "type": "object",
        "properties": {
            "stops": {
                "type": "array",
                "items": {
                    **schema_of(city=_TEXT),
                    "properties": {
                        "city": _TEXT,
                        "nights": {"type": "integer"},
                        "by-train": {"type": "boolean"},
                    },
                },
                "maxItems": 3,
            },
            "note": {"type": ["string", "null"]},
            "price": {"type": "number"},
            "tags": {"type": "array", "items": _TEXT, "maxItems": 2},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}$"},
            "short": {"type": "string", "minLength": 2, "maxLength": 9},
            "either": {"anyOf": [{"type": "string", "maxLength": 4},
                                 {"type": "integer", "minimum": 10}]},
            "flag": {"type": ["boolean", "null"]},
            "host": {"type": "string", "format": "hostname"},
            "page": {"type": "string", "minLength": 1},
            "lines": {"type": "string", "minLength": 4},
        },
    },
    "none": {"type": "object", "properties": {}},
    "one_of_two": {
        "$defs": {"Point": schema_of(x={"type": "number"}, kind={"enum": ["1", "2"]})},
        "type": "object",
        "properties": {
            "point": {"$ref": "#/$defs/Point"},
            "more": {"type": "object", "additionalProperties": {"type": "integer"}},
            "any": {},
        },
        "minProperties": 1,
        "required": ["point"],
    },
}  # fmt: skip
#: What texts in arguments may have, beside letters.
WORDS: Final = (
    "</", "</tool_call>", "<tool_call>", "<think>", "\n\n", '", "', "')]", "null", "true", "{}",
    "]", "007", "```",
)  # fmt: skip
HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")
NAMES: Final = (*FAMILIES, "onyx", "gptoss")


def form_of(name: str) -> CallSyntax:
    form = tool_parser(name).calls
    assert form is not None
    return form


def grammar(
    form: CallSyntax,
    schemas: Mapping[str, Any] = SCHEMAS,
    special: SpecialLetters | None = None,
    **options: Any,
) -> str:
    tools = [Tool(name, schema, "tools") for name, schema in schemas.items()]
    asked = AnswerForm(json.dumps(formats.calls(form, tools, **options)))
    made = form_grammar(asked, special or SpecialLetters())
    assert not made.notices
    return made.grammar.text


def read(name: str, text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the content and the calls: name, arguments, id."""
    tool = tool_parser(name)
    stream = OutputParsers(tool, None).start(tools=SCHEMAS)
    content = ""
    calls: list[list[str]] = []
    for event in [*stream.feed(text), *stream.finish()]:
        match event:
            case Content(more):
                content += more
            case ToolCall(called, call_id):
                calls.append([called, "", call_id])
            case Arguments(more):
                calls[-1][1] += more
            case _:
                raise AssertionError(f"{event} in {text!r}")
    return content, [(called, arguments, call_id) for called, arguments, call_id in calls]


def check(name: str, text: str) -> None:
    content, calls = read(name, text)
    assert calls, text
    assert not content.strip(), text
    for called, arguments, _ in calls:
        try:
            value = json.loads(arguments)
            jsonschema.validate(value, SCHEMAS[called])
            # The validator takes formats for notes.
            assert HOST_NAME.fullmatch(value.get("host", "a")), text
        except (ValueError, jsonschema.ValidationError) as error:
            raise AssertionError(f"{text!r} is read as {calls}") from error


def check_derivations(name: str, count: int) -> None:
    derivations = Derivations(grammar(form_of(name)))
    chance = random.Random(name)
    for _ in range(count):
        steps = chance.choice((20, 100, 300))
        check(name, derivations.random_text(chance, steps, WORDS))


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_a_grammar_are_read_and_valid(name: str) -> None:
    check_derivations(name, 10)


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("glm45", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"),
        (
            "qwen3coder",
            "<tool_call>\n<function=f>\n<parameter=a>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
    ],
)
def test_a_text_that_must_not_be_empty_may_be_a_page(name: str, begin: str, end: str) -> None:
    derivations = Derivations(grammar(form_of(name), {"f": schema_of(a=_NOT_EMPTY)}))
    for text in ("a", "<p>a</p>", "<<<>>>", "a<b", "if a < b:\n    a <<= 1\n", "text</p>"):
        assert derivations.matches(begin + text + end), text
    assert not derivations.matches(begin + end)


def letters_of(form: CallSyntax) -> SpecialLetters:
    """Return a vocabulary in which all marks with brackets are tokens."""
    tokens = sorted(mark for mark in marks(form) if mark[0] in "<[]" and mark[-1] in ">]")
    return SpecialLetters({mark: chr(0x100000 + place) for place, mark in enumerate(tokens)})


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if letters_of(form_of(name)).letters and not form_of(name).is_bare],
)
def test_marks_are_written_as_tokens_where_they_are_tokens(name: str) -> None:
    special = letters_of(form_of(name))
    derivations = Derivations(grammar(form_of(name), special=special))
    chance = random.Random(name)
    texts = {letter: token for token, letter in special.letters.items()}
    for _ in range(5):
        written = derivations.random_text(chance, 100)
        assert any(letter in texts for letter in written)
        check(name, "".join(texts.get(letter, letter) for letter in written))


@pytest.mark.parametrize("name", NAMES)
def test_there_is_one_call_where_only_one_is_allowed(name: str) -> None:
    derivations = Derivations(grammar(form_of(name), only_one=True))
    chance = random.Random(name)
    for _ in range(10):
        assert len(read(name, derivations.random_text(chance, 60))[1]) == 1


def test_calls_are_numbered_in_the_conversation_or_in_the_answer() -> None:
    kimi_k2, kimi_k3 = form_of("kimi_k2"), form_of("kimi_k3")
    chance = random.Random(1)
    counted = 0
    for text in (
        Derivations(grammar(kimi_k2, {"none": {}}, number=7)).random_text(chance, 200)
        for _ in range(30)
    ):
        ids = [call_id for _, _, call_id in read("kimi_k2", text)[1]]
        assert ids == [f"functions.none:{7 + place}" for place in range(len(ids))]
        counted = max(counted, len(ids))
    assert counted > 2
    text = Derivations(grammar(kimi_k3, {"none": {}}, number=1, only_one=True)).random_text(chance)
    assert 'index="1"' in text


@pytest.mark.parametrize("name", NAMES)
def test_calls_in_free_text_follow_the_schemas(name: str) -> None:
    derivations = Derivations(grammar(form_of(name), is_free=True))
    chance = random.Random(name)
    called = 0
    for _ in range(12):
        text = derivations.random_text(chance, 60)
        for each, arguments, _ in read(name, text)[1]:
            called += 1
            jsonschema.validate(json.loads(arguments), SCHEMAS[each])
    # A form without a mark has its calls at the beginning of an answer only.
    assert called or name in ("llama3", "xlam", "pythonic")


@pytest.mark.parametrize("name", NAMES)
def test_arguments_of_a_free_model_are_any(name: str) -> None:
    text = grammar(form_of(name), {"none": None}, is_free=True)
    assert "none" in text


@pytest.mark.parametrize("name", ["qwen3coder", "lfm2", "gemma4", "minimax_m3"])
def test_a_name_that_a_form_cannot_write_is_refused(name: str) -> None:
    with pytest.raises(FormError, match="cannot be written in a call") as raised:
        grammar(form_of(name), {"f": schema_of(**{"a>=b": _TEXT})})
    assert raised.value.path == "tools.properties.a>=b"


def families_with(*fields: str) -> Sequence[AnswerFamily]:
    return [each for each in FAMILIES.values() if each.calls and any(
        f"{{{field}}}" in each.calls.call for field in fields)]  # fmt: skip


@pytest.mark.parametrize("family", families_with("args", "python", "gemma", "tree"), ids=str)
def test_what_parameters_must_be_together_is_enforced(family: AnswerFamily) -> None:
    assert family.calls is not None
    either = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    form = replace(family.calls, only_one=True)
    derivations = Derivations(grammar(form, {"f": either}))
    chance = random.Random(family.name)
    for _ in range(20):
        [(_, arguments, _)] = read(family.name, derivations.random_text(chance))[1]
        assert {"a", "b"}.intersection(json.loads(arguments))
