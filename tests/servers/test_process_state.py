"""A look at what the server's process holds."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys

import pytest

from graph_runtime import CalculatorGraph
from servers.process_state import logged_on_signal, process_state

_GRAPH = 'input_stream: "in"'


def graphs_held() -> int:
    objects: dict[str, int] = process_state()["objects"]
    return objects.get("graph_runtime.graph.CalculatorGraph", 0)


def test_objects_of_ours_are_counted_while_somebody_holds_them() -> None:
    async def look() -> tuple[int, int]:
        graphs = [CalculatorGraph(text_config=_GRAPH) for _ in range(100)]
        during = graphs_held()
        graphs.clear()
        return during, graphs_held()

    during, after = asyncio.run(look())
    assert during >= 100
    assert during - after >= 92  # few are left out


def test_tasks_have_the_names_of_what_they_run() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def look() -> dict[str, int]:
        tasks = [asyncio.create_task(waits()) for _ in range(3)]
        counted: dict[str, int] = process_state()["tasks"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return counted

    (name,) = (name for name, count in asyncio.run(look()).items() if count == 3)
    assert name.endswith("waits")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the rest")
def test_a_signal_writes_it_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        with logged_on_signal():
            os.kill(os.getpid(), signal.SIGUSR1)
            while not caplog.messages:  # noqa: ASYNC110 - the handler runs in some later turn
                await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "servers.process_state"):
        asyncio.run(asyncio.wait_for(run(), 10.0))
    (line,) = caplog.messages
    state = json.loads(line.removeprefix("state of the process: "))
    assert state["memory_mib"] > 10
    assert state["descriptors"] > 2
    assert state["threads"]["MainThread"] == 1
    assert isinstance(state["children"], list)
