"""Changes of the sample rate, by soxr."""

from __future__ import annotations

from typing import Final

import numpy as np
import soxr

from calculators.speech.audio.sound import Sound

#: Samples per second that a sound may have. Speech needs 1,000 at least; files of lower rates
#: would become as many times longer as they are lower.
LOWEST_RATE: Final = 1_000
HIGHEST_RATE: Final = 768_000


def resample(sound: Sound, sample_rate: int) -> Sound:
    """Return a sound at another sample rate. Takes long for long sounds, without the GIL.

    Raises:
        ValueError: the sound's rate is none that sounds have.
    """
    if not LOWEST_RATE <= sound.sample_rate <= HIGHEST_RATE:
        raise ValueError(
            f"a sound has {LOWEST_RATE} to {HIGHEST_RATE} samples per second, "
            f"not {sound.sample_rate}"
        )
    if sound.sample_rate == sample_rate or not len(sound.samples):
        return Sound(sound.samples, sample_rate)
    samples = soxr.resample(sound.samples, sound.sample_rate, sample_rate)
    return Sound(np.asarray(samples, np.float32), sample_rate)
