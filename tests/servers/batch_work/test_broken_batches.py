"""What is wrong with a line or a batch is an error of that line or batch, and of no other."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from servers.batch_work.worker import BatchWorker
from servers.batches import batch_lines
from servers.batches.batch_lines import BatchRequest, InputLine, answer_line
from servers.batches.objects import (
    Batch,
    BatchAnswer,
    BatchSettings,
    Phase,
    Status,
    StoreError,
    unix_seconds,
)
from servers.batches.store import BatchStore
from tests.servers.batches.samples import CHAT, add_batch, line, lines_of, results_of
from tests.support.broken_files import BYTES, INSTEAD, remove
from tests.support.patience import PATIENCE
from tests.support.powers import without_powers

DEEP = "[" * 1000 + "]" * 1000
OBJECTS = '{"a":' * 1000 + "1" + "}" * 1000


async def ask(batch: int, number: int, request: BatchRequest) -> BatchAnswer:
    text = answer_line("id", request.custom_id, status=200, body=b"{}")
    return BatchAnswer(batch=batch, line=number, is_error=False, text=text)


def work(store: BatchStore, answer: Any = ask, *, width: int = 4) -> None:
    worker = BatchWorker(store, BatchSettings(store.directory, width=width), answer)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE):
            await worker.run(0)

    asyncio.run(run())


def add_sound(store: BatchStore, count: int = 5) -> Batch:
    """Add a batch of another client, with which nothing is wrong."""
    return add_batch(store, lines_of(map(line, range(count))), owner="another key")


def assert_completed(store: BatchStore, batch: Batch, count: int = 5) -> None:
    found = store.batch(batch.id, batch.owner)
    assert (found.status, found.completed, found.failed) == (Status.COMPLETED, count, 0)


def with_body(body: str) -> str:
    return f'{{"custom_id": "bad", "url": "{CHAT}", "body": {body}}}'


def with_id(custom_id: str) -> str:
    return f'{{"custom_id": {custom_id}, "url": "{CHAT}", "body": {{}}}}'


BAD_LINES = {
    "deep list in the body": with_body(f'{{"messages": {DEEP}}}'),
    "deep objects in the body": with_body(OBJECTS),
    "deep list as the body": with_body(DEEP),
    "deep list in an unknown member": with_id('"bad"')[:-1] + f', "more": {DEEP}}}',
    "deep list as the identifier": with_id(DEEP),
    "deep list as the method": with_id('"bad"')[:-1] + f', "method": {DEEP}}}',
    "deep list as the model": with_body(f'{{"model": {DEEP}}}'),
    "deep list that does not end": with_body("[" * 5000),
    "deep list as the line": DEEP,
    "half a surrogate": with_id('"\\ud800"'),
    "half a surrogate in the model": with_body('{"model": "\\udfff"}'),
    "a number without end": with_id("1" * 5000),
    "a number beyond every range": with_body('{"model": 1e999999}'),
    "not a number": with_body('{"model": NaN}'),
    "a control character": with_id('"a\x00b"'),
    "an end in the middle": with_body('{"messages": [')[:-1],
    "something after the end": with_body("{}") + "}",
    "bytes that are not text": with_id('"\udcff\udcfe"'),
    "a mark of byte order": "\ufeff" + with_body("[]"),
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
def test_a_bad_line_has_its_error_and_all_others_run(
    store: BatchStore, bad: str, is_first: bool
) -> None:
    good = lines_of(map(line, range(3)))
    text = bad.encode("utf-8", "surrogateescape") + b"\n"
    batch = add_batch(store, text + good if is_first else good + text)
    other = add_sound(store)
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.completed, found.failed) == (Status.COMPLETED, 3, 1)
    _, (error,) = results_of(store, batch)
    assert error["response"]["status_code"] == 400
    assert f"line {1 if is_first else 4}" in error["response"]["body"]["error"]["message"]
    assert_completed(store, other)


PATHS = ["\x00", "\r\n", "\x7f", " ", "?a=b", "#a", "\\", "%", "%zz", "é", "\t", "/x" * 2000]


@pytest.mark.parametrize("end", PATHS)
def test_a_url_that_is_no_path_is_an_error_of_its_line(store: BatchStore, end: str) -> None:
    requests = [line(1), line(2, url=CHAT + end), line(3)]
    batch = add_batch(store, lines_of(requests), endpoint="")
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.completed, found.failed) == (Status.COMPLETED, 2, 1)


@pytest.mark.parametrize("end", PATHS)
def test_an_endpoint_that_is_no_path_fails_its_batch(store: BatchStore, end: str) -> None:
    # As earlier versions let clients make them.
    batch = add_batch(store, lines_of([line(1, url=CHAT + end)]), endpoint=CHAT + end)
    other = add_sound(store)
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "invalid_url")
    assert_completed(store, other)


class OddError(BaseException):
    """No `Exception`, as some libraries have them."""


READING_ERRORS = [
    RecursionError(), ValueError(), MemoryError(), KeyError(1), OSError(5), AssertionError()
]  # fmt: skip
ERRORS = [*READING_ERRORS, OddError(), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_no_error_of_a_line_reaches_others(
    store: BatchStore, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = batch_lines._request_of

    def read_or_fail(found: InputLine, endpoint: str) -> BatchRequest:
        if found.number == 2:
            raise error if isinstance(error, Exception) else ValueError
        return read(found, endpoint)

    async def answer_or_fail(batch: int, number: int, request: BatchRequest) -> BatchAnswer:
        if number == 3:
            raise error
        return await ask(batch, number, request)

    monkeypatch.setattr(batch_lines, "_request_of", read_or_fail)
    batch = add_batch(store, lines_of(map(line, range(5))))
    work(store, answer_or_fail)
    found = store.batch(batch.id, "")
    assert (found.status, found.completed, found.failed) == (Status.COMPLETED, 3, 2)
    _, (unread, unanswered) = results_of(store, batch)
    assert unread["response"]["body"]["error"]["message"] == "line 2 cannot be read"
    assert unanswered["custom_id"] == "request-2"
    assert unanswered["error"]["code"] == "internal_error"


DAMAGED_INPUTS = {**INSTEAD, "cut": BYTES["cut"], "empty": BYTES["empty"]}


@pytest.mark.parametrize("damage", DAMAGED_INPUTS.values(), ids=DAMAGED_INPUTS)
def test_a_batch_whose_input_is_damaged_fails(
    store: BatchStore, damage: Callable[[Path], None]
) -> None:
    batch = add_batch(store, lines_of(map(line, range(5))))
    other = add_sound(store)
    damage(store.path_of(batch.input_file_id))
    with without_powers():
        work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "input_file_unreadable")
    assert batch.input_file_id in found.errors[0].message
    assert str(store.directory) not in found.errors[0].message
    assert_completed(store, other)


def test_flipped_bytes_of_an_input_are_errors_of_lines(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(5))))
    other = add_sound(store)
    BYTES["flipped"](store.path_of(batch.input_file_id))
    work(store)
    found = store.batch(batch.id, "")
    assert found.is_finished
    assert found.completed == 0
    assert_completed(store, other)


def test_a_batch_whose_input_vanishes_keeps_its_answers(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(400))))

    async def answer(number: int, line_number: int, request: BatchRequest) -> BatchAnswer:
        if line_number == 5:
            remove(store.path_of(batch.input_file_id))
        return await ask(number, line_number, request)

    work(store, answer)  # the file is open: nobody notices
    assert_completed(store, batch, 400)


def test_a_folder_of_files_that_is_gone_fails_the_batches_that_need_it(store: BatchStore) -> None:
    batches = [add_batch(store, b"{}"), add_sound(store)]
    remove(store.directory / "files")
    remove(store.directory / "uploads")
    work(store)
    for batch in batches:
        found = store.batch(batch.id, batch.owner)
        assert (found.status, found.errors[0].code) == (Status.FAILED, "input_file_unreadable")
    (store.directory / "files").mkdir()
    later = add_sound(store)
    work(store)
    assert_completed(store, later)


DAMAGED_ROWS = {
    "metadata that is not JSON": ("metadata", "{"),
    "metadata that is not an object": ("metadata", "[1]"),
    "metadata that is not text": ("metadata", b"\xff\xfe"),
    "deep metadata": ("metadata", DEEP),
    "a number as metadata": ("metadata", 7),
    "errors that are cut": ("errors", '[{"code"'),
    "a time that is text": ("expires_at", "tomorrow"),
    "a count that is text": ("completed", "many"),
    "a count that is not an integer": ("total", 1.5),
    "an offset that is not a number": ("next_offset", b"\x00"),
    "an endpoint that is not text": ("endpoint", b"\xff"),
    "an identifier of a file that is not text": ("input_file_id", b"\xff"),
}


@pytest.mark.parametrize(("column", "value"), DAMAGED_ROWS.values(), ids=DAMAGED_ROWS)
def test_a_batch_whose_row_is_damaged_fails(store: BatchStore, column: str, value: Any) -> None:
    batch = add_batch(store, lines_of(map(line, range(5))))
    other = add_sound(store)
    store._connection.execute(
        f"update batches set {column} = ? where number = ?", (value, batch.number)
    )
    assert {each.id for each in store.unfinished()} == {batch.id, other.id}
    assert [each.id for each in store.batches("another key", after="", limit=9)[0]] == [other.id]
    assert json.dumps(store.batch(batch.id, "").to_object())
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "damaged_record")
    assert column in found.errors[0].message
    assert [each.status for each in store.batches("", after="", limit=9)[0]] == [Status.FAILED]
    assert_completed(store, other)


def test_a_damaged_page_is_an_error_of_the_batches_on_it(store: BatchStore, tmp_path: Path) -> None:
    owners = [f"key {number}" for number in range(40)]
    added = {
        owner: add_batch(store, b"{}", owner=owner, metadata={"a": "x" * 500}) for owner in owners
    }
    victim = added["key 20"]
    store.close()
    path = tmp_path / "store" / "store.sqlite"
    content = path.read_bytes()
    page = content.index(victim.id.encode()) // 4096
    while content[page * 4096] != 13:  # the leaves of tables; indexes have the id, too
        page = content.index(victim.id.encode(), (page + 1) * 4096) // 4096
    path.write_bytes(content[: page * 4096] + b"\xff" * 4096 + content[(page + 1) * 4096 :])
    with closing(BatchStore(tmp_path / "store")) as opened:
        unfinished = {each.id for each in opened.unfinished()}
        listed = set()
        for owner in owners:
            listed |= {each.id for each in opened.batches(owner, after="", limit=9)[0]}
        assert unfinished == listed
        assert 20 < len(listed) < 40
        assert victim.id not in listed
        with pytest.raises(StoreError):
            opened.batch(victim.id, "key 20")
        for owner, batch in added.items():
            if batch.id in listed:
                assert opened.batch(batch.id, owner) == batch


def test_a_status_that_does_not_exist_is_shown_as_failed(store: BatchStore) -> None:
    batch, other = add_batch(store, b"{}"), add_sound(store)
    store._connection.execute("update batches set status = '?' where number = ?", (batch.number,))
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "damaged_record")
    assert_completed(store, other)


def test_the_time_of_a_batch_ends_whatever_is_wrong_with_it(store: BatchStore) -> None:
    over = unix_seconds() - 1
    batches = [
        add_batch(store, lines_of([with_body(DEEP), line(1)]), expires_at=over),
        add_batch(store, lines_of([line(1)]), expires_at=over),
        add_batch(store, b"{}", expires_at=over, status=Status.CANCELLING),
    ]
    remove(store.path_of(batches[1].input_file_id))
    work(store)
    found = [store.batch(each.id, "").status for each in batches]
    assert found == [Status.EXPIRED, Status.EXPIRED, Status.CANCELLED]


def test_a_store_that_fails_for_one_batch_fails_for_no_other(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch, other = add_batch(store, lines_of([line(1)])), add_sound(store)
    begin, failures = BatchStore.begin, 0

    def begin_or_fail(self: BatchStore, number: int, *args: Any, **kwargs: Any) -> bool:
        nonlocal failures
        if number == batch.number and not self.batch(other.id, other.owner).is_finished:
            failures += 1
            raise StoreError("a block of the disk is gone")
        return begin(self, number, *args, **kwargs)

    monkeypatch.setattr(BatchStore, "begin", begin_or_fail)
    monkeypatch.setattr("servers.batch_work.worker._FIRST_PAUSE", 0.01)
    work(store)
    assert failures
    assert "is tried again" in caplog.text
    assert_completed(store, other)
    assert_completed(store, batch, 1)


def test_answers_that_the_store_refuses_are_of_one_batch_only(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, other = add_batch(store, lines_of(map(line, range(9)))), add_sound(store)
    add = BatchStore.add_answers

    def add_or_fail(self: BatchStore, answers: list[BatchAnswer], marks: Any) -> int:
        refused = any(each.batch == batch.number for each in answers)
        if refused and not self.batch(other.id, other.owner).is_finished:
            raise StoreError("a block of the disk is gone")
        return add(self, answers, marks)

    monkeypatch.setattr(BatchStore, "add_answers", add_or_fail)
    monkeypatch.setattr("servers.batch_work.worker._FIRST_PAUSE", 0.01)
    work(store)
    assert_completed(store, other)
    assert_completed(store, batch, 9)


def test_answers_that_come_while_others_are_refused_do_not_replace_them(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = add_batch(store, lines_of(map(line, range(9))))
    add = BatchStore.add_answers
    has_more, refusals = threading.Event(), count()

    async def answer(number: int, line_number: int, request: BatchRequest) -> BatchAnswer:
        if line_number >= 6:
            has_more.set()
        return await ask(number, line_number, request)

    def add_or_fail(self: BatchStore, answers: list[BatchAnswer], marks: Any) -> int:
        # The group, then the batch by itself.
        if any(each.line == 1 for each in answers) and next(refusals) < 2:
            assert has_more.wait(PATIENCE)
            raise StoreError("a block of the disk is gone")
        return add(self, answers, marks)

    monkeypatch.setattr(BatchStore, "add_answers", add_or_fail)
    monkeypatch.setattr("servers.batch_work.worker._FIRST_PAUSE", 0.01)
    work(store, answer)
    assert_completed(store, batch, 9)


def test_an_error_of_any_kind_ends_its_batch_only(
    store: BatchStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, other = add_batch(store, lines_of([line(1)])), add_sound(store)
    finish = BatchStore.finish

    def finish_or_fail(self: BatchStore, number: int, *args: Any, **kwargs: Any) -> None:
        if number == batch.number and args[1]:
            raise RuntimeError("nobody has thought of this")
        finish(self, number, *args, **kwargs)

    monkeypatch.setattr(BatchStore, "finish", finish_or_fail)
    work(store)
    found = store.batch(batch.id, "")
    assert (found.status, found.errors[0].code) == (Status.FAILED, "internal_error")
    assert [path.name for path in (store.directory / "files").iterdir()] == [
        path.name for path in (store.directory / "files").iterdir() if store.size_of(path.name)
    ]
    assert_completed(store, other)


# The end of the worker ----------------------------------------------------------------------------


def run_worker(directory: Path, deadly: str, width: int) -> int:
    """Run a worker in a process that ends at a request; return the process's exit code."""
    pid = os.fork()
    if pid == 0:
        logging.disable()
        signal.alarm(60)

        async def answer(batch: int, number: int, request: BatchRequest) -> BatchAnswer:
            await asyncio.sleep(0.02)  # others are in flight
            if request.custom_id == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return await ask(batch, number, request)

        try:
            store = BatchStore(directory)
            work(store, answer, width=width)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.usefixtures("child_program")
