"""Speech-like sound for tests: bursts of noise with pauses."""

from __future__ import annotations

import numpy as np

from calculators.speech.speech_to_text.realtime.audio_format import PCM_RATE, Pcm


def silence(seconds: float, rate: int = PCM_RATE) -> Pcm:
    return np.zeros(int(seconds * rate), np.int16)


def noise(seconds: float, level: float, rate: int = PCM_RATE, seed: int = 0) -> Pcm:
    """Noise with an energy of ``level`` dBFS."""
    made = np.random.default_rng(seed).standard_normal(int(seconds * rate))
    return np.clip(made * 32768 * 10 ** (level / 20), -32768, 32767).astype(np.int16)


def speech(seconds: float, level: float = -20.0, rate: int = PCM_RATE) -> Pcm:
    """Syllables of 160 ms with gaps of 80 ms."""
    pieces = []
    for number in range(int(seconds / 0.24)):
        pieces += [noise(0.16, level, rate, number), noise(0.08, level - 30, rate, number)]
    return np.concatenate(pieces)
