"""`VoiceDetector`: finds speech by its energy above the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from calculators.speech.speech_to_text.realtime.audio_format import Pcm

FRAME_MS: Final = 20
#: Frames in a row above the level that begin speech: a click is shorter.
_FRAMES_TO_BEGIN: Final = 3
#: Decibels between the level that begins speech and the level that continues it.
_HYSTERESIS: Final = 5.0
#: The energy of digital silence, in dBFS.
_SILENCE: Final = -96.0
#: The first frame is taken for noise, but not if it is louder: one may begin to speak at once.
_LOUDEST_FIRST_NOISE: Final = -38.0
#: Decibels per frame by which the noise may be louder: in a pause, and in speech, where a hum that
#: is taken for speech must end too.
_RISE_IN_PAUSE: Final = 0.12
_RISE_IN_SPEECH: Final = 0.04
#: The share of a quieter frame in the noise.
_FALL: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceSettings:
    """OpenAI's ``server_vad``.

    Attributes:
        threshold: 0 to 1; more needs louder speech.
        prefix_padding_ms: sound before the beginning of speech that belongs to it.
        silence_duration_ms: silence that ends speech.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500


@dataclass(frozen=True, slots=True)
class VoiceChange:
    """Speech begins or ends.

    Attributes:
        begins: False: it ends.
        frame: the number of the first frame of speech, or of the first one after it, from 0.
        noticed: the number of the frame after the one that decided it.
    """

    begins: bool
    frame: int
    noticed: int


class VoiceDetector:
    """Decides for each frame of `FRAME_MS` whether one speaks.

    A frame is loud if its energy is above both a fixed level and the noise, which is followed. The
    threshold moves both. No model is needed; music and other voices count as speech.

    Attributes:
        speaks: the last frame belongs to speech.
    """

    def __init__(self, rate: int, settings: VoiceSettings) -> None:
        """``rate``: samples per second."""
        self.frame_samples = rate * FRAME_MS // 1000
        self.speaks = False
        self._least = -55.0 + 20.0 * settings.threshold
        self._above_noise = 4.0 + 12.0 * settings.threshold
        self._frames_to_end = max(1, settings.silence_duration_ms // FRAME_MS)
        self._noise = _LOUDEST_FIRST_NOISE
        self._rest = np.empty(0, np.int16)
        self._frames = 0
        self._loud = 0
        self._quiet = 0

    def add(self, samples: Pcm) -> list[VoiceChange]:
        """Take the next samples; return the changes in their whole frames."""
        if len(self._rest):
            samples = np.concatenate((self._rest, samples))
        whole = len(samples) // self.frame_samples
        self._rest = samples[whole * self.frame_samples :].copy()
        if not whole:
            return []
        frames = samples[: whole * self.frame_samples].reshape(whole, -1).astype(np.float32)
        power = np.mean(np.square(frames), axis=1) / 32768.0**2
        levels = 10.0 * np.log10(np.maximum(power, 10 ** (_SILENCE / 10)))
        changes = []
        for level in levels.tolist():
            self._frames += 1
            change = self._step(level)
            if change is not None:
                changes.append(change)
        return changes

    def end_speech(self) -> None:
        """Count the frames so far as no speech: what was spoken has been taken."""
        self.speaks = False
        self._loud = self._quiet = 0

    def _step(self, level: float) -> VoiceChange | None:
        if self._frames == 1:
            self._noise = min(level, _LOUDEST_FIRST_NOISE)
        needed = max(self._least, self._noise + self._above_noise)
        is_loud = level >= (needed - _HYSTERESIS if self.speaks else needed)
        self._follow_noise(level)
        if self.speaks:
            self._quiet = 0 if is_loud else self._quiet + 1
            if self._quiet < self._frames_to_end:
                return None
            first = self._frames - self._quiet
            self.end_speech()
            return VoiceChange(False, first, self._frames)
        self._loud = self._loud + 1 if is_loud else 0
        if self._loud < _FRAMES_TO_BEGIN:
            return None
        self.speaks = True
        self._quiet = 0
        return VoiceChange(True, self._frames - self._loud, self._frames)

    def _follow_noise(self, level: float) -> None:
        if level < self._noise:
            self._noise += _FALL * (level - self._noise)
        else:
            rise = _RISE_IN_SPEECH if self.speaks else _RISE_IN_PAUSE
            self._noise += min(rise, level - self._noise)
