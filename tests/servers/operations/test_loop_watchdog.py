"""A blocked event loop: its blocker is named at once, and a stop is not delayed."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Iterator

import pytest

from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    NodePlan,
    Out,
    Registry,
)
from servers.operations.loop_watchdog import LoopWatchdog, Stall
from tests.support.patience import PATIENCE

#: Longer than anything else here takes.
_STALL: float = 0.5

_GRAPH = """
input_stream: "in"
output_stream: "out"
node { name: "slow one" calculator: "Held" input_stream: "in" output_stream: "out" }
"""


class Seen(logging.Handler):
    """Lines of the watchdog's log; ``first`` is set with the first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.first.set()


@pytest.fixture
def seen() -> Iterator[Seen]:
    handler = Seen()
    logger = logging.getLogger("servers.operations.loop_watchdog")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class Watched:
    """A watchdog, and its reports."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []
        self.told = asyncio.Event()
        self.watchdog = LoopWatchdog(lambda node: f"<{node.name}>", self._note, _STALL)

    def _note(self, stall: Stall) -> None:
        self.stalls.append(stall)
        self.told.set()


def run_graph(seen: Seen, *, coroutine: bool) -> list[Stall]:
    """Run one call of a node that blocks the loop until the watchdog has reported it."""

    class Held(Calculator):
        value = In[int]()
        out = Out[int]()

        def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
            if coroutine:
                return self.later(cc)
            self.hold()
            return None

        async def later(self, cc: CalculatorContext) -> None:
            await asyncio.sleep(0)
            self.hold()

        def hold(self) -> None:
            assert seen.first.wait(PATIENCE)

    async def run() -> list[Stall]:
        registry = Registry(REGISTRY)
        registry.register_calculator(Held, "Held")
        graph = CalculatorGraph(text_config=_GRAPH, registry=registry)
        watched = Watched()
        with watched.watchdog:
            await graph.start_run_async()
            await graph.add_packet_to_input_stream_async("in", 1, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
            await asyncio.wait_for(watched.told.wait(), PATIENCE)
        return watched.stalls

    return asyncio.run(run())


@pytest.mark.parametrize("coroutine", [False, True])
def test_the_node_and_its_stack_are_reported(seen: Seen, coroutine: bool) -> None:
    (stall,) = run_graph(seen, coroutine=coroutine)
    assert isinstance(stall.node, NodePlan)
    assert stall.node.name == "slow one"
    assert stall.seconds >= _STALL
    held, turns = seen.lines
    assert "held by <slow one> at:" in held
    assert "in hold" in held
    assert turns.startswith("the event loop turns again after ")


def test_a_node_that_held_the_loop_for_less_is_named_afterwards(seen: Seen) -> None:
    """Long enough to be noticed, and too short to be reported while it lasts."""

    class Held(Calculator):
        value = In[int]()
        out = Out[int]()

        async def process(self, cc: CalculatorContext) -> None:
            assert not seen.first.wait(0.7 * _STALL)  # blocks the loop, as time.sleep does

    async def run() -> list[Stall]:
        registry = Registry(REGISTRY)
        registry.register_calculator(Held, "Held")
        graph = CalculatorGraph(text_config=_GRAPH, registry=registry)
        watched = Watched()
        with watched.watchdog:
            await graph.start_run_async()
            await graph.add_packet_to_input_stream_async("in", 1, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
            assert await asyncio.to_thread(seen.first.wait, PATIENCE)
        return watched.stalls

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == []
    (line,) = seen.lines
    assert re.match(r"<slow one> held the event loop for \d\.\d s, ", line)
    assert "time.sleep is `await asyncio.sleep`" in line


def test_code_outside_nodes_is_reported_by_its_stack_alone(seen: Seen) -> None:
    async def run() -> list[Stall]:
        watched = Watched()
        with watched.watchdog:
            assert seen.first.wait(PATIENCE)  # blocks the loop itself
            await asyncio.wait_for(watched.told.wait(), PATIENCE)
        return watched.stalls

    (stall,) = asyncio.run(run())
    assert stall.node is None
    assert "test_loop_watchdog.py" in seen.lines[0]


def test_a_running_loop_is_not_reported(seen: Seen) -> None:
    """Even if its timer is late now and then, and the watchdog is stopped."""
    stalls: list[Stall] = []

    async def run() -> None:
        with LoopWatchdog(str, stalls.append, 1.0) as watchdog:
            watchdog.stop_within(1.0)
            for _ in range(3):
                await asyncio.sleep(0.3)
                assert not seen.first.wait(0.1)  # blocks the loop for a shorter time

    asyncio.run(run())
    assert (stalls, seen.lines) == ([], [])


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_blocked_loop_does_not_delay_an_end(seen: Seen, is_asked: bool) -> None:
    async def run() -> list[int]:
        exits: list[int] = []
        exited = threading.Event()

        def exit_process(code: int) -> None:
            exits.append(code)
            exited.set()

        most = None if is_asked else 2 * _STALL
        with LoopWatchdog(str, lambda stall: None, _STALL, exit_process, most) as watchdog:
            if is_asked:
                watchdog.stop_within(2 * _STALL)
            assert exited.wait(PATIENCE)  # blocks the loop
        return exits

    assert asyncio.run(run()) == [1]
    start = "asked to stop, and the event loop" if is_asked else "the event loop has not turned"
    assert any(line.startswith(start) and "ending" in line for line in seen.lines)
