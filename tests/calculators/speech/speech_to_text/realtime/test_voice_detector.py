"""Speech is found by its energy, in noise and in silence, in whatever pieces it comes."""

from __future__ import annotations

import numpy as np
import pytest

from calculators.speech.speech_to_text.realtime.audio_format import PCM_RATE, Pcm
from calculators.speech.speech_to_text.realtime.voice_detector import (
    FRAME_MS,
    VoiceDetector,
    VoiceSettings,
)
from tests.calculators.speech.speech_to_text.realtime.sounds import noise, silence, speech

USUAL = VoiceSettings()


def changes_in(
    sound: Pcm, settings: VoiceSettings = USUAL, *, step: int = 480, rate: int = PCM_RATE
) -> list[tuple[bool, float]]:
    """Return beginnings and ends, in seconds."""
    detector = VoiceDetector(rate, settings)
    return [
        (change.begins, change.frame * FRAME_MS / 1000)
        for at in range(0, len(sound), step)
        for change in detector.add(sound[at : at + step])
    ]


@pytest.mark.parametrize("background", [-96.0, -65.0, -50.0, -40.0])
@pytest.mark.parametrize("rate", [8000, PCM_RATE])
def test_utterances_are_found_in_noise(background: float, rate: int) -> None:
    words = speech(1.2, rate=rate)
    pause = silence(1.0, rate)
    sound = np.concatenate((pause, pause, words, pause, words, pause))
    sound = np.clip(
        sound.astype(np.int32) + noise(len(sound) / rate, background, rate, 7), -32768, 32767
    ).astype(np.int16)
    found = changes_in(sound, rate=rate)
    assert [begins for begins, _ in found] == [True, False, True, False]
    for (_, at), expected in zip(found, (2.0, 3.2, 4.2, 5.4), strict=True):
        assert at == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize("step", [1, 7, 480, 1000, 100_000])
def test_the_pieces_do_not_matter(step: int) -> None:
    sound = np.concatenate((silence(0.5), speech(0.8), silence(0.8)))
    assert changes_in(sound, step=step) == changes_in(sound)


def test_silence_and_clicks_are_no_speech() -> None:
    click = noise(0.02, -6.0)
    sound = np.concatenate((silence(1), click, silence(1), noise(2, -60.0), click, silence(1)))
    assert changes_in(sound) == []


def test_a_short_pause_does_not_end_speech() -> None:
    sound = np.concatenate((silence(0.5), speech(0.7), silence(0.4), speech(0.7), silence(1)))
    assert [begins for begins, _ in changes_in(sound)] == [True, False]
    brief = VoiceSettings(silence_duration_ms=200)
    assert [begins for begins, _ in changes_in(sound, brief)] == [True, False] * 2


def test_a_higher_threshold_needs_louder_speech() -> None:
    sound = np.concatenate((silence(0.5), speech(1.0, -42.0), silence(1)))
    assert changes_in(sound, VoiceSettings(threshold=0.9)) == []
    assert len(changes_in(sound, VoiceSettings(threshold=0.1))) == 2


def test_a_hum_is_speech_for_a_while_only() -> None:
    found = changes_in(np.concatenate((silence(1), noise(60, -35.0))))
    assert [begins for begins, _ in found] == [True, False]


def test_one_may_speak_at_once() -> None:
    found = changes_in(np.concatenate((speech(1.2), silence(1))))
    assert [begins for begins, _ in found] == [True, False]
    assert found[0][1] == 0
