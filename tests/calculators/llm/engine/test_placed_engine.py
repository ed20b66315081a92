"""An engine in a place of its own: streams, stops, cancellations and errors reach through."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import EngineDown
from calculators.llm.engine.messages import VERSION, EngineReady
from calculators.llm.engine.placed_engine import EngineWork, PlacedEngine
from calculators.llm.engine.settings import EngineSettings
from graph_runtime import Cancelled, LoadProgress
from tests.calculators.here_place import HerePlace
from tests.calculators.llm.engine.engines import ENDLESS, part, read_all, read_for_ever
from tests.calculators.llm.engine.in_process_engine import InProcessEngine
from tests.calculators.llm.engine.scripted_pipeline import ScriptedPipeline
from tests.support.conditions import soon, until


async def placed() -> tuple[PlacedEngine, InProcessEngine]:
    """Return an engine in a place, and the scripted one that is there."""

    async def load(progress: LoadProgress) -> EngineReady:
        return EngineReady(VERSION, "CPU", "scripted", 0.0)

    there = InProcessEngine(ScriptedPipeline())
    place = HerePlace(lambda order: EngineWork(there, load))
    engine = PlacedEngine(EngineSettings(model_path=""), place, name="demo", paths=())
    assert (await engine.start()).engine == "scripted"
    return engine, there


def test_choices_of_all_parts_come_as_from_an_engine_here() -> None:
    async def run() -> None:
        engine, there = await placed()
        parts = [part(3), part(5), part(400)]
        generation = engine.submit(parts)
        assert engine.unfinished == 3
        gained = await read_all(generation, choices=3)
        assert gained == await read_all(there.submit(parts), choices=3)
        assert [each.reasons for each in gained] == [["length"]] * 3
        assert engine.unfinished == 0

    asyncio.run(run())


def test_a_stopped_choice_ends_there_and_the_others_go_on() -> None:
    async def run() -> None:
        engine, there = await placed()
        generation = engine.submit([part(ENDLESS), part(ENDLESS)])
        await soon(generation.read())
        await until(lambda: there.unfinished == 2)
        generation.cancel_choice(0)
        await until(lambda: there.unfinished == 1)
        while not all(choice == 1 for choice, _ in await soon(generation.read())):
            pass
        generation.cancel_choice(1)
        await until(lambda: there.unfinished == 0)
        assert engine.unfinished == 0

    asyncio.run(run())


def test_a_cancelled_generation_ends_there() -> None:
    async def run() -> None:
        engine, there = await placed()
        generation = engine.submit([part(ENDLESS)])
        await soon(generation.read())
        assert engine.running == 1
        generation.cancel()
        with pytest.raises(Cancelled):
            await read_for_ever(generation)
        assert engine.unfinished == 0
        await until(lambda: there.unfinished == 0)

    asyncio.run(run())


def test_errors_are_those_of_the_engine() -> None:
    async def run() -> None:
        engine, there = await placed()
        with pytest.raises(RequestError) as here:
            await read_for_ever(there.submit([part(prompt=b"")]))
        with pytest.raises(RequestError) as through:
            await read_for_ever(engine.submit([part(prompt=b"")]))
        assert str(through.value) == str(here.value)
        generation = engine.submit([part(ENDLESS)])
        await soon(generation.read())
        await engine.close()
        with pytest.raises(EngineDown, match='the engine of "demo" is shut down'):
            await read_for_ever(generation)
        with pytest.raises(EngineDown, match="shut down"):
            engine.submit([part()])

    asyncio.run(run())
