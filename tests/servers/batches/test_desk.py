"""The priority of the process that a server starts for its batches."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers.batches.desk import BatchDesk, give_lowest_priority
from servers.batches.objects import BatchSettings, Status, unix_seconds
from tests.servers.batches.samples import add_batch
from tests.support.patience import PATIENCE
from tests.support.processes import children_of

LOWEST = {(19, os.SCHED_IDLE)}


def priorities(pid: int) -> set[tuple[int, int]]:
    """Return niceness and policy of all threads of a process."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    fields = [text.rpartition(")")[2].split() for text in stats]
    return {(int(each[16]), int(each[38])) for each in fields}


@pytest.mark.parametrize("is_idle", [True, False])
def test_the_worker_has_the_lowest_priority_unless_it_is_normal(
    tmp_path: Path, is_idle: bool
) -> None:
    async def run() -> set[tuple[int, int]]:
        before = set(children_of(os.getpid()))
        settings = BatchSettings(tmp_path, worker_command=("cat",), is_idle=is_idle)
        desk = BatchDesk(settings)
        await desk.open()
        desk.begin()
        try:
            add_batch(desk.store, b"{}")
            async with asyncio.timeout(PATIENCE):
                while not desk.has_worker:  # noqa: ASYNC110 - the desk has no event
                    await asyncio.sleep(0.01)
            (worker,) = set(children_of(os.getpid())) - before
            return priorities(worker)
        finally:
            await desk.close()

    assert asyncio.run(run()) == (LOWEST if is_idle else priorities(os.getpid()))


def test_batches_end_while_no_worker_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_LOOK_SECONDS", "_EXPIRY_SECONDS", "_FIRST_DELAY"):
        monkeypatch.setattr(f"servers.batches.desk.{name}", 0.01)

    async def run() -> None:
        desk = BatchDesk(BatchSettings(tmp_path, worker_command=("false",), is_idle=False))
        await desk.open()
        expired = add_batch(desk.store, b"{}", expires_at=unix_seconds() - 1)
        cancelled = add_batch(desk.store, b"{}", owner="other")
        waiting = add_batch(desk.store, b"{}")
        desk.store.cancel(cancelled.id, "other", unix_seconds())
        desk.begin()
        try:
            async with asyncio.timeout(PATIENCE):
                while len(desk.store.unfinished()) > 1:  # noqa: ASYNC110 - the desk has no event
                    await asyncio.sleep(0.01)
        finally:
            store = desk.store
            found = [store.batch(expired.id, ""), store.batch(cancelled.id, "other")]
            assert [each.status for each in found] == [Status.EXPIRED, Status.CANCELLED]
            assert store.batch(waiting.id, "").status is Status.VALIDATING
            await desk.close()

    asyncio.run(run())


def test_threads_that_exist_get_the_lowest_priority_too() -> None:
    program = "import threading as t; t.Thread(target=input).start(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        give_lowest_priority(process.pid)
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 2
        assert priorities(process.pid) == LOWEST
        process.kill()
