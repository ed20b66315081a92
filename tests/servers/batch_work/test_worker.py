"""The worker of batches: every request is answered once, whatever ends it in between."""

from __future__ import annotations

import asyncio
import functools
import json
import resource
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

from servers.batch_work import worker
from servers.batch_work.worker import BatchWorker
from servers.batches.batch_lines import (
    BatchRequest,
    Findings,
    InputLine,
    LineReader,
    answer_line,
    check_lines,
)
from servers.batches.objects import (
    Batch,
    BatchAnswer,
    BatchSettings,
    Status,
    StoreError,
    TokenUsage,
    unix_seconds,
)
from servers.batches.store import BatchStore
from tests.servers.batches.samples import add_batch, line, lines_of, results_of
from tests.support.patience import PATIENCE

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    """Run a test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what another task or thread does to the store."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.01)


class Asked:
    """Answers requests, and records them. Without ``gate`` at once; else when it is open."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.requests: list[str] = []
        self.at_a_time = 0
        self.most = 0
        self._gate = gate

    async def ask(self, batch: int, number: int, request: BatchRequest) -> BatchAnswer:
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        try:
            if self._gate is not None and len(self.requests) >= 5:
                await self._gate.wait()
            await asyncio.sleep(0)
        finally:
            self.at_a_time -= 1
        self.requests.append(request.custom_id)
        body = json.dumps({"said": request.custom_id}).encode()
        text = answer_line("id", request.custom_id, status=200, body=body)
        usage = TokenUsage(2, 1)
        return BatchAnswer(batch=batch, line=number, is_error=False, text=text, usage=usage)


