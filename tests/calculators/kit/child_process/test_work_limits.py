"""Limits of a piece of work of a child: processor time counts."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from calculators.kit.child_process.supervisor import Overrun, WorkLimit, cpu_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processor time is read on Linux")


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def overrun(pid: int, cpu: float, wall: float) -> Overrun:
    told: asyncio.Future[Overrun] = asyncio.get_running_loop().create_future()
    limit = WorkLimit(pid, cpu=cpu, wall=wall, on_overrun=told.set_result)
    try:
        return await asyncio.wait_for(told, 60)
    finally:
        limit.stop()


def test_a_child_that_computes_passes_its_limit_of_processor_time() -> None:
    with child("while True: pass") as process:
        assert asyncio.run(overrun(process.pid, cpu=0.2, wall=50.0)) is Overrun.CPU


def test_a_stopped_child_passes_the_limit_of_wall_time_only() -> None:
    with child("while True: pass") as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert asyncio.run(overrun(process.pid, cpu=0.2, wall=0.6)) is Overrun.WALL


def test_only_processor_time_since_the_beginning_counts() -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); time.sleep(60)"

    async def used(pid: int) -> float:
        return WorkLimit(pid, cpu=9, wall=9, on_overrun=lambda kind: None).stop()

    with child(busy) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert (cpu_seconds(process.pid) or 0) >= 0.5
        assert asyncio.run(used(process.pid)) < 0.25


def test_a_process_that_has_ended_has_no_processor_time() -> None:
    with child("pass") as process:
        process.wait()
        assert cpu_seconds(process.pid) is None
