"""The progress of loading: phases, parts, measures; it never falls."""

from __future__ import annotations

import pytest

from graph_runtime import LoadProgress


def test_phases_follow_each_other() -> None:
    progress = LoadProgress()
    assert (progress.phase, progress.fraction) == ("", 0)
    progress.begin("reading", 0.0, 0.25)
    assert (progress.phase, progress.fraction) == ("reading", 0)
    progress.begin("compiling", 0.25, 1.0)
    assert (progress.phase, progress.fraction) == ("compiling", 0.25)
    progress.finish()
    assert progress.fraction == 1


def test_a_phase_is_measured_whenever_it_is_read() -> None:
    done = [0.0]
    progress = LoadProgress()
    progress.begin("reading", 0.2, 0.6, lambda: done[0])
    assert progress.fraction == pytest.approx(0.2)
    done[0] = 0.5
    assert progress.fraction == pytest.approx(0.4)
    done[0] = 7.0  # more than expected
    assert progress.fraction == pytest.approx(0.6)


def test_the_fraction_never_falls() -> None:
    done = [0.9]
    progress = LoadProgress()
    progress.begin("reading", 0.0, 1.0, lambda: done[0])
    assert progress.fraction == pytest.approx(0.9)
    done[0] = 0.1
    assert progress.fraction == pytest.approx(0.9)
    progress.begin("again", 0.5)
    assert progress.fraction == pytest.approx(0.9)


def test_parts_share_what_is_left() -> None:
    progress = LoadProgress()
    progress.begin("converting", 0.5)
    large, small = progress.split(3, 1)
    assert (progress.phase, progress.fraction) == ("converting", 0.5)
    small.begin("small", 0.5)
    assert progress.phase == "small"
    assert progress.fraction == pytest.approx(0.5625)
    large.begin("large", 0.0)
    assert progress.phase == "large"
    large.finish()
    assert progress.phase == "small"
    assert progress.fraction == pytest.approx(0.9375)
    small.finish()
    assert progress.fraction == pytest.approx(1)


def test_a_part_may_be_split_again() -> None:
    progress = LoadProgress()
    (part,) = progress.split(1)
    first, second = part.split(1, 1)
    first.begin("first", 0.5)
    assert progress.fraction == pytest.approx(0.25)
    second.begin("second", 0.0)
    assert progress.phase == "second"
