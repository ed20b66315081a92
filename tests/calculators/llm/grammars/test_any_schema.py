"""Any JSON value as a schema is accepted, or refused with a reason; nothing else happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import RequestError
from calculators.language.generation_request import Tools
from calculators.llm.grammar_process.client import GrammarChecker
from calculators.llm.grammars.schema_document import KEYWORDS
from calculators.llm.parsers.registry import tool_parser
from calculators.llm.requests.checked_request import read_body
from calculators.llm.requests.completions_request import CHAT_MEMBERS
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import read_structured_output, request_grammar
from calculators.llm.requests.tools import read_tools
from graph_runtime import Code
from tests.calculators.llm.demo_model import DEMO
from tests.example_counts import examples
from tests.support.conditions import soon

_NUMBERS = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([10**60, -(10**60), 1e308, 5e-324, 2**63, 2**64, -0.0, 1e22]),
)
_POINTERS = st.lists(
    st.sampled_from(
        ["$defs", "a", "items", "anyOf", "0", "00", "9" * 5000, "~0", "~2", "%2F", "%ff", "", "-"]
    )
).map(lambda parts: "#/" + "/".join(parts))
_PATTERNS = st.one_of(
    st.text(max_size=8),
    st.text("ab()[]{}|*+?^$\\.-,019dwspu:<>=!", max_size=12),
    st.sampled_from(
        ["a{99999999999}", "a{0,\u0663}", "(" * 200, "\\u{110000}", "[^\\d\\D]", "a{513}"]
    ),
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), _NUMBERS, st.text(max_size=6), _PATTERNS, _POINTERS,
    st.sampled_from(["object", "array", "string", "integer", "number", "null", "date", "uuid"]),
)  # fmt: skip
_KEYWORDS = sorted(KEYWORDS | {"title", "default", "$id", "$anchor"})
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(_KEYWORDS), st.text(max_size=3)), inner,
                        max_size=4),
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def process() -> Iterator[tuple[asyncio.Runner, GrammarChecker]]:
    with asyncio.Runner() as runner:

        async def make() -> GrammarChecker:
            return GrammarChecker(str(DEMO), name="demo", hang_seconds=60.0)

        checker = runner.run(make())
        yield runner, checker
        runner.run(checker.close())


def check(process: tuple[asyncio.Runner, GrammarChecker], **body: Any) -> None:
    """Check a schema as the server does: read it, make a form, ask the process."""
    runner, checker = process

    async def run() -> None:
        structured = read_structured_output(read_body(body, CHAT_MEMBERS))
        tools = read_tools(body, RequestLimits()) if "tools" in body else Tools()
        form = request_grammar(
            structured, tools, tool_parser=tool_parser("qwen3coder"), reasoning_parser=None,
            guides_tools=False, parallel=True,
        )  # fmt: skip
        if form is not None:
            await soon(checker.check(form, "asked"), seconds=60)

    refused = runner.run(refusal(run()))
    if refused is not None:
        assert refused.code is Code.INVALID_ARGUMENT, str(refused)
        assert refused.param
        assert len(str(refused)) < 700
        assert ".py" not in str(refused)
        # The answer after an unexpected exception.
        assert "no grammar can be made of it" not in str(refused)


async def refusal(checking: Awaitable[None]) -> RequestError | None:
    try:
        await checking
    except RequestError as error:
        return error
    return None


_SETTINGS = settings(
    max_examples=examples(150), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@_SETTINGS
@given(_VALUES)
@example({"$ref": "#/anyOf/" + "0" * 10, "anyOf": [{}]})
@example({"$ref": "#/anyOf/" + "9" * 5000, "anyOf": [{}]})
@example({"minimum": 10**300, "type": "integer"})
@example({"type": "number", "minimum": 5e-324, "maximum": 1e308})
@example({"type": "string", "maxLength": 10**60})
@example({"type": "string", "minLength": 1e308})
@example({"type": "array", "minItems": 1e300})
@example({"type": "string", "pattern": "a{99999999999}"})
@example({"properties": {"\x00": {"enum": [[], {}, 1.5e300, 10**60]}}})
@example({"patternProperties": {"(a*)*b": {}}, "properties": {"a" * 40: {}}})
@example({"type": [["string"]]})
@example({"type": {"a": 1}})
@example({"properties": 0})
@example({"required": None, "properties": None})
@example({"allOf": 5})
@example({"oneOf": [{"required": [[]], "properties": {}}, {"enum": 5}]})
def test_any_schema_is_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], schema: Any
) -> None:
    check(process, guided_json=schema)


@_SETTINGS
@given(_VALUES)
def test_any_schema_as_text_is_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], schema: Any
) -> None:
    check(process, guided_json=json.dumps(schema))


@_SETTINGS
@given(_VALUES)
@example({"required": None, "properties": {"a": {}}})
@example({"required": ["a", "a"], "properties": {"a": {"$ref": "#/$defs/b"}}})
@example({"properties": {"a": True}, "$defs": []})
@example({"properties": {"a": {}}, "$defs": {"b": 7}})
def test_any_parameters_of_a_tool_are_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], schema: Any
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    check(process, tools=[tool], tool_choice="required")


@_SETTINGS
@given(_PATTERNS)
def test_any_expression_is_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], pattern: str
) -> None:
    check(process, guided_regex=pattern)


@_SETTINGS
@given(st.one_of(_PATTERNS, st.text("root::=ab\"'()[]{}|*+?\\ \n\x00019", max_size=30)))
def test_any_grammar_is_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], rules: str
) -> None:
    check(process, guided_grammar=f"root ::= {rules}")


@_SETTINGS
@given(st.lists(st.text(max_size=6), max_size=4))
def test_any_choices_are_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], choices: list[str]
) -> None:
    check(process, guided_choice=choices)


_MEMBERS = ("value", "pattern", "grammar", "json_schema", "begin", "end", "content", "excludes")
_LEAVES = ["any_text", "const_string", "regex", "json_schema", "grammar", "tag"]
_LEAF = st.fixed_dictionaries(
    {"type": st.sampled_from(_LEAVES)},
    optional=dict.fromkeys(_MEMBERS, st.deferred(lambda: _SCALARS)),
)


def _outer(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several, texts = st.lists(inner, max_size=3), st.lists(st.text(max_size=4), max_size=2)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["sequence", "or", "tag", "triggered_tags",
                                  "tags_with_separator"])},
        optional={
            "elements": several, "tags": several, "content": inner, "triggers": texts,
            "begin": st.text(max_size=4), "end": st.text(max_size=4),
            "separator": st.text(max_size=3),
        },
    )  # fmt: skip


_FORMATS = st.recursive(_LEAF, _outer, max_leaves=6)


@_SETTINGS
@given(_FORMATS)
def test_any_structural_tag_is_accepted_or_refused(
    process: tuple[asyncio.Runner, GrammarChecker], form: Any
) -> None:
    check(process, structural_tag={"format": form})
