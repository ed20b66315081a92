"""One thread per handler: its calls never overlap, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from calculators.tensors.python import resources
from graph_runtime import RunError
from tests.calculators.tensors.python.running import GENERATIVE, loaded
from tests.calculators.tensors.python.test_generators import STEPS, set_soon
from tests.calculators.tensors.python.test_handlers import UPPERCASE

BLOCKING = """
import threading
from pyovms import Tensor

from tests.support.patience import PATIENCE

class OvmsPythonModel:
    def initialize(self, kwargs):
        self.began, self.go_on = threading.Event(), threading.Event()
        self.events = []
        self.threads = {threading.get_ident()}

    def execute(self, inputs):
        text = bytes(inputs[0]).decode()
        self.threads.add(threading.get_ident())
        self.events.append("begin " + text)
        self.began.set()
        self.go_on.wait(60)
        self.events.append("end " + text)
        return [Tensor("uppercase", text.encode())]

    def finalize(self):
        self.threads.add(threading.get_ident())
"""


def test_the_loop_goes_on_while_a_handler_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, BLOCKING) as graph:
            run = await graph.run("a")
            # Only a running loop can see that the call began, and end it.
            await set_soon(graph.model().began)
            graph.model().go_on.set()
            assert await run.texts() == [(0, "a")]

    asyncio.run(scenario())


def test_calls_of_one_handler_come_one_after_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, BLOCKING) as graph:
            model = graph.model()
            one, two = await graph.run("a"), await graph.run("b")
            await set_soon(model.began)
            model.go_on.set()
            await asyncio.gather(one.end(), two.end())
            assert model.events == ["begin a", "end a", "begin b", "end b"]
        assert len(model.threads) == 1
        assert threading.get_ident() not in model.threads

    asyncio.run(scenario())


def test_a_hanging_handler_delays_only_its_own_node(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "other").mkdir()
        async with (
            loaded(tmp_path, BLOCKING) as hangs,
            loaded(tmp_path / "other", UPPERCASE) as works,
        ):
            stuck = await hangs.run("a")
            await set_soon(hangs.model().began)
            assert await (await works.run("b")).texts() == [(0, "B")]
            hangs.model().go_on.set()
            await stuck.end()

    asyncio.run(scenario())


def test_cancelling_does_not_wait_for_the_handler_and_closes_its_generator(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, STEPS, GENERATIVE) as graph:
            model = graph.model()
            run = await graph.run("go")
            await set_soon(model.waits)
            run.graph.cancel()
            with pytest.raises(RunError):
                await run.graph.wait_until_done_async()
            assert len(run.packets) == 1
            assert not model.closed.is_set()
            model.go_on.release()
            await set_soon(model.closed)
            assert not model.go_on.acquire(blocking=False)

    asyncio.run(scenario())


def test_a_call_that_waits_for_its_turn_is_dropped_when_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, BLOCKING) as graph:
            model = graph.model()
            one, two = await graph.run("a"), await graph.run("b")
            await set_soon(model.began)
            two.graph.cancel()
            with pytest.raises(RunError):
                await two.graph.wait_until_done_async()
            model.go_on.set()
            await one.end()
        assert model.events == ["begin a", "end a"]

    asyncio.run(scenario())


def test_unloading_waits_for_finalize_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "FINALIZE_SECONDS", 0.01)

    async def scenario() -> None:
        async with loaded(tmp_path, BLOCKING) as graph:
            model = graph.model()
            run = await graph.run("a")
            await set_soon(model.began)
            run.graph.cancel()
            with pytest.raises(RunError):
                await run.graph.wait_until_done_async()
        model.go_on.set()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert 'node "node": finalize takes too long' in caplog.text
