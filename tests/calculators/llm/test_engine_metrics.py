"""Metrics of an engine as its requests arrive and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from calculators.llm.engine.engine import watch_engine
from graph_runtime import NO_METRICS, MetricHistogram
from graph_runtime.authoring.metrics import NO_LABELS, SECONDS
from tests.calculators.llm.engine.engines import ENDLESS, demo_engine, part, scripted_engine
from tests.support.conditions import until


class Followed:
    """A metric that records what it follows."""

    def __init__(self) -> None:
        self.read: Callable[[], float] | None = None

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        self.read = read

        def end() -> None:
            self.read = None

        return end

    def add(self, amount: float = 1) -> None:
        raise AssertionError("everything is followed")

    def set(self, value: float) -> None:
        raise AssertionError("everything is followed")


class Board:
    """`NodeMetrics` that a test can read."""

    def __init__(self) -> None:
        self.metrics: dict[str, Followed] = {}

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> Followed:
        return self.metrics.setdefault(name.removeprefix("graphrt_llm_"), Followed())

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> Followed:
        return self.counter(name, help, labels)

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        return NO_METRICS.histogram(name, help)

    def values(self, *names: str) -> list[float]:
        reads = [self.metrics[name].read for name in names]
        return [read() for read in reads if read is not None]


QUEUE = ("requests_running", "requests_waiting")


def test_requests_count_as_waiting_and_then_as_running() -> None:
    async def run() -> None:
        engine, board = await scripted_engine(), Board()
        end = watch_engine(board, engine)
        assert board.values(*QUEUE) == [0, 0]
        generations = [engine.submit([part(ENDLESS)]) for _ in range(2)]
        assert board.values(*QUEUE) == [0, 2]
        for generation in generations:
            await generation.read()
        assert board.values(*QUEUE) == [2, 0]
        assert board.values("kv_cache_usage_ratio", "engine_up") == [0.2, 1]
        generations[0].cancel()
        # At once, although the engine has not reported yet.
        assert sum(board.values(*QUEUE)) == 1
        generations[1].cancel()
        assert board.values(*QUEUE) == [0, 0]
        await engine.close()
        assert board.values("engine_up", "engine_restarts") == [0, 0]
        end()
        assert board.values(*QUEUE, "engine_up", "engine_restarts", "kv_cache_bytes") == []

    asyncio.run(run())


def test_a_restarted_process_is_counted() -> None:
    async def run() -> None:
        engine, board = await demo_engine(), Board()
        watch_engine(board, engine)
        generation = engine.submit([part(ENDLESS)])
        await generation.read()
        await until(lambda: board.values("kv_cache_bytes")[0] > 0)
        engine.kill("the test says so")
        await until(lambda: board.values("engine_up", "engine_restarts") == [1, 1])
        assert board.values(*QUEUE) == [0, 0]
        await engine.close()

    asyncio.run(run())
