"""`SoundParts`: the samples of a sound, part by part, and `TextOfParts`: the transcript of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from calculators.speech.audio.sound import BYTES_PER_SAMPLE, Samples, from_pcm16
from calculators.speech.audio.speech_recognizer import Segment, Transcript, Word
from calculators.speech.speech_to_text.languages import code_of
from calculators.speech.speech_to_text.messages import SAMPLE_RATE, WINDOW, Recognize, Recognized
from calculators.speech.speech_to_text.node_options import SpeechToTextOptions

#: Windows of the first part of a long sound, whose text comes soon, and of the others.
_FIRST_WINDOWS: Final = 3
_WINDOWS: Final = 6
#: A sound of up to so many samples is one window of Whisper: a rest below a frame is not heard.
_SHORT: Final = WINDOW + 159
#: Where models other than Whisper are cut: in the quietest moment of the last seconds of a window.
_CUT_SAMPLES: Final = 5 * SAMPLE_RATE
_MOMENT: Final = SAMPLE_RATE // 10

#: Returns the next samples as `calculators.speech.audio.sound` has them; none at the end.
Read = Callable[[], Awaitable[memoryview]]


class Part(NamedTuple):
    """Samples for one turn; ``windows`` and ``is_last`` are as in `Recognize`."""

    pcm: bytes
    windows: int
    is_last: bool

    @property
    def seconds(self) -> float:
        return len(self.pcm) / BYTES_PER_SAMPLE / SAMPLE_RATE


class SoundParts:
    """Reads a sound as far as the next part needs it.

    Attributes:
        seconds: of the sound, by its header as long as its end is not known.
        heard: samples that have been recognized.
    """

    def __init__(self, read: Read, seconds: float, *, is_whisper: bool) -> None:
        self._read = read
        self._is_whisper = is_whisper
        self._samples = bytearray()
        self._is_whole = False
        self.seconds = seconds
        self.heard = 0

    @property
    def seconds_left(self) -> float:
        """The duration of what has not been recognized, about."""
        return max(self.seconds - self.heard / SAMPLE_RATE, 0.0)

    async def next(self) -> Part:
        """Return the next part; reading may raise."""
        await self._fill(_SHORT + 1)
        if self.heard == 0 and self._is_whole and self._count <= _SHORT:
            return self._part(self._count, 0, is_last=True)
        if not self._is_whisper:
            if self._is_whole and self._count <= WINDOW:
                return self._part(self._count, 0, is_last=True)
            return self._part(_quiet_cut(from_pcm16(self._samples[: 2 * WINDOW])), 0, is_last=False)
        windows = _WINDOWS if self.heard else _FIRST_WINDOWS
        await self._fill((windows + 1) * WINDOW + 1)
        is_last = self._is_whole and self._count <= (windows + 1) * WINDOW
        return self._part(self._count if is_last else windows * WINDOW, windows, is_last=is_last)

    def drop(self, samples: int) -> None:
        """Note that so many samples have been recognized."""
        del self._samples[: samples * BYTES_PER_SAMPLE]
        self.heard += samples

    @property
    def _count(self) -> int:
        return len(self._samples) // BYTES_PER_SAMPLE

    def _part(self, samples: int, windows: int, *, is_last: bool) -> Part:
        return Part(bytes(self._samples[: samples * BYTES_PER_SAMPLE]), windows, is_last)

    async def _fill(self, samples: int) -> None:
        while not self._is_whole and self._count < samples:
            more = await self._read()
            self._samples += more
            if not len(more):
                self._is_whole = True
                self.seconds = (self.heard + self._count) / SAMPLE_RATE


def _quiet_cut(samples: Samples) -> int:
    """Return the place of the quietest moment near the end of a window."""
    first = len(samples) - _CUT_SAMPLES
    moments = np.abs(samples[first:]).reshape(-1, _MOMENT).sum(axis=1)
    # Of equals the last: silence is not cut into more pieces than need be.
    place = len(moments) - 1 - int(np.argmin(moments[::-1]))
    return first + place * _MOMENT + _MOMENT


class TextOfParts:
    """Text, segments and words so far."""

    def __init__(self, options: SpeechToTextOptions) -> None:
        # Whisper writes the blank itself.
        self._between = "" if options.is_whisper else " "
        self._takes_language = options.is_multilingual and bool(options.languages)
        self._is_begun = False
        self._text = ""
        self._language = ""
        self._segments: list[tuple[float, float, str, list[int]]] = []
        self._words: list[Word] = []

    def continued(self, question: Recognize, number: int, part: Part) -> Recognize:
        """Return the question about a part. ``number``: that of the part.

        As in a sound that is heard at once, the first window decides the language, and only that
        window gets the prompt.
        """
        question = replace(question, number=number, windows=part.windows, is_last=part.is_last)
        if not self._is_begun:
            return question
        found = self._language if self._takes_language else ""
        return replace(question, language=question.language or found, prompt="")

    def add(self, done: Recognized, begin: float) -> None:
        """Add the text of the next part, which begins at this second."""
        self._is_begun = True
        self._text += (self._between if self._text and done.text else "") + done.text
        self._language = self._language or done.language
        self._segments += [
            (start + begin, end + begin if end >= 0 else end, text, tokens)
            for start, end, text, tokens in done.segments
        ]
        self._words += [Word(start + begin, end + begin, text) for start, end, text in done.words]

    def transcript(self, seconds: float) -> Transcript:
        """Return everything. ``seconds``: the duration of the sound."""
        return Transcript(
            text=self._text,
            seconds=seconds,
            language=code_of(self._language) if self._language else "",
            segments=self._whole_segments(seconds),
            words=tuple(self._words),
        )

    def _whole_segments(self, seconds: float) -> tuple[Segment, ...]:
        """Return the segments, within the sound. One without an end lasts until the next begins."""
        made: list[Segment] = []
        next_start = seconds
        for start, end, text, tokens in reversed(self._segments):
            start = min(start, seconds)
            end = min(end if end >= start else next_start, seconds)
            made.append(Segment(start, end, text, tuple(tokens)))
            next_start = start
        return tuple(reversed(made))
