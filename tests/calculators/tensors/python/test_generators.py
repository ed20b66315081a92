"""Handlers that yield, in cycles over LOOPBACK."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from calculators.tensors.python.instance import HandlerError
from graph_runtime import Code
from tests.calculators.tensors.python.running import GENERATIVE, loaded

WORDS = """
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs: list):
        for word in bytes(inputs[0]).decode().split():
            yield [Tensor("uppercase", word.upper().encode())]
"""

STEPS = """
import threading
from pyovms import Tensor

from tests.support.patience import PATIENCE

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.go_on = threading.Semaphore(0)
        self.waits = threading.Event()
        self.closed = threading.Event()

    def execute(self, inputs):
        try:
            for number in range(3):
                yield [Tensor("uppercase", str(number).encode())]
                self.waits.set()
                self.go_on.acquire(timeout=60)
        finally:
            self.closed.set()
"""


async def set_soon(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


def test_each_yield_is_a_packet_one_microsecond_later(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, GENERATIVE, isolation=isolation) as graph:
            run = await graph.run()
            run.add("the quick fox", 40)
            assert await run.texts() == [(40, "THE"), (41, "QUICK"), (42, "FOX")]

    asyncio.run(scenario())


def test_what_is_yielded_is_sent_before_the_next_is_computed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, STEPS, GENERATIVE) as graph:
            run = await graph.run("go")
            model = graph.model()
            for count in (1, 2, 3):
                await set_soon(model.waits)
                model.waits.clear()
                assert len(run.packets) == count
                model.go_on.release()
            assert await run.texts() == [(0, "0"), (1, "1"), (2, "2")]

    asyncio.run(scenario())


def test_a_session_can_generate_again(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, GENERATIVE, isolation=isolation) as graph:
            run = await graph.run("a b c")
            await run.idle()
            # If the client's timestamps are behind those of the answers, they continue where the
            # answers ended.
            run.add("d e", 1)
            await run.idle()
            run.add("f", 100)
            texts = [(0, "A"), (1, "B"), (2, "C"), (3, "D"), (4, "E"), (100, "F")]
            assert await run.texts() == texts

    asyncio.run(scenario())


def test_a_generator_may_yield_nothing(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, GENERATIVE, isolation=isolation) as graph:
            run = await graph.run("")
            await run.idle()
            run.add("a", 1)
            assert await run.texts() == [(1, "A")]

    asyncio.run(scenario())


def test_the_handler_of_a_node_with_a_loop_may_return_a_list(
    tmp_path: Path, isolation: str
) -> None:
    handler = WORDS.replace("yield [", "return [")

    async def scenario() -> None:
        async with loaded(tmp_path, handler, GENERATIVE, isolation=isolation) as graph:
            assert await (await graph.run("a", "b")).texts() == [(0, "A"), (1, "B")]

    asyncio.run(scenario())


def test_two_runs_generate_at_the_same_time(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, GENERATIVE, isolation=isolation) as graph:
            one, two = await graph.run("a b c"), await graph.run("x y z")
            assert await one.texts() == [(0, "A"), (1, "B"), (2, "C")]
            assert await two.texts() == [(0, "X"), (1, "Y"), (2, "Z")]

    asyncio.run(scenario())


def test_later_input_waits_for_the_end_of_a_generation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, STEPS, GENERATIVE) as graph:
            run = await graph.run("go")
            await set_soon(graph.model().waits)
            run.add("more", 50)
            graph.model().go_on.release(6)
            times = [time for time, _ in await run.texts()]
            assert times == [0, 1, 2, 50, 51, 52]

    asyncio.run(scenario())


def test_input_at_the_time_of_a_generation_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, STEPS, GENERATIVE) as graph:
            run = await graph.run("go")
            await set_soon(graph.model().waits)
            run.add("more", 1)
            graph.model().go_on.release(3)
            error = await run.failure()
            assert error.code is Code.RESOURCE_EXHAUSTED
            assert "Node is already processing data" in str(error)
            await set_soon(graph.model().closed)

    asyncio.run(scenario())


def test_a_generator_without_a_loop_is_refused(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, WORDS, isolation=isolation) as graph:
            error = await (await graph.run("a")).failure()
            assert isinstance(error, HandlerError)
            assert "the node has no LOOPBACK" in str(error)

    asyncio.run(scenario())
