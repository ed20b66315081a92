"""The files of `make test` reach most lines in little time, and `make quick` has no long ones."""

from __future__ import annotations

from tests.file_times import LONG_SECONDS, SHARE, file_times, first_commands
from tests.tiers import Tier


def lines(first: int, last: int) -> set[tuple[str, int]]:
    return {("module.py", number) for number in range(first, last)}


def test_the_files_that_reach_most_for_their_time_are_run() -> None:
    reached = {
        "": lines(0, 10),
        "quick": lines(0, 40),
        "engine": lines(30, 90),
        "slow_twin": lines(30, 92),
        "rest": lines(90, 100),
    }
    seconds = {"quick": 1.0, "engine": 5.0, "slow_twin": 50.0, "rest": 5.0, "program": 9.0}
    tiers = {**dict.fromkeys(("engine", "slow_twin", "rest"), "test"), "program": "full"}
    commands = first_commands(reached, seconds, {**tiers, "quick": "quick"})
    assert commands == {
        "quick": "quick",
        "engine": "test",
        "rest": "test",
        "slow_twin": "full",
        "program": "full",
    }


def test_what_is_quick_by_its_imports_but_takes_long_is_not_run_by_make_quick() -> None:
    reached = {"": lines(0, 10), "short": lines(0, 10), "long": lines(0, 100)}
    seconds = {"short": 1.0, "long": LONG_SECONDS + 1}
    commands = first_commands(reached, seconds, dict.fromkeys(seconds, "quick"))
    assert commands == {"short": "quick", "long": "test"}


def test_a_part_of_the_lines_is_enough() -> None:
    many = round(SHARE * 100)
    reached = {"": set[tuple[str, int]](), "most": lines(0, many), "last": lines(many, 100)}
    seconds = {"most": 5.0, "last": 5.0}
    commands = first_commands(reached, seconds, dict.fromkeys(seconds, "test"))
    assert commands == {"most": "test", "last": "full"}


def test_no_command_runs_a_file_before_its_tier() -> None:
    assert file_times()
    for name, known in file_times().items():
        assert known.tier is not None, name
        assert Tier[known.command.upper()] >= Tier[known.tier.upper()], name
