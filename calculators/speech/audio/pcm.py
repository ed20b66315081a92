"""Samples as 16-bit integers, the form in which sound travels between processes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from calculators.speech.audio.sound import Samples

BYTES_PER_SAMPLE: Final = 2
_FULL_SCALE: Final = 32768.0


def to_pcm16(samples: Samples) -> bytes:
    """Return little-endian integers; samples beyond -1 and 1 are clipped."""
    scaled = np.rint(samples * np.float32(_FULL_SCALE))
    integers: NDArray[np.int16] = np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
    return integers.tobytes()


def from_pcm16(content: bytes | bytearray | memoryview) -> Samples:
    """Return samples from little-endian integers."""
    integers: NDArray[np.int16] = np.frombuffer(content, "<i2")
    return integers.astype(np.float32) / np.float32(_FULL_SCALE)
