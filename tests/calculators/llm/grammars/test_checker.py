"""The grammar process: accepted and refused forms, remembered verdicts, restarts."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.grammar_process import worker
from calculators.llm.grammar_process.client import GrammarChecker
from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from graph_runtime import Code
from tests.calculators.llm.demo_model import DEMO, copy_of_demo, rewrite
from tests.calculators.llm.grammars.answers import schema_of
from tests.support.conditions import signal_process, soon, until
from tests.support.processes import is_running


def form(part: Format) -> AnswerForm:
    return AnswerForm(json.dumps(part))


@pytest.fixture
def checker(runner: asyncio.Runner) -> Iterator[GrammarChecker]:
    async def make() -> GrammarChecker:
        return GrammarChecker(str(DEMO), name="demo", seconds=20.0, hang_seconds=60.0)

    checker = runner.run(make())
    yield checker
    runner.run(checker.close())


#: Takes seconds on every machine.
SLOW: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{i}": {"type": "integer", "minimum": i, "maximum": 7**i} for i in range(40)},
}
SLOW["properties"] |= {f"q{i}": {"enum": [f"{i}-{j}" for j in range(60)]} for i in range(600)}


async def refusal(checker: GrammarChecker, part: Format) -> RequestError:
    with pytest.raises(RequestError) as raised:
        await soon(checker.check(form(part), "asked"))
    return raised.value


#: Each letter takes six in the rules.
LARGE: dict[str, Any] = {"const": "\x7f" * 60_000}


def test_no_process_is_started_before_the_first_form(checker: GrammarChecker) -> None:
    assert checker.pid is None


def test_forms_become_grammars(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    async def run() -> None:
        plain = await soon(checker.check(form(formats.regex("a+")), "x"))
        tagged = await soon(checker.check(form(formats.tag("<", formats.any_text(), ">")), "x"))
        assert plain.text != tagged.text

    runner.run(run())


def test_the_same_form_is_checked_once(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    async def run() -> None:
        good, bad = form(formats.regex("b+")), formats.regex("(a|b)*a(a|b){20}")
        same = await soon(asyncio.gather(*(checker.check(good, "x") for _ in range(5))))
        assert len(set(same)) == 1
        assert checker.asked == 1
        first = await refusal(checker, bad)
        asked = checker.asked
        assert str(first) == str(await refusal(checker, bad))
        assert checker.asked == asked

    runner.run(run())


def test_a_refusal_names_the_place(checker: GrammarChecker, runner: asyncio.Runner) -> None:
    schema = schema_of(a={"type": "integer", "minimum": 3, "maximum": 1})

    async def run() -> None:
        error = await refusal(checker, formats.json_schema(schema, "response_format.s"))
        assert error.code is Code.INVALID_ARGUMENT
        assert error.param == "response_format.s.properties.a"
        assert "no integer lies between the bounds" in str(error)

    runner.run(run())


def test_a_refusal_of_the_library_has_none_of_its_paths(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    unlimited = formats.tag("", {**formats.any_text(), "excludes": ["x"]}, "x")

    async def run() -> None:
        error = await refusal(checker, unlimited)
        assert error.param == "asked"
        assert "should not have a common stop_str and exclude_str" in str(error)
        assert ".cpp" not in str(error)
        assert "/" not in str(error)
        await soon(checker.check(form(formats.regex("c")), "x"))

    runner.run(run())


def test_a_form_that_takes_too_long_is_refused_and_the_next_one_is_not(
    runner: asyncio.Runner,
) -> None:
    async def run() -> None:
        checker = GrammarChecker(str(DEMO), name="demo", seconds=0.5, hang_seconds=60)
        await soon(checker.check(form(formats.regex("a")), "x"))
        before = checker.pid
        error = await refusal(checker, formats.json_schema(SLOW, "s"))
        assert error.param == "asked"
        assert error.code is Code.INVALID_ARGUMENT
        assert "too complex" in str(error)
        await soon(checker.check(form(formats.regex("b")), "x"))
        assert checker.pid == before
        asked = checker.asked
        assert str(await refusal(checker, formats.json_schema(SLOW, "s"))) == str(error)
        assert checker.asked == asked
        await checker.close()

    runner.run(run())


def test_a_form_of_too_many_rules_is_refused(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    several = [formats.json_schema({**LARGE, "title": str(i)}, f"s{i}") for i in range(3)]
    error = runner.run(refusal(checker, formats.sequence(*several)))
    assert error.param == "s0"
    assert "too large" in str(error)


async def asked_while_stopped(
    checker: GrammarChecker, pattern: str
) -> tuple[asyncio.Task[Grammar], int]:
    """Stop the first process while it has a form to check; return the check and the process."""
    await soon(checker.check(form(formats.regex("first")), "x"))
    pid, asked = checker.pid, checker.asked
    assert pid is not None
    signal_process(pid, signal.SIGSTOP)
    check = asyncio.create_task(checker.check(form(formats.regex(pattern)), "x"))
    await until(lambda: checker.asked == asked + 1)
    return check, pid


def test_a_process_that_is_stopped_briefly_refuses_nothing(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        check, pid = await asked_while_stopped(checker, "b")
        signal_process(pid, signal.SIGCONT)
        assert (await soon(check)).text
        assert checker.pid == pid

    runner.run(run())


def test_a_form_is_retried_on_another_process_when_one_hangs(runner: asyncio.Runner) -> None:
    async def run() -> None:
        checker = GrammarChecker(str(DEMO), name="demo", seconds=20, hang_seconds=3)
        check, pid = await asked_while_stopped(checker, "b")
        assert (await soon(check)).text
        assert checker.pid not in (None, pid)
        await checker.close()

    runner.run(run())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_form_is_retried_when_its_process_is_killed_from_outside(
    checker: GrammarChecker, runner: asyncio.Runner, number: signal.Signals
) -> None:
    async def run() -> None:
        check, pid = await asked_while_stopped(checker, "b")
        signal_process(pid, number)
        signal_process(pid, signal.SIGCONT)
        assert (await soon(check)).text
        assert checker.pid not in (None, pid)

    runner.run(run())


def test_repeated_deaths_from_outside_are_not_blamed_on_the_form(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        check, pid = await asked_while_stopped(checker, "b")
        signal_process(pid, signal.SIGKILL)
        await until(lambda: checker.pid not in (None, pid))
        signal_process(checker.pid, signal.SIGKILL)  # while it loads
        with pytest.raises(RequestError) as raised:
            await soon(check)
        assert raised.value.code is Code.UNAVAILABLE
        assert raised.value.retry_after
        assert (await soon(checker.check(form(formats.regex("b")), "x"))).text

    runner.run(run())


def test_a_form_that_crashes_the_process_is_refused_and_not_retried(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        check, pid = await asked_while_stopped(checker, "b")
        asked = checker.asked
        signal_process(pid, signal.SIGSEGV)
        signal_process(pid, signal.SIGCONT)
        with pytest.raises(RequestError) as raised:
            await soon(check)
        assert raised.value.code is Code.INVALID_ARGUMENT
        assert str(await refusal(checker, formats.regex("b"))).count("asked") == 1
        assert checker.asked == asked
        assert (await soon(checker.check(form(formats.regex("c")), "x"))).text

    runner.run(run())


def hard(number: int) -> AnswerForm:
    """Return a form that takes some tenths of a second on this machine."""
    letters = "".join(f"[^{chr(0x61 + (number + i) % 26)}]" for i in range(300 + number))
    return form(formats.regex(letters))


def test_a_simple_form_does_not_wait_for_hard_ones(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        others = [asyncio.create_task(checker.check(hard(i), "x")) for i in range(40)]
        await until(lambda: len(checker.pids) == 2)
        schema = formats.json_schema(schema_of(a={"type": "string"}), "s")
        await soon(checker.check(form(schema), "x"))
        assert sum(other.done() for other in others) < 20
        for other in others:
            other.cancel()

    runner.run(run())


def test_forms_of_clients_that_left_are_not_begun(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        others = [asyncio.create_task(checker.check(hard(i), "x")) for i in range(30)]
        await until(lambda: checker.asked > 0)
        for other in others:
            other.cancel()
        await asyncio.wait(others)
        await soon(checker.check(form(formats.regex("a")), "x"))
        assert checker.asked <= 4

    runner.run(run())


def test_there_is_room_for_a_simple_form_among_too_many(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        others = [asyncio.create_task(checker.check(hard(i), "x")) for i in range(80)]
        await asyncio.sleep(0)
        assert (await soon(checker.check(form(formats.regex("a")), "x"))).text
        refused = [each for each in others if each.done()]
        assert refused
        for each in refused:
            error = each.exception()
            assert isinstance(error, RequestError)
            assert error.code is Code.RESOURCE_EXHAUSTED
        for each in others:
            each.cancel()

    runner.run(run())


def test_a_process_that_has_grown_is_replaced(
    checker: GrammarChecker, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_GROWN", -1)

    async def run() -> None:
        await soon(checker.check(form(formats.regex("a")), "x"))
        before = checker.pid
        assert before is not None
        await until(lambda: checker.pid != before)
        assert checker.pid is not None
        await until(lambda: not is_running(before))
        await soon(checker.check(form(formats.regex("b")), "x"))

    runner.run(run())


def test_a_process_without_hard_forms_ends(runner: asyncio.Runner) -> None:
    async def run() -> None:
        checker = GrammarChecker(
            str(DEMO), name="demo", seconds=20, hang_seconds=60, idle_seconds=0.01
        )
        await soon(checker.check(hard(0), "x"))
        await until(lambda: checker.pids == [checker.pid])
        await soon(checker.check(hard(1), "x"))
        await checker.close()

    runner.run(run())


def test_a_client_that_leaves_does_not_end_the_check_for_others(
    checker: GrammarChecker, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        asked = form(formats.regex("d+"))
        first = asyncio.create_task(checker.check(asked, "x"))
        second = asyncio.create_task(checker.check(asked, "x"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await soon(second)).text
        assert checker.asked == 1

    runner.run(run())


def test_closing_ends_the_process(runner: asyncio.Runner) -> None:
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
        assert error.code is Code.UNAVAILABLE
        assert error.retry_after
        assert str(tmp_path) not in str(error)
        await checker.close()

    runner.run(run())
