"""The report of the objects and tasks in the server's process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading

import pytest

from graph_runtime import CalculatorGraph
from servers.operations.process import process_state
from tests.servers.operations.own_process import in_own_process
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

_GRAPH = 'input_stream: "in"'
_REPORTS = 6
_OBJECTS = 300_000


def graphs_held() -> int:
    objects: dict[str, int] = process_state()["objects"]
    return objects.get("graph_runtime.graph.CalculatorGraph", 0)


def graphs_held_and_released() -> tuple[int, int]:
    async def look() -> tuple[int, int]:
        graphs = [CalculatorGraph(text_config=_GRAPH) for _ in range(100)]
        during = graphs_held()
        graphs.clear()
        return during, graphs_held()

    return asyncio.run(look())


def test_our_objects_are_counted_while_they_are_referenced() -> None:
    during, after = in_own_process(graphs_held_and_released)
    assert during >= 100
    assert during - after >= 92  # few are left out


def tasks_counted() -> dict[str, int]:
    async def waits() -> None:
        await asyncio.Event().wait()

    async def look() -> dict[str, int]:
        tasks = [asyncio.create_task(waits()) for _ in range(3)]
        counted: dict[str, int] = process_state()["tasks"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return counted

    return asyncio.run(look())


def test_tasks_have_the_names_of_what_they_run() -> None:
    (name,) = (name for name, count in in_own_process(tasks_counted).items() if count == 3)
    assert name.endswith("waits")


def report_beside_threads() -> None:
    """Report many times while threads create tuples, each of which has to get all its items."""

    async def look() -> None:
        process_state()

    ended = threading.Event()
    made: list[int] = []
    failed: list[BaseException] = []

    def make_tuples() -> None:
        try:
            while not ended.is_set():
                # Longer than the interpreter's switch interval.
                made.append(len(tuple(sum(range(100)) for _ in range(10_000))))
        except BaseException as error:
            failed.append(error)

    # A report takes several times as long as the interpreter waits before it switches threads.
    held: list[list[None]] = [[] for _ in range(_OBJECTS)]
    threads = [threading.Thread(target=make_tuples) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        # Both threads are nearly always within a tuple.
        for _ in range(_REPORTS):
            asyncio.run(look())
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert set(made) == {10_000}
    assert len(held) == _OBJECTS


def test_a_report_disturbs_no_thread_that_creates_objects() -> None:
    # A report of the tests' own process takes seconds, in which the threads compute as well.
    in_own_process(report_beside_threads)


#: In a process of its own, like a server: the tests' process has signal handlers of others.
_SERVER = """
import asyncio, logging, os, signal, sys
from servers.operations.process import logged_on_signal
from tests.support.patience import PATIENCE

class Told(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        told.set()

async def run():
    global told
    told = asyncio.Event()
    logger = logging.getLogger("servers.operations.process")
    logger.setLevel(logging.INFO)
    logger.addHandler(Told())
    with logged_on_signal():
        os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(told.wait(), PATIENCE)

asyncio.run(run())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the rest")
def test_a_signal_writes_the_report_to_the_log() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SERVER], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    state = json.loads(line.removeprefix("state of the process: "))
    assert state["memory_mib"] > 10
    assert state["descriptors"] > 2
    assert state["threads"]["MainThread"] == 1
    assert isinstance(state["children"], list)
