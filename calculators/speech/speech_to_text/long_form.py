"""`LongForm`: a part of a long sound, heard by openvino-genai window by window.

Whisper hears 30 s at a time. It writes the times of what it hears, too, and the library (2026.4,
``whisper.cpp``) begins the next window where the last complete segment ended, or behind the window
if nothing was said after that segment. It tells which of both it did only by the times of the next
window's segments. So a part ends with a window that is heard for its beginning alone, unless both
places are the same; the next part begins there, and hears it again. The windows of a sound in parts
are those of a sound as a whole.

A part differs in one thing: the library's features have a floor 80 dB below the loudest moment of
the samples that it gets, and these are the part's. In training they were those of one window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import openvino_genai as genai

from calculators.speech.speech_to_text.messages import WINDOW, Recognize

_WINDOW_SECONDS: Final = 30.0
#: Times are multiples of 0.02 s; the library's features, and its places, of 0.01 s.
_FRAME_SECONDS: Final = 0.01
_FRAME: Final = 160
#: Windows more than a part has room for, which its end may take although others wait.
_MOST_SHORT: Final = 2

#: Start and end in seconds, and text; an end below 0 is not known.
Chunk: TypeAlias = tuple[float, float, str]


class Heard(NamedTuple):
    """The part of a part that counts.

    Attributes:
        windows, chunks: the first ones.
        samples: where the next part begins.
        rest: the text of these windows that was not reported before.
    """

    windows: int
    chunks: int
    samples: int
    rest: str


class LongForm(genai.StreamerBase):  # type: ignore[misc]  # it has no types
    """Hears about each window of a part, and decides whether another one begins.

    Attributes:
        texts: those of the windows so far.
        is_cancelled: nobody wants the text.
        failure: the exception of a callback: the library would print it and go on.
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        question: Recognize,
        samples: int,
        on_text: Callable[[str], bool],
        yields: Callable[[], bool],
    ) -> None:
        """``samples``: of the part; ``decode``: returns the text of tokens; the other arguments are
        those of `SpeechModel.recognize_part`.
        """
        super().__init__()
        self._decode = decode
        self._question = question
        self._samples = samples
        self._on_text = on_text
        self._yields = yields
        self._is_stopped = False
        self.texts: list[str] = []
        self.is_cancelled = False
        self.failure: BaseException | None = None

    def write(self, tokens: int | list[int]) -> genai.StreamingStatus:
        """Take the tokens of a window without times; the library calls this when it is over."""
        try:
            certain = self.texts[-1] if self.texts else ""
            self.texts.append(self._decode([tokens] if isinstance(tokens, int) else tokens))
            self.is_cancelled = not self._on_text(certain)
            self._is_stopped = self._is_over()
        except BaseException as error:
            self.failure = error
        is_over = self.is_cancelled or self._is_stopped or self.failure is not None
        return genai.StreamingStatus.CANCEL if is_over else genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Do nothing: the end of the call is the end of the part."""

    def _is_over(self) -> bool:
        count = len(self.texts)
        if not self._question.is_last:
            return count >= self._question.windows or (count > 1 and self._yields())
        # The library fills the last window of a long sound otherwise than a short sound, so a rest
        # of one window does not become a part of its own.
        left = self._samples - count * WINDOW
        is_at_end = left <= WINDOW and count <= self._samples // WINDOW + _MOST_SHORT
        return count > 1 and not is_at_end and self._yields()

    def heard(self, chunks: Sequence[Chunk]) -> Heard:
        """Return how much of the part counts. ``chunks``: the segments of all its windows."""
        count = len(self.texts)
        if not self._is_stopped:
            return Heard(count, len(chunks), self._samples, self.texts[-1] if self.texts else "")
        begin, first = 0.0, 0
        for window, text in enumerate(self.texts):
            last = _last_chunk(chunks, first, text)
            behind = begin + _WINDOW_SECONDS
            end = chunks[last - 1][1] if last > first else behind
            if not 0 <= end < behind - _FRAME_SECONDS:
                end = behind
            is_last = window == count - 1
            if is_last and (end < behind or self._question.words):
                # The library has no words of a window at which it was stopped.
                return Heard(window, first, _samples(begin), "")
            if is_last:
                return Heard(count, last, _samples(behind), text)
            is_behind = last == len(chunks) or chunks[last][0] > behind - _FRAME_SECONDS
            begin, first = behind if is_behind else end, last
        raise AssertionError("a part is stopped after a window")


def _last_chunk(chunks: Sequence[Chunk], first: int, text: str) -> int:
    """Return the end of the chunks that are one window's text, at least one if there are any."""
    place, length = first, 0
    while place < len(chunks) and (place == first or length < len(text)):
        length += len(chunks[place][2])
        place += 1
    return place


def _samples(seconds: float) -> int:
    return round(seconds / _FRAME_SECONDS) * _FRAME
