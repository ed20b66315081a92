"""`InputBuffer`: the sound of a session that no item has yet."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from calculators.speech.speech_to_text.realtime.audio_format import Pcm

#: Seconds of sound that wait for a commit.
MOST_SECONDS: Final = 300


class BufferFullError(Exception):
    """The client has appended `MOST_SECONDS` without a commit."""


class InputBuffer:
    """Sound in order. Places are numbers of samples since the session began.

    Attributes:
        begin, end: places of the first sample that is kept, and after the last one.
    """

    def __init__(self, rate: int) -> None:
        """``rate``: samples per second."""
        self.begin = 0
        self.end = 0
        self._limit = MOST_SECONDS * rate
        self._pieces: deque[Pcm] = deque()

    def append(self, samples: Pcm) -> None:
        """Add sound.

        Raises:
            BufferFullError: there is too much; nothing is added.
        """
        if self.end - self.begin + len(samples) > self._limit:
            raise BufferFullError
        if len(samples):
            self._pieces.append(samples)
            self.end += len(samples)

    def drop_before(self, place: int) -> None:
        """Forget the sound before a place."""
        while self._pieces and self.begin + len(self._pieces[0]) <= place:
            self.begin += len(self._pieces.popleft())
        if self._pieces and self.begin < place:
            # A copy: a view would keep the whole piece.
            self._pieces[0] = self._pieces[0][place - self.begin :].copy()
            self.begin = place

    def between(self, begin: int, end: int) -> Pcm:
        """Return the sound from one place to another; parts that are not kept are left out."""
        found = []
        at = self.begin
        for piece in self._pieces:
            first, last = max(begin - at, 0), min(end - at, len(piece))
            if first < last:
                found.append(piece[first:last])
            at += len(piece)
        return np.concatenate(found) if found else np.empty(0, np.int16)