class HeldCheck:
    """Holds the check of a file at a line until `release` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.release = threading.Event()
        self._at = at
        monkeypatch.setattr("servers.batch_work.worker.check_lines", self._check)

    def _check(
        self,
        reader: LineReader,
        endpoint: str,
        most_requests: int,
        is_wanted: Callable[[Findings, int], bool],
    ) -> Findings:
        def look(findings: Findings, offset: int) -> bool:
            if findings.total == self._at:
                assert self.release.wait(PATIENCE)
            return is_wanted(findings, offset)

        return check_lines(reader, endpoint, most_requests, look)


def worker_of(store: BatchStore, asked: Asked, width: int = 4) -> BatchWorker:
    return BatchWorker(store, BatchSettings(store.directory, width=width), asked.ask)


async def work(store: BatchStore, asked: Asked, width: int = 4) -> None:
    await worker_of(store, asked, width).run(0)


def numbers(count: int, prefix: str = "request-") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@on_a_loop
async def test_every_request_of_a_batch_is_answered(store: BatchStore) -> None:
    batch = add_batch(store, lines_of([*map(line, range(200)), "no json", line(200, body=[])]))
    asked = Asked()
    await work(store, asked)
    found = store.batch(batch.id, "")
    assert found.status is Status.COMPLETED
    assert (found.total, found.completed, found.failed) == (202, 200, 2)
    assert found.usage == TokenUsage(400, 200)
    assert None not in (found.in_progress_at, found.finalizing_at, found.completed_at)
    assert asked.most == 4
    output, errors = results_of(store, batch)
    assert [each["custom_id"] for each in output] == numbers(200)
    assert output[3]["response"]["body"] == {"said": "request-3"}
    assert [each["custom_id"] for each in errors] == [None, "request-200"]
    assert {each["response"]["status_code"] for each in errors} == {400}
    assert "line 201 is not a JSON object" in errors[0]["response"]["body"]["error"]["message"]
    assert not store.answered_lines(batch.number, 0)


@on_a_loop
async def test_a_batch_that_cannot_begin_fails(store: BatchStore) -> None:
    batch = add_batch(store, lines_of([line(1), line(1)]))
    asked = Asked()
    await work(store, asked)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "duplicate_custom_id")
    assert found.failed_at is not None
    assert not asked.requests


@on_a_loop
async def test_committed_answers_are_not_asked_for_again(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(50))))
    asked = Asked(asyncio.Event())  # never open
    working = asyncio.create_task(work(store, asked))
    await until(lambda: store.batch(batch.id, "").completed >= 5)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    committed = store.batch(batch.id, "").completed
    assert committed == len(asked.requests)
    again = Asked()
    await work(store, again)
    assert len(again.requests) == 50 - committed
    assert Counter(asked.requests + again.requests) == Counter(numbers(50))
    output, errors = results_of(store, batch)
    assert [each["custom_id"] for each in output] == numbers(50)
    assert errors == []


@on_a_loop
async def test_results_are_written_once_more_after_an_end_in_between(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = add_batch(store, lines_of(map(line, range(10))))

    reached = threading.Event()
    release = threading.Event()

    def hold(*_: object, **__: object) -> None:
        reached.set()
        release.wait(PATIENCE)
        raise StoreError("killed here")

    monkeypatch.setattr(BatchStore, "finish", hold)
    working = asyncio.create_task(work(store, Asked()))
    await until(reached.is_set)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    release.set()
    assert store.batch(batch.id, "").status is Status.FINALIZING
    monkeypatch.undo()
    store.tidy()
    asked = Asked()
    await work(store, asked)
    assert not asked.requests
    assert store.batch(batch.id, "").status is Status.COMPLETED
    assert len(results_of(store, batch)[0]) == 10


@on_a_loop
async def test_a_cancelled_batch_keeps_its_answers(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(30))))
    asked = Asked(asyncio.Event())
    working = asyncio.create_task(work(store, asked))
    await until(lambda: store.batch(batch.id, "").completed >= 5)
    store.cancel(batch.id, "", unix_seconds())
    await working
    found = store.batch(batch.id, "")
    assert found.status is Status.CANCELLED
    assert found.cancelled_at is not None
    output, errors = results_of(store, batch)
    assert len(output) == found.completed >= 5
    assert len(output) + len(errors) == 30
    assert {each["error"]["code"] for each in errors} == {"batch_cancelled"}
    assert {each["response"] for each in errors} == {None}


@pytest.mark.parametrize("is_counted", [True, False])
@on_a_loop
async def test_a_batch_that_ends_before_it_begins_has_results_if_it_is_counted(
    store: BatchStore, is_counted: bool
) -> None:
    counted: dict[str, Any] = {"total": 3} if is_counted else {}
    lines = lines_of(map(line, range(3)))
    cancelled = add_batch(store, lines, **counted)
    store.cancel(cancelled.id, "", unix_seconds())
    expired = add_batch(store, lines, expires_at=unix_seconds(), **counted)
    asked = Asked()
    await work(store, asked)
    for batch, code in (cancelled, "batch_cancelled"), (expired, "batch_expired"):
        found = store.batch(batch.id, "")
        assert (found.is_finished, found.total) == (True, 3 * is_counted)
        output, errors = results_of(store, batch)
        assert not output
        assert [(each["custom_id"], each["error"]["code"]) for each in errors] == [
            (f"request-{number}", code) for number in range(3 * is_counted)
        ]


@on_a_loop
async def test_a_batch_expires(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(30))), expires_at=unix_seconds() + 3)
    asked = Asked(asyncio.Event())
    await work(store, asked)
    found = store.batch(batch.id, "")
    assert found.status is Status.EXPIRED
    assert found.expired_at is not None
    output, errors = results_of(store, batch)
    assert len(output) + len(errors) == 30
    assert {each["error"]["code"] for each in errors} == {"batch_expired"}


@on_a_loop
async def test_batches_take_turns(store: BatchStore, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: set[LineReader] = set()
    some_lines = worker._some_lines

    def noted(reader: LineReader) -> list[InputLine]:
        lines = some_lines(reader)
        readers.add(reader)
        return lines

    monkeypatch.setattr(worker, "_some_lines", noted)
    gate = asyncio.Event()
    asked = Asked(gate)
    first = add_batch(store, lines_of(map(line, range(400))))
    second = add_batch(
        store, lines_of(line(number, custom_id=f"second-{number}") for number in range(20))
    )
    working = asyncio.create_task(work(store, asked))
    # Both have lines to answer, which threads have read.
    await until(lambda: len(readers) == 2)
    gate.set()
    await working
    for batch in (first, second):
        assert store.batch(batch.id, "").status is Status.COMPLETED
    last_of_second = max(
        place for place, name in enumerate(asked.requests) if name.startswith("second")
    )
    assert last_of_second < 200  # and not behind the 400 of the first


@on_a_loop
async def test_a_full_disk_holds_batches_back_only_while_it_is_full(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._FULL_SECONDS", 0.01)
    caplog.set_level("INFO")
    batch = add_batch(store, lines_of(map(line, range(2000))))
    pages = store._connection.execute("pragma page_count").fetchone()[0]
    store._connection.execute(f"pragma max_page_count = {pages + 20}")
    working = asyncio.create_task(work(store, Asked(), 64))
    await until(lambda: "the disk for files and batches is full" in caplog.text)
    assert store.batch(batch.id, "").status is Status.IN_PROGRESS
    store._connection.execute("pragma max_page_count = 1000000")
    await working
    assert store.batch(batch.id, "").completed == 2000
    assert "batches go on" in caplog.text


@on_a_loop
async def test_a_large_file_begins_before_the_whole_of_it_is_checked(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._CHECKED_BYTES", 5000)
    held = HeldCheck(monkeypatch, at=500)
    batch = add_batch(store, lines_of(map(line, range(600))))
    asked = Asked()
    working = asyncio.create_task(work(store, asked))
    await until(lambda: store.batch(batch.id, "").completed >= 100)
    found = store.batch(batch.id, "")
    assert found.status is Status.IN_PROGRESS
    assert not found.is_checked
    assert 0 < found.total <= 500
    held.release.set()
    await working
    found = store.batch(batch.id, "")
    assert (found.status, found.total, found.completed) == (Status.COMPLETED, 600, 600)
    assert len(results_of(store, batch)[0]) == 600


@on_a_loop
async def test_a_fault_late_in_a_large_file_ends_its_batch(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._CHECKED_BYTES", 5000)
    held = HeldCheck(monkeypatch, at=500)
    batch = add_batch(store, lines_of([*map(line, range(600)), line(7)]))
    asked = Asked(asyncio.Event())  # never open: requests are in flight at the end
    working = asyncio.create_task(work(store, asked))
    await until(lambda: store.batch(batch.id, "").completed >= 5)
    held.release.set()
    await working
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "duplicate_custom_id")
    assert found.errors[0].line == 601
    assert found.output_file_id is None
    assert not store.answered_lines(batch.number, 0)


@on_a_loop
async def test_a_check_that_a_kill_interrupted_is_made_again(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._CHECKED_BYTES", 5000)
    held = HeldCheck(monkeypatch, at=50)
    batch = add_batch(store, lines_of(map(line, range(60))))
    first = Asked()
    working = asyncio.create_task(work(store, first))
    await until(lambda: store.batch(batch.id, "").completed == 60)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    held.release.set()
    assert not store.batch(batch.id, "").is_checked
    monkeypatch.undo()
    again = Asked()
    await work(store, again)
    found = store.batch(batch.id, "")
    assert (found.status, found.total, again.requests) == (Status.COMPLETED, 60, [])


@on_a_loop
async def test_a_large_batch_is_cancelled_while_it_is_checked(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._CHECKED_BYTES", 5000)
    held = HeldCheck(monkeypatch, at=50)
    batch = add_batch(store, lines_of(map(line, range(60))))
    working = asyncio.create_task(work(store, Asked(asyncio.Event())))
    await until(lambda: store.batch(batch.id, "").completed >= 5)
    store.cancel(batch.id, "", unix_seconds())
    await asyncio.sleep(0)
    held.release.set()
    await working
    found = store.batch(batch.id, "")
    assert (found.status, found.total) == (Status.CANCELLED, 60)
    output, errors = results_of(store, batch)
    assert len(output) + len(errors) == 60


@on_a_loop
async def test_results_that_find_no_room_are_written_once_there_is(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("servers.batch_work.worker._FULL_SECONDS", 0.01)
    batch = add_batch(store, lines_of(map(line, range(300))))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    taken = BatchStore.begin_finalizing

    def fill(self: BatchStore, number: int, now: int) -> None:
        taken(self, number, now)
        monkeypatch.setattr(BatchStore, "begin_finalizing", taken)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))

    monkeypatch.setattr(BatchStore, "begin_finalizing", fill)
    try:
        working = asyncio.create_task(work(store, Asked()))
        await until(lambda: "the disk for files and batches is full" in caplog.text)
        assert store.batch(batch.id, "").status is Status.FINALIZING
        await until(lambda: not list(store.uploads.iterdir()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    await working
    assert store.batch(batch.id, "").status is Status.COMPLETED
    assert len(results_of(store, batch)[0]) == 300
    assert not list(store.uploads.iterdir())


@on_a_loop
async def test_the_progress_is_shown(store: BatchStore) -> None:
    add_batch(store, lines_of(map(line, range(10))))
    seen: list[list[Batch]] = []
    await worker_of(store, Asked()).run(0, seen.append)
    assert len(seen[0]) == 1
    assert seen[-1] == []
