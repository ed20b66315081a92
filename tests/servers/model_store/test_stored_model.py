"""Copies of a store's files in the cache: whole or not there, shared, and bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calculators.kit.model_cache import ModelCache
from servers.model_store import stored_model
from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import read_address
from servers.model_store.stored_model import StoredModel
from tests.servers.model_store.store_servers import Link, S3Server
from tests.support.small_disk import SmallDisk, small_disk

MB = 1 << 20
LARGE = bytes(range(256)) * (20 * MB // 256)


def nothing(done: int, total: int) -> None:
    """Report to nobody."""


def model(address: str, directory: Path, most_bytes: int = 0) -> StoredModel:
    return StoredModel(read_address(address), ModelCache(directory, most_bytes), None)


def copies(directory: Path) -> list[str]:
    """Return the complete copies in a cache, and check that there is nothing else."""
    folders = [each for each in (directory / "graphrt").glob("*") if each.suffix != ".json"]
    assert all((each / "entry.json").is_file() for each in folders)
    return [each.name for each in folders]


def test_files_arrive_as_they_are(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    files = {"large.bin": LARGE, "empty": b"", "deep/er/ä b.txt": b"text"}
    for name, content in files.items():
        s3.put(bucket, f"m/{name}", content)
    s3.put(bucket, "m/deep/", b"")  # as consoles make directories
    s3.put(bucket, "mother/not", b"of the model")
    told: list[tuple[int, int]] = []
    served = model(f"s3://{bucket}/m", tmp_path)
    place = served.fetch(lambda done, total: told.append((done, total)))
    assert place.path is not None
    found = {
        each.relative_to(place.path).as_posix(): each.read_bytes()
        for each in place.path.rglob("*")
        if each.is_file()
    }
    assert found == files
    assert told[-1] == (20 * MB + 4, 20 * MB + 4)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    served.close()


def test_a_broken_download_goes_on_where_it_broke(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/large.bin", LARGE)
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)
        link.breaks, link.break_after = 3, MB
        served = model(f"s3://{bucket}/m", tmp_path)
        place = served.fetch(nothing)
        assert place.path is not None
        assert (place.path / "large.bin").read_bytes() == LARGE
        assert link.breaks == 0
        served.close()


def test_nothing_half_stays_of_a_download_that_fails(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_model, "PAUSE_SECONDS", 0.0)
    s3.put(bucket, "m/large.bin", LARGE)
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)
        link.breaks, link.break_after = 1_000_000, MB // 16
        served = model(f"s3://{bucket}/m", tmp_path)
        with pytest.raises(ModelError, match="its store does not answer"):
            served.fetch(nothing)
        assert copies(tmp_path) == []
        link.breaks = 0
        assert served.fetch(nothing).path is not None
        assert len(copies(tmp_path)) == 1
        served.close()


def test_a_file_that_changes_while_it_is_read_is_not_served(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_model, "PAUSE_SECONDS", 0.0)
    s3.put(bucket, "m/large.bin", LARGE)
    served = model(f"s3://{bucket}/m", tmp_path)

    def change(done: int, total: int) -> None:
        if done == 8 * MB:
            s3.put(bucket, "m/large.bin", LARGE[::-1])

    monkeypatch.setattr(stored_model, "AT_A_TIME", 1)
    with pytest.raises(ModelError, match="a file changed in its store while it was being read"):
        served.fetch(change)
    assert copies(tmp_path) == []
    place = served.fetch(nothing)
    assert place.path is not None
    assert (place.path / "large.bin").read_bytes() == LARGE[::-1]
    served.close()


def test_servers_that_share_a_cache_download_once(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/large.bin", LARGE)
    with Link(s3.endpoint) as link:
        monkeypatch.setenv("S3_ENDPOINT", link.endpoint)
        servers = [model(f"s3://{bucket}/m", tmp_path) for _ in range(3)]
        with ThreadPoolExecutor(3) as threads:
            places = list(threads.map(lambda each: each.fetch(nothing), servers))
        assert len({place.path for place in places}) == 1
        assert link.seen.count(b"GET /" + bucket.encode() + b"/m/large.bin") == 3  # its pieces
        assert len(copies(tmp_path)) == 1
        for each in servers:
            each.close()


def test_the_cache_keeps_its_bound_and_what_is_in_use(
    tmp_path: Path, s3: S3Server, bucket: str
) -> None:
    for name in ("a", "b", "c"):
        s3.put(bucket, f"{name}/weights.bin", name.encode() * 4 * MB)
    bound = 9 * MB
    first = model(f"s3://{bucket}/a", tmp_path, bound)
    first.fetch(nothing)
    second = model(f"s3://{bucket}/b", tmp_path, bound)
    second.fetch(nothing)
    second.close()
    third = model(f"s3://{bucket}/c", tmp_path, bound)
    third.fetch(nothing)
    assert len(copies(tmp_path)) == 2  # nobody used the second
    assert first.fetch(nothing).path is not None
    s3.put(bucket, "d/weights.bin", b"d" * 10 * MB)
    with pytest.raises(ModelError, match="more than --cache_dir_size") as refused:
        model(f"s3://{bucket}/d", tmp_path, bound).fetch(nothing)
    assert refused.value.hint is not None
    first.close()
    third.close()


@pytest.fixture
def disk(child_program: None, tmp_path: Path) -> Iterator[SmallDisk]:
    yield from small_disk(tmp_path / "disk", 90 * MB)


def test_a_full_disk_is_named_and_keeps_nothing_half(
    disk: SmallDisk, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/large.bin", LARGE)
    served = model(f"s3://{bucket}/m", disk.path)

    def fill(done: int, total: int) -> None:
        disk.fill()

    with pytest.raises(ModelError, match="has no room for its files: No space left on device"):
        served.fetch(fill)
    assert copies(disk.path) == []
    with pytest.raises(ModelError, match="has no room for its files: the disk has only"):
        served.fetch(nothing)
    disk.empty()
    assert served.fetch(nothing).path is not None
    served.close()


def test_a_download_ends_with_the_server(
    tmp_path: Path, s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/large.bin", LARGE)
    served = model(f"s3://{bucket}/m", tmp_path)
    has_begun = threading.Event()

    def stop(done: int, total: int) -> None:
        has_begun.set()
        served.has_ended.set()

    monkeypatch.setattr(stored_model, "AT_A_TIME", 1)
    with pytest.raises(ModelError, match="its download was interrupted"):
        served.fetch(stop)
    assert has_begun.is_set()
    assert copies(tmp_path) == []
