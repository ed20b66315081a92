"""`graphrt batch`: a file of requests, answered without a server."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from servers.batches.store import BatchStore
from tests.process.batch_site import computed, content_of, line, make_site
from tests.servers.cli.process import graphrt, start_graphrt
from tests.support.broken_files import EVERY, remove
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE


@pytest.fixture
def words(tmp_path: Path) -> tuple[str, ...]:
    make_site(tmp_path)
    return ("batch", "in.jsonl", "work", "--calculators", "calcs.py")


def read(path: Path) -> list[Any]:
    return [json.loads(each) for each in path.read_text().splitlines()]


def committed(folder: Path) -> int:
    """Return the number of answers that an unfinished run has kept."""
    path = folder / "in.output.jsonl.state" / "store.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        try:
            (found,) = connection.execute("select count(*) from answers").fetchone()
        except sqlite3.OperationalError:  # there is no table yet
            return 0
    return int(found)


@pytest.mark.parametrize("kind", ["flipped", "a pipe", "a directory", "a circle of links"])
def test_a_broken_state_ends_the_command_and_a_new_one_begins_once_it_is_removed(
    tmp_path: Path, words: tuple[str, ...], kind: str
) -> None:
    (tmp_path / "in.jsonl").write_bytes(content_of([line(1)]))
    state = tmp_path / "in.output.jsonl.state"
    BatchStore(state).close()
    EVERY[kind](state / "store.sqlite")
    ended = graphrt(*words, cwd=tmp_path)
    assert (ended.returncode, "in.output.jsonl.state: " in ended.stderr) == (1, True), ended.stderr
    remove(state)
    assert graphrt(*words, cwd=tmp_path).returncode == 0
    assert [each["custom_id"] for each in read(tmp_path / "in.output.jsonl")] == ["r1"]


def test_every_request_is_answered(tmp_path: Path, words: tuple[str, ...]) -> None:
    requests = [line(1), "no json", line(2, wrong=True), line(3), {**line(4), "url": "/v3/other"}]
    (tmp_path / "in.jsonl").write_bytes(content_of(requests))
    done = graphrt(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "in.output.jsonl: 3 answers\nin.error.jsonl: 2 requests failed\n5 requests in " in (
        done.stdout
    )
    assert "9 input and 6 output tokens" in done.stdout
    output, errors = read(tmp_path / "in.output.jsonl"), read(tmp_path / "in.error.jsonl")
    assert [each["custom_id"] for each in output] == ["r1", "r3", "r4"]
    assert [each["custom_id"] for each in errors] == [None, "r2"]
    assert not list(tmp_path.glob("*.state"))
    again = graphrt(*words, cwd=tmp_path)
    assert again.returncode == 1
    assert "error: in.output.jsonl: the file exists already" in again.stderr
    full = graphrt(*words, "--output", "a.jsonl", "--errors", "/dev/full", cwd=tmp_path)
    assert full.returncode == 1
    assert "error: /dev/full: No space left on device" in full.stderr
    assert "every answer is kept, and the same command goes on from here" in full.stderr
    before = computed(tmp_path)
    named = graphrt(*words, "--output", "a.jsonl", "--errors", "b.jsonl", cwd=tmp_path)
    assert named.returncode == 1
    assert computed(tmp_path) == before
    assert len(read(tmp_path / "a.jsonl")) == 3
    assert len(read(tmp_path / "b.jsonl")) == 2


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, words: tuple[str, ...]) -> None:
    source = tmp_path / "in.jsonl"
    late = [line(number, until="go") for number in range(20, 30)]
    source.write_bytes(content_of([*map(line, range(20)), *late]))
    with open(os.devnull, "wb") as nothing:
        command, stderr = start_graphrt(*words, cwd=tmp_path, stdout=nothing.fileno())
    with stderr:
        wait_until(lambda: committed(tmp_path) == 20, "the quick ones have an answer")
        command.kill()
        command.wait(PATIENCE)
    before = source.stat()
    os.utime(source)
    changed = graphrt(*words, cwd=tmp_path)
    assert changed.returncode == 1
    assert "in.jsonl has changed since the run that was interrupted" in changed.stderr
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "go").touch()
    done = graphrt(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [each["custom_id"] for each in read(tmp_path / "in.output.jsonl")] == [
        f"r{number}" for number in range(30)
    ]
    assert "; 20 had an answer before; 90 input and 60 output tokens" in done.stdout
    assert sorted(computed(tmp_path)) == list(range(30))


def test_a_file_that_is_no_batch_is_explained(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "in.jsonl").write_bytes(content_of([line(1), line(1)]))
    done = graphrt(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "in.jsonl: line 2: an earlier line has the same `custom_id`" in done.stderr
    assert not list(tmp_path.glob("*.state"))
    missing = graphrt("batch", "none.jsonl", *words[2:], cwd=tmp_path)
    assert missing.returncode == 1
    assert "error: none.jsonl: no such file" in missing.stderr
    same = graphrt(*words, "--output", "in.jsonl", cwd=tmp_path)
    assert same.returncode == 2
