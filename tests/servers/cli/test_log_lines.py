"""The server's log: one format, and nothing that a client can bend."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.cli.telemetry import MOST_CHARS, set_up_logging
from servers.operations import process


@pytest.fixture
def _own_logging() -> Iterator[None]:
    """Puts the handlers and the level of the root logger back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_own_logging")
def test_lines_have_time_level_and_name_on_the_error_stream_and_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    set_up_logging("INFO", str(path))
    logging.getLogger("servers.some").info("hello %s", "world")
    logging.getLogger("servers.some").debug("not shown")
    shown = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO servers\.some: hello world\n", shown
    )
    assert path.read_text() == shown


@pytest.mark.usefixtures("_own_logging")
def test_a_message_cannot_begin_a_line_or_move_the_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("TRACE", None)
    logging.getLogger("a").log(5, "x\n2026 INFO a: forged\r\x1b[2J\x7f")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(" TRACE a: x")
    assert second == "  2026 INFO a: forged\\x0d\\x1b[2J\\x7f"


@pytest.mark.usefixtures("_own_logging")
def test_nothing_of_a_traceback_begins_a_line_or_turns_the_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("INFO", None)
    try:
        raise ValueError("x\n2026 INFO a: forged\x9b2J \u202e\u2028\ud800")
    except ValueError:
        logging.getLogger("a").exception("failed")
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(" ERROR a: failed")
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1] == "  2026 INFO a: forged\\x9b2J \\u202e\\u2028\\ud800"


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.parametrize("form", ["text", "json"])
def test_what_an_exception_repeats_is_shortened(
    capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """As that of ``float(text)``, with all of a client's text."""
    set_up_logging("INFO", None, form)
    try:
        try:
            float("x" * 10**6)
        except ValueError as error:
            raise RuntimeError(f"failed: {error}") from error
    except RuntimeError:
        logging.getLogger("a").exception("the message %s", "y" * 10**6)
    shown = capsys.readouterr().err
    assert len(shown) < 4 * MOST_CHARS
    for part in ("the message yyy", "xxx'", "characters are left out"):
        assert part in shown


@pytest.mark.usefixtures("_own_logging")
def test_json_lines_are_an_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", None, "json")
    fields = {"request_id": "mine", "status": 200, "message": "not this"}
    logging.getLogger("a").info("hello\n%s", "w\u00f6rld\u2028", extra={"fields": fields})
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("a").exception("failed")
    shown = capsys.readouterr().err
    assert shown.isascii()
    first, second = map(json.loads, shown.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "INFO",
        "logger": "a",
        "message": "hello\nw\u00f6rld\u2028",
        "request_id": "mine",
        "status": 200,
    }
    assert second["message"] == "failed"
    assert second["exception"].endswith("ValueError: why")


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.parametrize("remove", [False, True], ids=["moved", "removed"])
def test_a_log_file_that_is_moved_or_removed_begins_anew(tmp_path: Path, remove: bool) -> None:
    path, old = tmp_path / "log", tmp_path / "log.1"
    set_up_logging("INFO", str(path))
    log = logging.getLogger("a")
    log.info("one")
    if remove:
        path.unlink()
    else:
        path.rename(old)
    log.info("two")
    log.info("three")
    assert old.exists() is not remove
    assert remove or old.read_text().endswith(" one\n")
    assert [line.rpartition(" ")[2] for line in path.read_text().splitlines()] == ["two", "three"]


@pytest.mark.usefixtures("_own_logging")
def test_a_log_file_that_cannot_be_written_is_told_of_once_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "log"
    set_up_logging("INFO", str(path))
    log = logging.getLogger("a")
    log.info("one")
    shutil.rmtree(folder)
    log.info("two")
    log.info("three")
    folder.mkdir()
    log.info("four")
    shown = capsys.readouterr().err
    assert shown.count("graphrt: the log file cannot be written: No such file") == 1
    assert shown.count("INFO a: ") == 4
    assert path.read_text().endswith("INFO a: four\n")
    assert path.read_text().count("\n") == 1


def test_packages_of_another_distribution_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file, text in (
        ("other", "RECORD", "other.py,,\nservers/__init__.py,,\nservers/a.py,,\n"),
        ("older", "top_level.txt", "older\ncalculators\n"),
        ("GraphRT", "RECORD", "protos/__init__.py,,\n"),
        ("near", "RECORD", "near/protos/__init__.py,,\nprotoss/__init__.py,,\n"),
    ):
        place = tmp_path / f"{name}-1.dist-info"
        place.mkdir()
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (place / file).write_text(text)
    (tmp_path / "servers").mkdir()
    monkeypatch.setattr("sys.path", [*sys.path, str(tmp_path)])
    assert process.clashes() == [("calculators", "older"), ("servers", "other")]


@pytest.mark.usefixtures("_own_logging")
def test_lines_that_nobody_reads_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, sink = os.pipe()
    lines = 30_000  # of 80 bytes, beyond what waits
    with os.fdopen(source) as read, os.fdopen(sink, "w") as written:
        monkeypatch.setattr("sys.stderr", written)
        set_up_logging("INFO", None)
        for number in range(lines):
            logging.getLogger("a").info("%050d", number)
        shown = list[str]()
        while not shown or "left out" not in shown[-1]:
            shown.append(read.readline())
        logging.getLogger("a").info("the last one")
        assert read.readline().endswith(" INFO a: the last one\n")
    numbers = [int(line.rpartition(" ")[2]) for line in shown[:-1]]
    assert numbers == list(range(len(numbers)))
    left_out = re.fullmatch(r"graphrt: ([0-9,]+) lines are left out, as none was read\n", shown[-1])
    assert left_out is not None
    assert len(numbers) + int(left_out[1].replace(",", "")) == lines


@pytest.mark.usefixtures("_own_logging")
def test_all_lines_are_read_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    source, sink = os.pipe()
    with os.fdopen(source) as read:
        with os.fdopen(sink, "w") as written:
            monkeypatch.setattr("sys.stderr", written)
            set_up_logging("INFO", None)
            for number in range(100):
                logging.getLogger("a").info("%d", number)
            logging.shutdown([weakref.ref(logging.getLogger().handlers.pop())])
        assert len(read.readlines()) == 100


@pytest.mark.usefixtures("_own_logging")
def test_a_process_without_standard_error_logs_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    set_up_logging("INFO", str(tmp_path / "log"))
    logging.getLogger("a").info("hello")
    assert (tmp_path / "log").read_text().endswith(" INFO a: hello\n")


@pytest.mark.usefixtures("_own_logging")
def test_a_socket_as_standard_error_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd gives its services a socket."""
    mine, its = socket.socketpair()
    with mine, its, os.fdopen(os.dup(its.fileno()), "w") as written:
        monkeypatch.setattr("sys.stderr", written)
        set_up_logging("INFO", None)
        for number in range(10_000):
            logging.getLogger("a").info("%050d", number)
        lines = mine.makefile()
        for number in range(10_000):
            assert int(lines.readline().rpartition(" ")[2]) == number
        lines.close()
