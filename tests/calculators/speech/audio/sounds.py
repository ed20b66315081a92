"""Sounds for tests, made here, as files of several formats."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray


def tone(seconds: float, rate: int = 16_000, hertz: float = 440.0) -> NDArray[np.float32]:
    """Return a sine of half the full scale."""
    times = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * hertz * times)).astype(np.float32)


def encoded(samples: NDArray[Any], rate: int = 16_000, /, **form: str) -> bytes:
    """Return samples as a file. ``form``: soundfile's format and subtype."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, **form)
    return file.getvalue()


def silence(seconds: int, rate: int = 16_000) -> bytes:
    """Return hours of silence, if wanted, as a FLAC of a few kilobytes for each."""
    file = io.BytesIO()
    second = np.zeros(rate, np.int16)
    with soundfile.SoundFile(file, "w", rate, 1, format="FLAC") as writer:
        for _ in range(seconds):
            writer.write(second)
    return file.getvalue()


def wav(samples: NDArray[Any], rate: int = 16_000) -> bytes:
    """Return samples, ``[n]`` or ``[n, channels]``, as a WAV of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


def with_bytes(content: bytes, place: int, new: bytes) -> bytes:
    """Return the content with some of its bytes replaced."""
    return content[:place] + new + content[place + len(new) :]
