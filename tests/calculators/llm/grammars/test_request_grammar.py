"""The form of a request's answer: a schema, a call, or either; reasoning comes first."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.language.events import Arguments, Content, ToolCall
from calculators.language.generation_request import StructuredOutput, Tools
from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import form_grammar, grammar_of
from calculators.llm.grammars.grammar import AnswerForm, SpecialLetters
from calculators.llm.parsers.families import CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.registry import reasoning_parser, tool_parser
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import request_grammar
from calculators.llm.requests.tools import read_tools
from tests.calculators.llm.grammars.answers import Answers, schema_of
from tests.calculators.llm.grammars.derivations import Derivations

WEATHER = schema_of(
    city={"enum": ["Rome", "Oslo"]}, days={"type": "integer", "minimum": 1, "maximum": 7}
)
NOTE = {
    "type": "object",
    "properties": {"loud": {"type": "boolean"}, "tags": {"type": "array", "maxItems": 2,
                   "items": {"enum": ["a", "b c"]}}},
}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {"weather": WEATHER, "note": NOTE, "stop": {}}
ANSWER = StructuredOutput(formats.json_schema(schema_of(ok={"type": "boolean"}), "rf"), "rf")
#: Answers to generate where the model thinks first: about one of ten ends.
RARELY_ENDED = 48
#: Forms that differ: the quick tests with the engine; all have their turn in derivations.
PARSERS = (
    "hermes3", "llama3", "phi4", "mistral", "devstral", "qwen3coder", "minicpm5", "onyx",
    "gptoss", "lfm2", "gemma4", "kimi_k3", "deepseek_v32", "minimax_m3", "apertus",
    "solar", "pythonic", "olmo3", "glm45",
)  # fmt: skip


def tools(choice: Any = "auto", names: Iterable[str] = SCHEMAS) -> Tools:
    items = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}}
        for name in names
    ]
    return Tools(items, choice, tuple(f"tools[{i}].function.parameters" for i in range(len(items))))


def asked(
    structured: StructuredOutput | None = None,
    offered: Tools | None = None,
    *,
    tool: str | None = None,
    reasoning: str | None = None,
    is_open: bool = False,
    guides: bool = False,
    parallel: bool = True,
) -> AnswerForm | None:
    return request_grammar(
        structured,
        offered or Tools(),
        tool_parser=tool_parser(tool) if tool else None,
        reasoning_parser=reasoning_parser(reasoning) if reasoning else None,
        prompt="<think>\n" if is_open else "",
        guides_tools=guides,
        parallel=parallel,
    )


def written(answers: Answers, form: AnswerForm | None, count: int = 3) -> list[str]:
    """Return answers of the form, those that ended."""
    assert form is not None
    return answers.ended(grammar_of(form), count)


@dataclass
class Call:
    name: str
    arguments: str = ""


@dataclass
class Understood:
    """Parse an answer."""

    content: str = ""
    calls: list[Call] = field(default_factory=list)


def understood(
    text: str,
    tool: str | None,
    reasoning: str | None = None,
    prompt: str = "",
    *,
    keeps_space: bool = False,
) -> Understood:
    parsers = OutputParsers(
        tool_parser(tool) if tool else None, reasoning_parser(reasoning) if reasoning else None
    )
    stream = parsers.start(tools=SCHEMAS, prompt=prompt, keeps_space=keeps_space)
    answer = Understood()
    for event in [*stream.feed(text), *stream.finish()]:
        match event:
            case Content(more):
                answer.content += more
            case ToolCall(name, _):
                answer.calls.append(Call(name))
            case Arguments(more):
                answer.calls[-1].arguments += more
            case _:
                pass
    return answer


def check_calls(choice: Understood, most: int | None = None) -> None:
    assert choice.calls
    assert most is None or len(choice.calls) <= most
    for call in choice.calls:
        jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


def test_a_request_without_a_form_has_no_grammar() -> None:
    assert asked() is None
    assert asked(None, tools(), tool="hermes3", reasoning="qwen3") is None


def test_an_answer_follows_a_schema(answers: Answers) -> None:
    for text in written(answers, asked(ANSWER)):
        assert isinstance(json.loads(text)["ok"], bool)


def test_an_answer_is_one_of_the_values_that_begin_or_end_alike(answers: Answers) -> None:
    # The engine's library takes `"dc" | "xab" | "xac"` for a rule that "db" fits too.
    values = ["zc", "xab", "xac", "zzb", "zzac", "x"]
    form = formats.json_schema({"enum": values}, "")
    assert {json.loads(text) for text in answers.several(form, 100)} <= {*values}


@pytest.mark.parametrize("is_open", [False, True])
def test_the_schema_binds_the_answer_and_not_the_reasoning(answers: Answers, is_open: bool) -> None:
    prompt = "<think>\n" if is_open else ""
    for text in written(answers, asked(ANSWER, reasoning="qwen3", is_open=is_open), 6):
        choice = understood(text, None, "qwen3", prompt)
        assert isinstance(json.loads(choice.content)["ok"], bool)


SPACED = [
    formats.choice(["no", " yes"], "rf"),
    formats.const("\nno"),
    formats.regex("a?(b|\\s+)c", "rf"),
    formats.ebnf('root ::= ("x" | sp) "y"\nsp ::= [ \\t]', "rf"),
    formats.sequence(formats.regex("a*", "rf"), formats.const(" b")),
    formats.one_of(formats.const("a"), formats.tag(" (", formats.const("b"), ")")),
    {
        "type": "tags_with_separator",
        "tags": [formats.tag("", formats.const(" b"), "c")],
        "separator": ",",
        "at_least_one": True,
    },
]
NOT_SPACED = [
    ANSWER.format,
    formats.choice(["no", "yes"], "rf"),
    formats.const("a "),
    formats.regex("[^\\s]+ b", "rf"),
    formats.regex("(\\s{0}a| {0,0}b)\\s", "rf"),
    formats.ebnf('root ::= "x" | sp\nsp ::= "y" [ ]', "rf"),
    formats.sequence(formats.regex("a+", "rf"), formats.const(" b")),
    {
        "type": "triggered_tags",
        "triggers": ["<a>"],
        "tags": [formats.tag("<a>", formats.const(" "), "</a>")],
    },
    formats.any_text(),
]


@pytest.mark.parametrize("reasoning", [None, "qwen3"])
@pytest.mark.parametrize("is_open", [False, True])
def test_white_space_at_the_beginning_may_belong_to_the_form(
    reasoning: str | None, is_open: bool
) -> None:
    for kinds, expected in ((SPACED, True), (NOT_SPACED, False)):
        for each in kinds:
            form = asked(StructuredOutput(each, "rf"), reasoning=reasoning, is_open=is_open)
            assert form is not None
            assert grammar_of(form).begins_with_space is expected, each


@pytest.mark.parametrize("is_open", [False, True])
def test_a_form_that_begins_with_white_space_follows_the_reasoning_at_once(
    answers: Answers, is_open: bool
) -> None:
    form = asked(
        StructuredOutput(formats.choice(["\n yes", " no"], "rf"), "rf"),
        reasoning="qwen3",
        is_open=is_open,
    )
    for text in written(answers, form, 6):
        prompt = "<think>\n" if is_open else ""
        choice = understood(text, None, "qwen3", prompt, keeps_space=True)
        assert choice.content in ("\n yes", " no")


def test_reasoning_begun_by_the_prompt_ends_before_the_answer(answers: Answers) -> None:
    form = asked(ANSWER, reasoning="qwen3", is_open=True)
    assert all("</think>" in text for text in written(answers, form, RARELY_ENDED))


@pytest.mark.parametrize("parser", PARSERS)
def test_a_forced_call_is_found_by_the_parser_and_valid_by_the_schema(
    answers: Answers, parser: str
) -> None:
    for text in written(answers, asked(None, tools("required"), tool=parser)):
        check_calls(understood(text, parser))


@pytest.mark.parametrize(
    ("parser", "prompt"), [("functionary32", "\n\n>>>"), ("mistral", "[TOOL_CALLS]")]
)
def test_a_forced_call_goes_on_after_the_mark_of_the_prompt(parser: str, prompt: str) -> None:
    form = request_grammar(
        None,
        tools("required"),
        tool_parser=tool_parser(parser),
        reasoning_parser=None,
        guides_tools=False,
        parallel=True,
        prompt=prompt,
    )
    assert form is not None
    derivations = Derivations(form_grammar(form, SpecialLetters()).grammar.text)
    chance = random.Random(1)
    for _ in range(50):
        text = derivations.random_text(chance, 60, ())
        assert not text.lstrip().startswith(prompt.strip())
        check_calls(understood(text, parser, prompt=prompt))


@pytest.mark.parametrize("parser", PARSERS)
def test_there_is_one_call_when_only_one_is_allowed(answers: Answers, parser: str) -> None:
    form = asked(None, tools("required"), tool=parser, parallel=False)
    for text in written(answers, form):
        check_calls(understood(text, parser), most=1)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_named_tool_is_called_once(answers: Answers, parser: str) -> None:
    form = asked(None, tools("named", ["weather"]), tool=parser)
    for text in written(answers, form):
        choice = understood(text, parser)
        check_calls(choice, most=1)
        assert choice.calls[0].name == "weather"


@pytest.mark.parametrize("parser", ["hermes3", "phi4", "qwen3coder"])
def test_an_answer_is_a_call_or_follows_the_schema(answers: Answers, parser: str) -> None:
    for text in written(answers, asked(ANSWER, tools(), tool=parser), 6):
        choice = understood(text, parser)
        if choice.calls:
            check_calls(choice)
        else:
            assert isinstance(json.loads(choice.content)["ok"], bool)


@pytest.mark.parametrize("parser", PARSERS)
def test_text_is_free_and_calls_follow_the_schema(answers: Answers, parser: str) -> None:
    for text in written(answers, asked(None, tools(), tool=parser, guides=True), 6):
        choice = understood(text, parser)
        for call in choice.calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])


def test_reasoning_may_precede_a_forced_call(answers: Answers) -> None:
    form = asked(None, tools("required"), tool="hermes3", reasoning="qwen3", is_open=True)
    for text in written(answers, form, RARELY_ENDED):
        check_calls(understood(text, "hermes3", "qwen3", "<think>"))


def test_harmony_reasons_and_answers_in_messages(answers: Answers) -> None:
    for text in written(answers, asked(ANSWER, tool="gptoss", reasoning="gptoss"), 6):
        choice = understood(text, "gptoss", "gptoss")
        assert isinstance(json.loads(choice.content)["ok"], bool)


def test_a_model_whose_calls_have_no_form_cannot_be_made_to_call() -> None:
    class Other(ToolParser):
        feed = finish = None  # type: ignore[assignment]

    for parser in (None, Other):
        with pytest.raises(RequestError) as raised:
            request_grammar(
                None, tools("required"), tool_parser=parser, reasoning_parser=None,
                guides_tools=False, parallel=True,
            )  # fmt: skip
        assert raised.value.param == "tool_choice"


def test_the_form_of_an_installed_parser_is_used(answers: Answers) -> None:
    class Other(ToolParser):
        calls = CallSyntax(call="CALL {name} {json} END")
        feed = finish = None  # type: ignore[assignment]

    form = request_grammar(
        None, tools("named", ["stop"]), tool_parser=Other, reasoning_parser=None,
        guides_tools=False, parallel=True,
    )  # fmt: skip
    assert set(written(answers, form, 2)) == {"CALL stop {} END"}


def test_parameters_that_are_written_one_by_one_may_be_composed() -> None:
    schema = {
        "$defs": {"more": {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}},
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "allOf": [{"$ref": "#/$defs/more"}, {"properties": {"a": {"minimum": 3}}}],
        "anyOf": [{"required": ["a"]}, {"required": ["c"]}],
    }
    made = form_grammar(qwen3coder_form(schema, strict=True))
    assert not made.notices
    derivations = Derivations(made.grammar.text)
    for seed in range(20):
        text = derivations.random_text(random.Random(seed))
        for call in text.split("</tool_call>")[:-1]:
            written = dict(re.findall(r"(?s)<parameter=(\w)>\n(.*?)\n</parameter>", call))
            assert written["b"] in ("true", "false")
            assert "a" in written or "c" in written
            assert int(written.get("a", 3)) >= 3


def qwen3coder_form(schema: Any, **members: Any) -> AnswerForm:
    function = {"name": "f", "parameters": schema, **members}
    given = read_tools(
        {"tools": [{"type": "function", "function": function}], "tool_choice": "required"},
        RequestLimits(),
    )
    form = asked(None, given, tool="qwen3coder")
    assert form is not None
    return form
