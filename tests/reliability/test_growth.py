"""What counts as growth of a process."""

from __future__ import annotations

from random import Random

from tests.reliability.growth import Line, growing, rise


def line_of(slope: float, noise: float = 0.0, step: tuple[float, float] = (0.0, 0.0)) -> Line:
    """Five minutes of looks; a slope in MiB a minute, and a step at a second."""
    random = Random(0)
    at_second, height = step
    return [
        (
            float(at),
            100.0 + slope * at / 60 + random.uniform(-noise, noise) + height * (at >= at_second),
        )
        for at in range(0, 300, 2)
    ]


def test_what_is_lost_with_each_request_is_growth() -> None:
    (told,) = growing({"the engine": line_of(3.0, noise=0.5)}, 180.0)
    assert told.startswith("the engine grows: ")
    assert "from second 180 on" in told


def test_a_batch_and_a_step_are_no_growth() -> None:
    lines = {
        "noisy": line_of(0.0, noise=10.0),
        "a step": line_of(0.0, step=(280.0, 50.0)),
        "slow": line_of(0.5),
    }
    assert growing(lines, 180.0) == []


def test_growth_that_ends_before_is_none() -> None:
    line = [(at, min(size, 108.0)) for at, size in line_of(4.0)]
    slope, higher = rise(line[:80])
    assert round(slope, 1) == 4.0
    assert higher > 5.0
    assert growing({"x": line}, 180.0) == []


def test_a_process_that_was_there_for_a_moment_is_not_judged() -> None:
    assert growing({"x": line_of(100.0)[-5:]}, 180.0) == []
