"""The grammar process: what it accepts and refuses, what it remembers, its death."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calculators.http_payload import RequestError
from calculators.llm.structured import formats
from calculators.llm.structured.client import GrammarChecker
from calculators.llm.structured.formats import Format
from calculators.llm.structured.grammar import AnswerForm
from graph_runtime import Code
from tests.calculators.llm.conditions import is_running, signal_process, soon, until
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.calculators.llm.structured.answers import schema_of


def form(part: Format) -> AnswerForm:
    return AnswerForm(json.dumps(part))


@pytest.fixture
def checker(runner: asyncio.Runner) -> Iterator[GrammarChecker]:
    async def make() -> GrammarChecker:
        return GrammarChecker(str(DEMO), name="demo", seconds=20.0)

    checker = runner.run(make())
    yield checker
    runner.run(checker.close())


#: Takes seconds, here and everywhere.
SLOW: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{i}": {"type": "integer", "minimum": i, "maximum": 7**i} for i in range(40)},
}
SLOW["properties"] |= {f"q{i}": {"enum": [f"{i}-{j}" for j in range(60)]} for i in range(600)}


async def refusal(checker: GrammarChecker, part: Format) -> RequestError:
    with pytest.raises(RequestError) as raised:
        await soon(checker.check(form(part), "asked"))
    return raised.value


#: Twice exponential: every property is another way to combine the same two.
EXPLODING: dict[str, Any] = {
    "$defs": {
        f"d{i}": {
            "type": "object",
            "properties": {
                name: {"$ref": f"#/$defs/d{i + 1}", "minProperties": 0} for name in "ab"
            },
        }
        for i in range(22)
    }
    | {"d22": {"type": "object"}},
    "$ref": "#/$defs/d0",
}


def test_no_process_before_the_first_form(checker: GrammarChecker) -> None:
    assert checker.pid is None


def test_forms_become_grammars(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    async def run() -> None:
        plain = await soon(checker.check(form(formats.regex("a+")), "x"))
        assert plain.kind == "ebnf"
        tagged = await soon(checker.check(form(formats.tag("<", formats.any_text(), ">")), "x"))
        assert tagged.kind == "structural_tag"

    runner.run(run())


def test_the_same_form_is_checked_once(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    async def run() -> None:
        good, bad = form(formats.regex("b+")), formats.regex("(a|b)*a(a|b){20}")
        same = await soon(asyncio.gather(*(checker.check(good, "x") for _ in range(5))))
        assert len(set(same)) == 1
        assert checker.asked == 1
        first, second = await refusal(checker, bad), await refusal(checker, bad)
        assert str(first) == str(second)
        assert checker.asked == 2

    runner.run(run())


def test_a_refusal_names_the_place(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    schema = schema_of(a={"type": "integer", "minimum": 3, "maximum": 1})

    async def run() -> None:
        error = await refusal(checker, formats.json_schema(schema, "response_format.s"))
        assert error.code is Code.INVALID_ARGUMENT
        assert error.param == "response_format.s.properties.a"
        assert "no integer lies between the bounds" in str(error)

    runner.run(run())


def test_what_the_library_refuses_is_refused_without_its_paths(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    unlimited = formats.sequence(formats.any_text(), formats.const("x"))

    async def run() -> None:
        error = await refusal(checker, unlimited)
        assert error.param == "asked"
        assert "Only the last element in a sequence can be unlimited" in str(error)
        assert ".cpp" not in str(error)
        assert "/" not in str(error)
        await soon(checker.check(form(formats.regex("c")), "x"))

    runner.run(run())


def test_what_takes_too_long_is_refused_and_the_next_one_is_not(runner: asyncio.Runner) -> None:
    async def run() -> None:
        checker = GrammarChecker(str(DEMO), name="demo", seconds=0.5)
        await soon(checker.check(form(formats.regex("a")), "x"))
        before = checker.pid
        error = await refusal(checker, formats.json_schema(SLOW, "s"))
        assert error.param == "asked"
        assert "too complex" in str(error)
        await soon(checker.check(form(formats.regex("b")), "x"))
        assert checker.pid not in (None, before)
        await checker.close()

    runner.run(run())


def test_what_explodes_is_refused(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    error = runner.run(refusal(checker, formats.json_schema(EXPLODING, "s")))
    assert error.param == "s"
    assert "too large" in str(error)
    assert checker.asked == 1


def test_a_process_that_is_killed_is_replaced(runner: asyncio.Runner) -> None:
    async def run() -> None:
        checker = GrammarChecker(str(DEMO), name="demo", seconds=2.0)
        await soon(checker.check(form(formats.regex("a")), "x"))
        slow = asyncio.create_task(refusal(checker, formats.json_schema(SLOW, "")))
        await until(lambda: checker.asked == 2)
        signal_process(checker.pid, signal.SIGKILL)
        other = await soon(checker.check(form(formats.regex("b")), "x"))
        assert other.kind == "ebnf"
        assert "too complex" in str(await slow)
        await checker.close()

    runner.run(run())


def test_a_client_that_goes_does_not_take_the_check_with_it(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        asked = form(formats.regex("d+"))
        first = asyncio.create_task(checker.check(asked, "x"))
        second = asyncio.create_task(checker.check(asked, "x"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await soon(second)).kind == "ebnf"
        assert checker.asked == 1

    runner.run(run())


def test_a_closed_one_is_gone(runner: asyncio.Runner) -> None:
    async def run() -> None:
        checker = GrammarChecker(str(DEMO), name="demo")
        await soon(checker.check(form(formats.regex("a")), "x"))
        pid = checker.pid
        assert pid is not None
        await soon(checker.close())
        assert not is_running(pid)
        error = await refusal(checker, formats.regex("b"))
        assert error.code is Code.UNAVAILABLE

    runner.run(run())


def test_a_model_without_a_tokenizer_cannot_give_structured_output(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    model = copy_of_demo(tmp_path / "broken")
    rewrite(model / "openvino_tokenizer.xml", lambda content: content[:1000])

    async def run() -> None:
        checker = GrammarChecker(str(model), name="demo")
        error = await refusal(checker, formats.regex("a"))
        assert "this model cannot give structured output" in str(error)
        assert str(tmp_path) not in str(error)
        await checker.close()

    runner.run(run())
