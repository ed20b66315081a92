"""The store of files and batches: pages, owners, states, and what a killed process leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from servers.batches.contents import StoreLock
from servers.batches.objects import (
    BatchAnswer,
    BatchError,
    NotNowError,
    NotStoredError,
    Status,
    StorageFullError,
    StoreError,
    TokenUsage,
    Watermark,
)
from servers.batches.store import BatchStore
from tests.servers.batches.samples import NOW, add_batch, add_file, line, lines_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BatchStore]:
    made = BatchStore(tmp_path / "store")
    yield made
    made.close()


def answer(batch: int, number: int, *, is_error: bool = False) -> BatchAnswer:
    usage = TokenUsage() if is_error else TokenUsage(3, 2)
    return BatchAnswer(batch=batch, line=number, is_error=is_error, text=b"{}", usage=usage)


def test_files_are_listed_in_pages(store: BatchStore) -> None:
    added = [add_file(store, b"{}") for _ in range(5)]
    page, has_more = store.files("", NOW, purpose=None, after="", limit=2, ascending=True)
    assert (page, has_more) == (added[:2], True)
    after = page[-1].id
    page, has_more = store.files("", NOW, purpose="batch", after=after, limit=9, ascending=True)
    assert (page, has_more) == (added[2:], False)
    newest, _ = store.files("", NOW, purpose=None, after="", limit=1, ascending=False)
    assert newest == added[-1:]
    assert store.files("", NOW, purpose="other", after="", limit=9, ascending=True) == ([], False)
    with pytest.raises(NotStoredError):
        store.files("", NOW, purpose=None, after="file-none", limit=2, ascending=True)


def test_a_client_sees_its_own_files_and_batches_only(store: BatchStore) -> None:
    batch = add_batch(store, b"{}", owner="key a")
    assert store.batch(batch.id, "key a") == batch
    for ask in (
        lambda: store.batch(batch.id, "key b"),
        lambda: store.cancel(batch.id, "key b", NOW),
        lambda: store.file(batch.input_file_id, "key b", NOW),
        lambda: store.delete_file(batch.input_file_id, "key b", NOW),
        lambda: store.add_batch(msgspec.structs.replace(batch, owner="key b")),
    ):
        with pytest.raises(NotStoredError):
            ask()
    assert store.batches("key b", after="", limit=9) == ([], False)


def test_an_expired_file_is_gone(store: BatchStore) -> None:
    file = add_file(store, b"{}", expires_at=NOW + 10)
    assert store.file(file.id, "", NOW + 9) == file
    with pytest.raises(NotStoredError):
        store.file(file.id, "", NOW + 10)
    assert store.remove_expired(NOW + 10) == 1
    assert not store.path_of(file.id).exists()


def test_the_input_of_an_unfinished_batch_stays(store: BatchStore) -> None:
    batch = add_batch(store, b"{}")
    with pytest.raises(NotNowError, match="not finished"):
        store.delete_file(batch.input_file_id, "", NOW)
    store.fail(batch.number, [BatchError(code="empty_file", message="it is empty")], NOW)
    store.delete_file(batch.input_file_id, "", NOW)
    assert not store.path_of(batch.input_file_id).exists()


def test_an_answer_that_exists_is_not_replaced(store: BatchStore) -> None:
    batch = add_batch(store, lines_of(map(line, range(3))))
    assert store.begin(batch.number, 3, "demo", NOW)
    mark = Watermark(batch.number, 3, 77)
    first = [answer(batch.number, 1), answer(batch.number, 2, is_error=True)]
    assert store.add_answers(first, [mark]) == 2
    again = [answer(batch.number, 1, is_error=True), answer(batch.number, 3)]
    assert store.add_answers(again, []) == 1
    found = store.batch(batch.id, "")
    assert (found.completed, found.failed) == (2, 1)
    assert (found.next_line, found.next_offset) == (3, 77)
    assert found.usage == TokenUsage(6, 4)
    assert store.answered_lines(batch.number, 2) == {2, 3}
    assert [each.is_error for each in store.answers(batch.number)] == [False, True, False]


def test_a_batch_is_cancelled_before_it_is_finished(store: BatchStore) -> None:
    batch = add_batch(store, b"{}")
    cancelled = store.cancel(batch.id, "", NOW + 1)
    assert (cancelled.status, cancelled.cancelling_at) == (Status.CANCELLING, NOW + 1)
    assert store.cancel(batch.id, "", NOW + 2) == cancelled
    assert not store.begin(batch.number, 1, "demo", NOW)
    store.finish(batch.number, Status.COMPLETED, [], NOW)
    with pytest.raises(NotNowError, match="completed"):
        store.cancel(batch.id, "", NOW)


def test_answers_of_finished_batches_are_removed(store: BatchStore) -> None:
    done, other = add_batch(store, b"{}"), add_batch(store, b"{}")
    answers = [answer(batch.number, number) for batch in (done, other) for number in range(1, 600)]
    store.add_answers(answers, [])
    store.finish(done.number, Status.COMPLETED, [], NOW)
    store.drop_answers()
    assert not store.answered_lines(done.number, 0)
    assert len(store.answered_lines(other.number, 0)) == 599


def test_what_a_killed_process_left_is_removed(store: BatchStore) -> None:
    file = add_file(store, b"{}")
    for stray in (store.uploads / "file-half", store.path_of("file-without-a-row")):
        stray.write_bytes(b"{}")
    store.tidy()
    assert store.path_of(file.id).exists()
    assert not list(store.uploads.iterdir())
    assert not store.path_of("file-without-a-row").exists()


def test_a_store_is_opened_again(store: BatchStore, tmp_path: Path) -> None:
    batch = add_batch(store, b"{}", metadata={"a": "b"}, output_seconds=3600)
    other = BatchStore(tmp_path / "store")
    assert other.unfinished() == [batch]
    assert other.has_unfinished()
    before = other.version
    store.begin(batch.number, 1, None, NOW)
    assert other.version != before
    other.close()


def test_a_store_of_the_first_version_is_opened(store: BatchStore, tmp_path: Path) -> None:
    batch = add_batch(store, b"{}")
    store.begin(batch.number, 1, None, NOW)
    store._connection.execute("alter table batches drop column is_checked")
    store._connection.execute("pragma user_version = 1")
    for _ in range(2):
        other = BatchStore(tmp_path / "store")
        assert [each.is_checked for each in other.unfinished()] == [True]
        other.close()


def test_one_process_serves_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "server.lock"
    with StoreLock(path), pytest.raises(StoreError, match="another process"):
        StoreLock(path)
    StoreLock(path).release()


def test_a_full_disk_loses_nothing(store: BatchStore) -> None:
    batch = add_batch(store, b"{}")
    store.add_answers([answer(batch.number, 1)], [])
    # SQLite's own limit, which it reports as it reports a full disk.
    pages = store._connection.execute("pragma page_count").fetchone()[0]
    store._connection.execute(f"pragma max_page_count = {pages}")
    text = b"x" * 100_000
    large = BatchAnswer(batch=batch.number, line=2, is_error=False, text=text)
    with pytest.raises(StorageFullError):
        store.add_answers([large], [])
    assert store.answered_lines(batch.number, 0) == {1}
    store._connection.execute("pragma max_page_count = 1000000")
    assert store.add_answers([large], []) == 1


def test_sums_are_those_of_all_batches(store: BatchStore) -> None:
    batch = add_batch(store, b"{}")
    store.begin(batch.number, 5, None, NOW)
    store.add_answers([answer(batch.number, 1), answer(batch.number, 2, is_error=True)], [])
    add_batch(store, b"{} ")
    counts = store.counts()
    assert counts.batches == {"in_progress": 1, "validating": 1}
    assert (counts.completed, counts.failed, counts.waiting) == (1, 1, 3)
    assert (counts.input_tokens, counts.output_tokens) == (3, 2)
    assert (counts.files, counts.file_bytes) == (2, 5)
