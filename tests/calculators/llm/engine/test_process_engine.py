"""The engine in its own process: the library's answers, and restarts after its death."""

from __future__ import annotations

import asyncio
import platform
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openvino
import openvino_genai as genai
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import EngineDown, EngineGeneration, ProcessEngine
from calculators.llm.engine.library_config import generation_config
from graph_runtime import Code
from tests.calculators.llm.demo_model import DEMO, demo_tokenizer
from tests.calculators.llm.engine.engines import (
    ENDLESS,
    demo_engine,
    generate,
    part,
    read_for_ever,
)
from tests.support.conditions import signal_process, soon, until
from tests.support.processes import is_running

TEXTS = ["What is the capital of France?", "user\nHello", "1 2 3 4", "Ž"]

pytestmark = pytest.mark.python_children


@pytest.fixture(scope="module")
def engine(runner: asyncio.Runner) -> Iterator[ProcessEngine]:
    engine = runner.run(demo_engine())
    yield engine
    runner.run(engine.close())


@pytest.fixture(scope="module")
def library() -> Any:
    return genai.ContinuousBatchingPipeline(str(DEMO), genai.SchedulerConfig(), "CPU", {})


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "settings",
    [{"tokens": 40}, {"tokens": 12, "beams": 4, "choices": 3}, {"tokens": 12, "beams": 3}],
    ids=["greedy", "beams", "one of the beams"],
)
def test_answers_are_those_of_the_library(
    engine: ProcessEngine,
    library: Any,
    runner: asyncio.Runner,
    text: str,
    settings: dict[str, int],
) -> None:
    prompt = demo_tokenizer().encode(text).input_ids
    asked = part(prompt=prompt.data.tobytes(), **settings)
    config = generation_config(asked.settings)
    expected = library.generate([openvino.Tensor(prompt.data)], [config])[0].m_generation_ids
    gained = runner.run(generate(engine, asked, choices=settings.get("choices", 1)))
    assert gained[0].ids == expected[0]
    # Beams of the same score have no order.
    assert sorted(each.ids for each in gained) == sorted(expected)


def test_a_seed_makes_sampling_repeatable(engine: ProcessEngine, runner: asyncio.Runner) -> None:
    async def run(seed: int) -> list[int]:
        asked = part(30, do_sample=True, temperature=1.5, rng_seed=seed)
        return (await generate(engine, asked))[0].ids

    first = runner.run(run(1))
    assert runner.run(run(1)) == first
    assert any(runner.run(run(seed)) != first for seed in range(2, 6))


def test_log_probabilities_are_sent_with_their_tokens(
    engine: ProcessEngine, runner: asyncio.Runner
) -> None:
    (gained,) = runner.run(generate(engine, part(10, logprobs=True)))
    assert len(gained.logprobs) == len(gained.ids) == 10
    assert all(each <= 0 for each in gained.logprobs)
    (gained,) = runner.run(generate(engine, part(10)))
    assert gained.logprobs == []


def test_an_echo_begins_with_the_prompt(engine: ProcessEngine, runner: asyncio.Runner) -> None:
    (gained,) = runner.run(generate(engine, part(3, echo=True)))
    assert gained.ids[:20] == list(range(40, 60))
    assert len(gained.ids) == 23


@pytest.mark.parametrize(
    "settings",
    [{"temperature": -1.0, "do_sample": True}, {"top_p": 7.0, "do_sample": True}],
)
def test_a_refusal_of_the_library_is_reported_without_its_internals(
    engine: ProcessEngine, runner: asyncio.Runner, settings: dict[str, Any]
) -> None:
    with pytest.raises(RequestError) as caught:
        runner.run(generate(engine, part(**settings)))
    assert caught.value.code is Code.INVALID_ARGUMENT
    text = str(caught.value)
    assert text
    assert not any(word in text for word in (".cpp", "Check '", "/"))
    assert engine.unfinished == 0


def test_a_killed_engine_fails_each_generation_once_and_is_restarted() -> None:
    async def ends(generation: EngineGeneration) -> list[EngineDown]:
        failures: list[EngineDown] = []
        try:
            await read_for_ever(generation)
        except EngineDown as error:
            failures.append(error)
        assert generation.is_finished
        return failures

    async def run() -> None:
        engine = await demo_engine()
        generations = [engine.submit([part(ENDLESS)]) for _ in range(8)]
        for generation in generations:
            await soon(generation.read())
        reading = [asyncio.create_task(ends(generation)) for generation in generations]
        old = engine.pid
        assert old is not None
        signal_process(old, signal.SIGKILL)
        failures = await soon(asyncio.gather(*reading))
        assert [len(each) for each in failures] == [1] * 8
        for (failure,) in failures:
            assert failure.code is Code.UNAVAILABLE
            assert failure.retry_after is not None
            assert str(failure) == 'the engine of "demo" stopped; it is being started again'
        assert engine.unfinished == 0
        assert engine.metrics.running == 0
        with pytest.raises(EngineDown, match="is starting"):
            engine.submit([part()])
        assert "SIGKILL" in engine.unavailable_reason
        await until(lambda: not engine.unavailable_reason)
        assert engine.restarts == 1
        assert not is_running(old)
        assert len((await generate(engine, part(5)))[0].ids) == 5
        await engine.close()

    asyncio.run(run())


def test_a_hanging_engine_is_replaced() -> None:
    async def run() -> None:
        engine = await demo_engine(hang_seconds=0.4)
        pid = engine.pid
        signal_process(pid, signal.SIGSTOP)
        generation = engine.submit([part()])
        with pytest.raises(EngineDown):
            await read_for_ever(generation)
        await until(lambda: not engine.unavailable_reason)
        assert engine.pid != pid
        await engine.close()

    asyncio.run(run())


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    not HUGE_PAGES.is_file()
    or "[never]" in HUGE_PAGES.read_text()
    or platform.libc_ver() < ("glibc", "2.35"),
    reason="needs huge pages of Linux, and a C library that asks for them",
)
def test_the_engines_memory_is_in_huge_pages(engine: ProcessEngine) -> None:
    mappings = Path(f"/proc/{engine.pid}/smaps").read_text()
    sizes = [int(line.split()[1]) for line in mappings.splitlines() if "AnonHugePages:" in line]
    assert sum(sizes) > 0


def test_the_operators_settings_of_the_allocator_are_kept(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")

    engine = runner.run(demo_engine())
    variables = Path(f"/proc/{engine.pid}/environ").read_bytes().split(b"\0")
    runner.run(engine.close())
    assert b"GLIBC_TUNABLES=glibc.malloc.arena_max=2" in variables