@pytest.mark.parametrize(("width", "ends"), [(1, 2), (8, 3)])
def test_a_batch_that_ends_the_worker_twice_is_set_aside(
    store: BatchStore, width: int, ends: int
) -> None:
    batch = add_batch(store, lines_of([*map(line, range(30)), line(30, custom_id="deadly")]))
    other = add_batch(
        store, lines_of(line(each, custom_id=f"o{each}") for each in range(60)), owner="another key"
    )
    codes: list[int] = []
    while not codes or codes[-1]:
        codes.append(run_worker(store.directory, "deadly", width))
    # Among others it is only a suspect; alone it is to blame.
    assert codes == [-signal.SIGKILL] * ends + [0]
    found = store.batch(batch.id, "")
    assert found.status is Status.FAILED
    assert (found.errors[0].code, found.errors[0].line) == ("worker_ended", 31)
    output, _ = results_of(store, batch)
    assert len(output) == found.completed  # answers that it has are kept
    assert_completed(store, other, 60)
    assert not store.suspects()


def test_a_worker_that_is_told_to_end_blames_nobody(store: BatchStore) -> None:
    batch = add_batch(store, lines_of([line(1)]))
    for _ in range(3):
        worker = BatchWorker(store, BatchSettings(store.directory, width=1), ask)
        worker._place.hand.open()

        async def hold(worker: BatchWorker = worker) -> None:
            async with worker._place.hand.piece(batch.number, Phase.ANSWER, 1):
                worker.end_in_order()
                raise _Ended

        with pytest.raises(_Ended):
            asyncio.run(hold())
        worker._place.hand.close()
    assert not store.suspects()
    work(store)
    assert_completed(store, batch, 1)


class _Ended(Exception):
    pass


@pytest.mark.parametrize("damage", [*INSTEAD.values()], ids=INSTEAD)
def test_a_worker_runs_without_the_file_of_what_is_in_hand(
    store: BatchStore, damage: Callable[[Path], None]
) -> None:
    path = store.directory / "in_hand"
    path.write_bytes(b"")
    damage(path)
    batch = add_sound(store)
    with without_powers():
        work(store)
    assert_completed(store, batch)


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 500, b"\0" * 64, b"1 answer 1 1\n" * 50, b"x" * 2_000_000, b"\n" * 999],
)
def test_what_was_in_hand_is_read_with_care(store: BatchStore, content: bytes) -> None:
    (store.directory / "in_hand").write_bytes(content)
    batch = add_sound(store)
    work(store)
    assert_completed(store, batch)
