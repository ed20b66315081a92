"""`Sound`: the packet of sound between calculators, and changes of it.

Samples are float32 within -1 and 1. Between processes they travel as 16-bit integers (`to_pcm16`).
`resample` changes the sample rate, `change_tempo` the speed at the same pitch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.kit.installed_points import is_installed

Samples: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Sound of one channel.

    Attributes:
        samples: float32, shape ``[N]``, nominally within -1 and 1.
        sample_rate: samples per second, in Hz.
    """

    samples: Samples
    sample_rate: int

    @property
    def seconds(self) -> float:
        """The duration."""
        return len(self.samples) / self.sample_rate


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
    # Imported here: packets of sound need no library.
    import soxr

    samples = soxr.resample(sound.samples, sound.sample_rate, sample_rate)
    return Sound(np.asarray(samples, np.float32), sample_rate)


#: Seconds of silence that the filters may keep, at the slower of both tempos.
_SILENCE: Final = 0.5


def can_change_tempo() -> bool:
    """Return whether the package av is installed."""
    return is_installed("av")


def change_tempo(samples: Samples, sample_rate: int, tempo: float) -> Samples:
    """Return sound that is ``tempo`` times as fast, with the same pitch.

    Args:
        samples: float32, shape ``[N]``.
        sample_rate: samples per second, in Hz.
        tempo: above 0; 2.0 halves the duration.
    """
    if not len(samples) or tempo == 1.0:
        return samples
    import av
    from av.filter import Graph

    # The filter keeps its last window to itself, so silence follows the sound and is cut off again.
    length = round(len(samples) / tempo)
    silence = np.zeros(int(sample_rate * _SILENCE * max(1.0, tempo)), np.float32)
    samples = np.concatenate((samples, silence), dtype=np.float32)
    graph = Graph()
    steps: list[Any] = [
        graph.add_abuffer(sample_rate=sample_rate, format="flt", layout="mono"),
        *(graph.add("atempo", f"{step:.6f}") for step in _steps(tempo)),
        graph.add("abuffersink"),
    ]
    graph.link_nodes(*steps).configure()
    frame = av.AudioFrame.from_ndarray(
        np.ascontiguousarray(samples, np.float32).reshape(1, -1), format="flt", layout="mono"
    )
    frame.sample_rate = sample_rate
    frame.pts = 0
    graph.push(frame)
    graph.push(None)
    parts: list[Samples] = []
    while True:
        try:
            made: Any = graph.pull()
        except (av.error.BlockingIOError, av.error.EOFError):
            break
        parts.append(made.to_ndarray().reshape(-1).astype(np.float32))
    return np.concatenate(parts)[:length] if parts else np.zeros(0, np.float32)


def _steps(tempo: float) -> list[float]:
    """Split a tempo into factors from 0.5 to 2: beyond them FFmpeg drops samples, not blends."""
    steps = []
    while tempo > 2.0:
        steps.append(2.0)
        tempo /= 2.0
    while tempo < 0.5:
        steps.append(0.5)
        tempo /= 0.5
    return [*steps, tempo]


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
