"""Entries of a cache: kept whole or not at all, bounded, and shared by several servers."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from calculators.kit.model_cache import MANIFEST, BeingMade, CacheEntry, ModelCache, key_of
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

#: Holds an entry, writes a file into it, says so, and waits.
HOLDER = """
import sys
from pathlib import Path
from calculators.kit.model_cache import ModelCache
entry = ModelCache(Path(sys.argv[1])).hold("test", "one")
(entry.path / "half").write_bytes(b"half")
if sys.argv[2] == "complete":
    entry.complete()
print("held", flush=True)
sys.stdin.read()
"""


def held(cache: ModelCache, key: str = "one", expected_bytes: int = 0) -> CacheEntry:
    entry = cache.hold("test", key, expected_bytes)
    assert entry is not None
    return entry


def made(cache: ModelCache, key: str = "one", size: int = 10) -> Path:
    """Make an entry with a file of this size; return its folder."""
    entry = held(cache, key)
    assert not entry.is_complete
    (entry.path / "data").write_bytes(b"x" * size)
    assert entry.complete()
    entry.close()
    return entry.path


def other_process(cache: ModelCache, does: str) -> subprocess.Popen[str]:
    """Start a process that holds the entry "one"."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(cache.directory), does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_an_entry_is_found_again_and_not_written_again(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "cache")
    path = made(cache)
    written = (path / "data").stat()
    entry = held(cache)
    assert entry.is_complete
    assert (entry.path / "data").read_bytes() == b"x" * 10
    assert (entry.path / "data").stat().st_mtime_ns == written.st_mtime_ns
    entry.close()


@pytest.mark.parametrize("damage", ["cut", "removed", "manifest"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = ModelCache(tmp_path)
    path = made(cache)
    match damage:
        case "cut":
            (path / "data").write_bytes(b"x" * 5)
        case "removed":
            (path / "data").unlink()
        case _:
            (path / MANIFEST).write_text('{"files": {"da')
    entry = held(cache)
    assert not entry.is_complete
    assert list(entry.path.iterdir()) == []
    entry.close()


def test_an_entry_that_is_not_completed_is_removed(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    entry = held(cache)
    (entry.path / "folder").mkdir()
    (entry.path / "folder" / "half").write_bytes(b"half")
    entry.close()
    assert not entry.path.exists()


def test_a_crash_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    process = other_process(cache, "wait")
    with pytest.raises(BeingMade):
        cache.hold("test", "one")
    process.kill()
    process.communicate()
    entry = held(cache)
    assert not entry.is_complete
    assert list(entry.path.iterdir()) == []
    entry.close()


def test_several_processes_use_an_entry_at_the_same_time(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    process = other_process(cache, "complete")
    entry = held(cache)
    assert entry.is_complete
    entry.close()
    process.kill()
    process.communicate()


def test_entries_that_were_used_longest_ago_go_first(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path, most_bytes=1000)
    first, second = made(cache, "first", 400), made(cache, "second", 400)
    for path, time in ((second, 1), (first, 2)):
        os.utime(path / MANIFEST, (time, time))
    third = made(cache, "third", 400)
    assert first.exists()
    assert not second.exists()
    assert third.exists()
    # A use counts.
    held(cache, "first").close()
    os.utime(third / MANIFEST, (3, 3))
    made(cache, "fourth", 400)
    assert first.exists()
    assert not third.exists()


def test_an_entry_in_use_is_not_removed(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path, most_bytes=500)
    first = made(cache, "first", 400)
    entry = held(cache, "first")
    os.utime(first / MANIFEST, (1, 1))
    made(cache, "second", 400)
    assert (first / "data").is_file()
    entry.close()
    cache.trim()
    assert not first.exists()


def test_another_servers_trim_leaves_an_entry_that_becomes_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives an exclusive lock up before it takes the shared one."""
    cache, other = ModelCache(tmp_path), ModelCache(tmp_path, most_bytes=1)
    is_trimmed_or_waits = threading.Event()
    flock = fcntl.flock

    def trim() -> None:
        other.trim()
        is_trimmed_or_waits.set()

    trims = threading.Thread(target=trim)

    def watched(descriptor: int, kind: int) -> None:
        if threading.current_thread() is trims:
            if kind == fcntl.LOCK_EX:
                is_trimmed_or_waits.set()
            flock(descriptor, kind)
            return
        if kind == fcntl.LOCK_SH:
            flock(descriptor, fcntl.LOCK_UN)
            trims.start()
            assert is_trimmed_or_waits.wait(PATIENCE)
        flock(descriptor, kind)

    entry = held(cache)
    (entry.path / "data").write_bytes(b"x" * 10)
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", watched)
        assert entry.complete()
        trims.join(PATIENCE)
    assert (entry.path / "data").read_bytes() == b"x" * 10
    entry.close()


def test_what_is_left_of_a_crash_is_removed_with_the_next_entry(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    process = other_process(cache, "wait")
    made(cache, "other")
    assert (cache.folder / "test-one" / "half").exists()
    process.kill()
    process.communicate()
    made(cache, "another")
    assert not (cache.folder / "test-one").exists()


def test_a_model_larger_than_the_bound_is_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = ModelCache(tmp_path, most_bytes=1000)
    for _ in range(3):
        assert cache.hold("test", "one", expected_bytes=1001) is None
    assert len(caplog.messages) == 1
    assert "more than --cache_dir_size" in caplog.messages[0]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_met_before_it_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert ModelCache(tmp_path).hold("test", "one", expected_bytes=1 << 60) is None
    assert "bytes left" in caplog.text


def test_a_directory_that_cannot_be_written_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    cache = ModelCache(tmp_path / "file")
    for _ in range(3):
        assert cache.hold("test", "one") is None
    assert len(caplog.messages) == 1
    assert "models are loaded as without it" in caplog.messages[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_directory_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = ModelCache(tmp_path)
    path = made(cache)
    folders = (path, path.parent, tmp_path)
    for folder in folders:
        folder.chmod(0o555)
    try:
        entry = held(cache)
        assert entry.is_complete
        entry.close()
        assert cache.hold("test", "other") is None
        assert len(caplog.messages) == 1
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_key_follows_the_content_and_not_the_path(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"a" * 1000)
    os.utime(file, ns=(1, 1))
    key = key_of([file], "CPU")
    moved = tmp_path / "folder" / "model.gguf"
    moved.parent.mkdir()
    moved.hardlink_to(file)
    assert key_of([moved], "CPU") == key
    assert key_of([file], "GPU") != key
    file.write_bytes(b"a" * 999 + b"b")
    os.utime(file, ns=(1, 1))
    assert key_of([file], "CPU") != key
    file.write_bytes(b"a" * 1000)
    os.utime(file, ns=(2, 2))
    assert key_of([file], "CPU") != key


def test_a_change_in_the_middle_of_a_large_file_with_its_time_kept_is_found(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(bytes(8 << 20))
    os.utime(file, ns=(1, 1))
    key = key_of([file])
    # Other weights of the same shapes differ everywhere.
    file.write_bytes(bytes(4 << 20) + b"\1" * (4 << 20))
    os.utime(file, ns=(1, 1))
    assert key_of([file]) != key
