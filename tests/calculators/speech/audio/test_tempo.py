"""Faster and slower speech: its length, and its end."""

from __future__ import annotations

import numpy as np
import pytest

from calculators.speech.audio.sound import change_tempo

RATE = 16000

pytest.importorskip("av", reason="the extra av")


@pytest.mark.parametrize("tempo", [0.25, 0.4, 0.5, 0.8, 1.5, 2.0, 4.0])
def test_the_end_of_the_sound_stays(tempo: float) -> None:
    time = np.arange(RATE * 2) / RATE
    samples = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    made = change_tempo(samples, RATE, tempo)
    assert len(made) == round(len(samples) / tempo)
    # It fades within the filter's window, of 80 ms at a quarter of the speed.
    last = made[-RATE // 10 : -RATE // 12]
    assert np.sqrt(np.mean(last**2)) == pytest.approx(np.sqrt(0.5), abs=0.1)


@pytest.mark.parametrize("tempo", [0.5, 2.0])
def test_a_sound_shorter_than_a_window_is_not_lost(tempo: float) -> None:
    samples = np.full(300, 0.5, np.float32)
    made = change_tempo(samples, RATE, tempo)
    assert len(made) == round(300 / tempo)
    assert np.abs(made).max() > 0.1
