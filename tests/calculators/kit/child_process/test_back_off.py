"""Pauses between lives: they double, have a bound, and begin anew after a good life."""

from __future__ import annotations

from calculators.kit.child_process.back_off import BackOff


def test_pauses_double_up_to_the_longest() -> None:
    back_off = BackOff(0.5, 3.0)
    assert [back_off.next_pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert back_off.failures == 5


def test_pauses_begin_anew_after_a_good_life() -> None:
    back_off = BackOff(0.5, 3.0, good_life=10.0)
    for _ in range(3):
        back_off.next_pause()
    back_off.note_life(10.0)
    assert (back_off.failures, back_off.next_pause()) == (3, 3.0)
    back_off.note_life(10.1)
    assert (back_off.failures, back_off.next_pause()) == (0, 0.5)


def test_a_process_that_fails_for_a_day_is_still_started_again() -> None:
    back_off = BackOff()
    assert [back_off.next_pause() for _ in range(3000)][-1] == 30.0
