"""The clock of files and batches does not jump with the machine's."""

from __future__ import annotations

import pytest

from servers.batches import objects
from servers.batches.objects import SteadyClock

HOURS = 3600.0


class Clocks:
    """A wall clock and a steady one, that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steady = 50.0
        self.wall = 1_000_000_000.0
        monkeypatch.setattr(objects, "_steady", lambda: self.steady)
        monkeypatch.setattr("time.time", lambda: self.wall)

    def pass_by(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.mark.parametrize("hours", [26, -26, 24 * 3650])
def test_a_jump_counts_when_it_has_lasted(clocks: Clocks, hours: int) -> None:
    steady = SteadyClock()
    before = steady.seconds()
    clocks.wall += hours * HOURS
    assert steady.seconds() == before
    clocks.pass_by(599)
    assert steady.seconds() == before + 599
    clocks.pass_by(1)
    assert steady.seconds() == before + 600 + hours * HOURS


def test_a_jump_that_is_taken_back_never_was(clocks: Clocks) -> None:
    steady = SteadyClock()
    before = steady.seconds()
    for _ in range(5):
        clocks.wall += 26 * HOURS
        assert steady.seconds() == before
        clocks.pass_by(300)
        before += 300
        assert steady.seconds() == before
        clocks.wall -= 26 * HOURS
        assert steady.seconds() == before


def test_another_jump_waits_anew(clocks: Clocks) -> None:
    steady = SteadyClock()
    before = steady.seconds()
    clocks.wall += 26 * HOURS
    steady.seconds()
    clocks.pass_by(500)
    clocks.wall += 26 * HOURS
    assert steady.seconds() == before + 500
    clocks.pass_by(500)
    assert steady.seconds() == before + 1000


def test_a_correction_in_small_steps_counts_at_once(clocks: Clocks) -> None:
    steady = SteadyClock()
    before = steady.seconds()
    for _ in range(10):
        clocks.wall += 4
        steady.seconds()
    assert steady.seconds() == before + 40


def test_a_process_that_starts_during_a_jump_believes_its_parent(clocks: Clocks) -> None:
    parent = SteadyClock()
    before = parent.seconds()
    clocks.wall += 26 * HOURS
    child = SteadyClock(parent.offset())
    assert child.seconds() == before
    clocks.pass_by(600)
    assert child.seconds() == before + 600 + 26 * HOURS
