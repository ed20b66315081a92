"""Children that several workers share: one process, answers for each, ends for all."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
from pathlib import Path

import pytest

from calculators.kit.child_process.child_pool import ChildPool
from calculators.kit.child_process.supervisor import ChildState, LoadError
from tests.calculators.kit.child_process.sharing import SharingWorkers, with_workers
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import until
from tests.support.processes import is_running


async def started(workers: SharingWorkers, number: int, script: str = "ready") -> Supervised:
    with workers.worker(number):
        made = Supervised(script, is_shared=True)
        await made.start()
    return made


@with_workers
async def test_two_workers_get_their_own_answers_from_one_process(workers: SharingWorkers) -> None:
    one, other = await asyncio.gather(started(workers, 1), started(workers, 2))
    assert one.pid == other.pid
    questions = [f"{name} {count}" for count in range(50) for name in ("one", "other")]
    for question in questions:
        (one if question.startswith("one") else other).say(question)
    await until(lambda: not one.owed and not other.owed)
    assert [each.text for each in one.answers] == questions[::2]
    assert [each.text for each in other.answers] == questions[1::2]
    large = "x" * 3_000_000
    assert await one.ask(large) == large
    await one.close()
    await other.close()


@with_workers
async def test_a_worker_that_closes_leaves_the_process_to_the_others(
    workers: SharingWorkers,
) -> None:
    one, other = await started(workers, 1), await started(workers, 2)
    pid = one.pid
    assert pid is not None
    await one.close()
    assert one.state is ChildState.CLOSED
    assert await other.ask("still") == "still"
    await other.close()
    await until(lambda: not is_running(pid))


@with_workers
async def test_a_worker_that_has_died_is_forgotten_and_a_new_one_finds_the_process(
    workers: SharingWorkers,
) -> None:
    one, other = await started(workers, 1), await started(workers, 2)
    workers.pool.forget(1)
    again = await started(workers, 1)
    assert again.pid == other.pid == one.pid
    assert await again.ask("here") == "here"
    await again.close()
    await other.close()
    await one.close()


@with_workers
async def test_the_end_of_a_shared_process_is_reported_to_all_and_one_takes_its_place(
    workers: SharingWorkers,
) -> None:
    one, other = await started(workers, 1), await started(workers, 2)
    pid = one.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: bool(one.backs and other.backs))
    assert one.downs == other.downs == ["it was ended by SIGKILL"]
    assert pid != one.pid == other.pid
    assert await one.ask("one") == "one"
    assert await other.ask("other") == "other"
    await one.close()
    await other.close()


@with_workers
async def test_a_process_that_one_worker_kills_is_gone_for_all(workers: SharingWorkers) -> None:
    one, other = await started(workers, 1), await started(workers, 2)
    one.kill("it took too long")
    await until(lambda: bool(one.downs and other.downs))
    assert one.downs == other.downs == ["it took too long"]
    assert not other.has_crashed
    await one.close()
    await other.close()


@with_workers
async def test_one_worker_that_wants_the_same_twice_gets_two_processes(
    workers: SharingWorkers,
) -> None:
    one, second = await started(workers, 1), await started(workers, 1)
    other = await started(workers, 2)
    assert one.pid == other.pid != second.pid
    for each in (one, second, other):
        await each.close()


@with_workers
async def test_a_load_that_fails_is_reported_to_each_worker(workers: SharingWorkers) -> None:
    for number in (1, 2):
        with pytest.raises(LoadError, match="no such file"):
            await started(workers, number, "fail no such file")


def test_only_this_user_reaches_the_sockets_which_are_removed_at_the_end() -> None:
    folders = []

    async def scenario(workers: SharingWorkers) -> None:
        one = await started(workers, 1)
        folder = workers.pool.folder
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert len(set(os.listdir(folder)) - {"lock"}) == 1
        folders.append(folder)
        await one.close()

    with_workers(scenario)()
    assert not os.path.exists(folders[0])


@with_workers
async def test_a_cleaner_of_temporary_files_ends_nothing(workers: SharingWorkers) -> None:
    one = await started(workers, 1)
    shutil.rmtree(workers.pool.folder)
    # The process goes on for those that have it; another worker gets one in a new folder.
    other = await started(workers, 2)
    assert other.pid != one.pid
    assert await one.ask("still") == "still"
    assert await other.ask("here") == "here"
    await one.close()
    await other.close()


def test_folders_of_servers_that_were_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def scenario() -> None:
        living = ChildPool()
        left = tmp_path / "graphrt-workers-left"
        left.mkdir()
        (left / "lock").touch()
        other = ChildPool()
        assert set(os.listdir(tmp_path)) == {Path(each.folder).name for each in (living, other)}
        await living.close()
        await other.close()
        assert os.listdir(tmp_path) == []

    asyncio.run(scenario())
