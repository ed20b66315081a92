"""The definition of a process's growth."""

from __future__ import annotations

from random import Random

import pytest

from tests.reliability.growth import Line, growing, rise


def line_of(
    slope: float,
    noise: float = 0.0,
    step: tuple[float, float] = (0.0, 0.0),
    tooth: tuple[float, float] = (1.0, 0.0),
    seconds: int = 300,
) -> Line:
    """Return samples with a slope in MiB a minute, a step at a second, and a sawtooth.

    ``tooth``: its period in seconds and its height in MiB.
    """
    random = Random(0)
    at_second, height = step
    period, top = tooth
    return [
        (
            float(at),
            100.0
            + slope * at / 60
            + random.uniform(-noise, noise)
            + height * (at >= at_second)
            + top * (at % period) / period,
        )
        for at in range(0, seconds, 2)
    ]


def test_a_leak_per_request_is_growth() -> None:
    (told,) = growing({"the engine": line_of(3.0, noise=0.5)}, 180.0)
    assert told.startswith("the engine grows: ")
    assert "from second 180 on" in told


def test_a_batch_or_a_step_is_not_growth() -> None:
    lines = {
        "noisy": line_of(0.0, noise=10.0),
        "a step": line_of(0.0, step=(280.0, 50.0)),
        "slow": line_of(0.5),
    }
    assert growing(lines, 180.0) == []


def test_growth_that_has_ended_before_is_ignored() -> None:
    line = [(at, min(size, 108.0)) for at, size in line_of(4.0)]
    slope, higher = rise(line[:80])
    assert round(slope, 1) == 4.0
    assert higher > 5.0
    assert growing({"x": line}, 180.0) == []


def test_a_process_of_a_few_samples_is_not_judged() -> None:
    assert growing({"x": line_of(100.0)[-5:]}, 180.0) == []


@pytest.mark.parametrize("period", [7.0, 19.0, 33.0, 47.0])
@pytest.mark.parametrize("seconds", [360, 400, 600])
def test_a_cache_that_is_emptied_again_and_again_is_no_growth(period: float, seconds: int) -> None:
    line = line_of(0.0, noise=1.0, tooth=(period, 80.0), seconds=seconds)
    assert growing({"x": line}, 180.0) == []


@pytest.mark.parametrize("period", [7.0, 19.0, 33.0, 47.0])
@pytest.mark.parametrize("seconds", [360, 400, 600])
def test_what_is_lost_beside_such_a_cache_is_growth(period: float, seconds: int) -> None:
    line = line_of(10.0, noise=1.0, tooth=(period, 80.0), seconds=seconds)
    assert len(growing({"x": line}, 180.0)) == 1


def test_a_cache_that_is_not_emptied_is_growth() -> None:
    line = line_of(0.0, tooth=(1000.0, 200.0), seconds=600)
    assert len(growing({"x": line}, 180.0)) == 1


def test_chance_in_the_swing_of_a_cache_is_no_growth() -> None:
    line = line_of(1.5, noise=30.0, seconds=400)
    assert growing({"x": line}, 180.0) == []
    assert len(growing({"x": line_of(1.5, noise=1.0, seconds=400)}, 180.0)) == 1
