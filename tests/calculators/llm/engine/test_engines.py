"""Behaviour of every engine: the scripted one in this process, the real one in its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import Engine, EngineDown
from graph_runtime import Cancelled
from tests.calculators.llm.engine.engines import ENDLESS, ENGINES, part, read_all, read_for_ever
from tests.support.conditions import soon, until


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, runner: asyncio.Runner) -> Iterator[Engine]:
    engine = runner.run(soon(ENGINES[request.param]()))
    yield engine
    runner.run(engine.close())


def test_a_generation_is_read_to_its_end(engine: Engine, runner: asyncio.Runner) -> None:
    async def run() -> None:
        generation = engine.submit([part(8)])
        assert engine.unfinished == 1
        (gained,) = await read_all(generation)
        assert len(gained.ids) == 8
        assert gained.reasons == ["length"]
        assert engine.unfinished == 0
        assert generation.is_finished

    runner.run(run())


def test_the_choices_are_numbered_part_by_part(engine: Engine, runner: asyncio.Runner) -> None:
    async def run() -> None:
        parts = [part(3), part(5, choices=2, beams=2), part(4)]
        generation = engine.submit(parts)
        assert engine.unfinished == 3
        gained = await read_all(generation, choices=4)
        assert len(gained[0].ids) == 3
        assert len(gained[3].ids) == 4
        assert all(1 <= len(beam.ids) <= 5 for beam in gained[1:3])
        assert [len(each.reasons) for each in gained] == [1, 1, 1, 1]

    runner.run(run())


def test_concurrent_generations_do_not_mix(engine: Engine, runner: asyncio.Runner) -> None:
    async def run() -> None:
        lengths = range(1, 17)
        alone = (await read_all(engine.submit([part(16)])))[0].ids
        together = await asyncio.gather(
            *(read_all(engine.submit([part(length)])) for length in lengths)
        )
        assert [gained.ids for (gained,) in together] == [alone[:length] for length in lengths]

    runner.run(run())


def test_a_cancelled_generation_frees_its_cache(engine: Engine, runner: asyncio.Runner) -> None:
    async def run() -> None:
        generations = [engine.submit([part(ENDLESS)]) for _ in range(4)]
        for generation in generations:
            await soon(generation.read())
        await until(lambda: engine.metrics.running == 4)
        assert engine.metrics.cache_usage > 0
        steps = engine.metrics.steps
        for generation in generations:
            generation.cancel()
            generation.cancel()
        assert engine.unfinished == 0
        seconds = await until(
            lambda: (
                engine.metrics.steps > steps
                and (engine.metrics.running, engine.metrics.waiting) == (0, 0)
                and engine.metrics.cache_usage == 0
            )
        )
        print(f"the cache was free after {1000 * seconds:.0f} ms")

    runner.run(run())


def test_a_reader_of_a_cancelled_generation_gets_an_error(
    engine: Engine, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        generation = engine.submit([part(ENDLESS)])
        reading = asyncio.create_task(read_for_ever(generation))
        await asyncio.sleep(0)
        generation.cancel()
        with pytest.raises(Cancelled):
            await soon(reading)
        assert generation.is_finished

    runner.run(run())


def test_a_bad_request_disturbs_no_other(engine: Engine, runner: asyncio.Runner) -> None:
    async def run() -> None:
        before = engine.submit([part(20)])
        bad = engine.submit([part(20), part(prompt=b"")])
        after = engine.submit([part(20)])
        with pytest.raises(RequestError) as caught:
            await read_for_ever(bad)
        assert not isinstance(caught.value, EngineDown)
        assert "/" not in str(caught.value)
        assert len((await read_all(before))[0].ids) == 20
        assert len((await read_all(after))[0].ids) == 20
        assert engine.unfinished == 0

    runner.run(run())


def test_a_closed_engine_refuses_requests() -> None:
    async def run() -> None:
        for make in ENGINES.values():
            engine = await make()
            generation = engine.submit([part(ENDLESS)])
            await soon(engine.close())
            with pytest.raises(EngineDown, match="shut down"):
                await read_for_ever(generation)
            with pytest.raises(EngineDown, match="shut down"):
                engine.submit([part()])
            assert "shut down" in engine.unavailable_reason

    asyncio.run(run())
