"""`change_tempo`: faster or slower speech of the same pitch, by FFmpeg through the package av."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from calculators.speech.audio.sound import Samples

#: Seconds of silence that the filters may keep, at the slower of both tempos.
_SILENCE: Final = 0.5


def can_change_tempo() -> bool:
    """Return whether the package av is installed."""
    return find_spec("av") is not None


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
    """Return factors from 0.5 to 2, within which FFmpeg blends instead of leaving out."""
    steps = []
    while tempo > 2.0:
        steps.append(2.0)
        tempo /= 2.0
    while tempo < 0.5:
        steps.append(0.5)
        tempo /= 0.5
    return [*steps, tempo]
