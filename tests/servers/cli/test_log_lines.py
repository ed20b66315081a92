"""The server's log: one format, and nothing that a client can bend."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.cli import package_names
from servers.cli.log_lines import set_up_logging


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


def test_packages_of_another_distribution_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        package_names,
        "packages_distributions",
        lambda: {"servers": ["graphrt", "other", "other"], "calculators": ["GraphRT"], "x": ["y"]},
    )
    assert package_names.clashes() == [("servers", "other")]
