"""The bar of `graphrt serve` on a terminal, below the log."""

from __future__ import annotations

import io

import pytest

from servers.cli.serve import LoadBar
from servers.serving.servable import Loading

ERASE = "\r\x1b[K"


def loading(name: str, fraction: float, phase: str = "compiling the model") -> Loading:
    found = Loading(name)
    found.progress.begin(phase, fraction)
    return found


def test_the_bar_names_what_is_furthest_behind() -> None:
    terminal = io.StringIO()
    bar = LoadBar(terminal)
    bar.show([loading("small", 0.9), loading("large", 0.25, "reading the weights")])
    assert terminal.getvalue() == (
        f"{ERASE}[######..................] 25% large and 1 more: reading the weights, 0 s"
    )
    bar.show([])
    assert terminal.getvalue().endswith(f"0 s{ERASE}")


def test_lines_of_the_log_stand_above_the_bar() -> None:
    terminal = io.StringIO()
    bar = LoadBar(terminal)
    terminal.write(bar.above("before\n"))
    bar.show([loading("one", 0.5)])
    terminal.write(bar.above("during\n"))
    drawn = "[############............] 50% one: compiling the model, 0 s"
    assert terminal.getvalue() == f"before\n{ERASE}{drawn}{ERASE}during\n{drawn}"


def test_the_bar_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = io.StringIO()
    LoadBar(terminal).show([loading("a name\x1b[2J of many words and more", 0.5)])
    shown = terminal.getvalue().removeprefix(ERASE)
    assert len(shown) == 39
    assert "\x1b" not in shown
