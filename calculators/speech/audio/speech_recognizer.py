"""Speech recognition as other rooms see it: a recognizer, a recognition, a transcript."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from calculators.speech.audio.sound import Sound


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """The settings of one recognition.

    Attributes:
        language: "en", "english" or "en-US"; "" lets the model decide.
        prompt: text that was said before, or that shows spellings.
        hotwords: words that the model should expect in the whole sound.
        temperature: 0 chooses the likeliest tokens; above 0 they are drawn.
        translates: write English, whatever is spoken.
        segments: find the times of segments.
        words: find the times of words.
    """

    language: str = ""
    prompt: str = ""
    hotwords: str = ""
    temperature: float = 0.0
    translates: bool = False
    segments: bool = False
    words: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A sentence or a part of one; ``start`` and ``end`` in seconds, ``tokens`` of its text."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """A word; ``start`` and ``end`` in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The text of a sound.

    Attributes:
        text: as the model writes it; Whisper's begins with a blank.
        language: its code, as spoken; "" if the model does not report it.
        seconds: the duration of the sound.
        segments, words: empty unless they were requested.
    """

    text: str
    seconds: float
    language: str = ""
    segments: tuple[Segment, ...] = ()
    words: tuple[Word, ...] = ()


class Recognition(Protocol):
    """A sound on its way to text."""

    def pieces(self) -> AsyncIterator[str]:
        """Yield the text as it comes; joined it is the transcript's. For one reader.

        Raises:
            RequestError: the sound cannot be recognized; a queue is full, or the model is down.
            Cancelled: after `cancel`.
        """

    async def transcript(self) -> Transcript:
        """Wait for the end, and return everything; raises as `pieces` does."""

    def cancel(self) -> None:
        """Abandon the sound: its text is not wanted any more. The model stops at its next token."""


_DEFAULTS: Final = SpeechSettings()


@runtime_checkable
class SpeechRecognizer(Protocol):
    """A model that turns sound into text."""

    def recognize(self, sound: Sound, settings: SpeechSettings = _DEFAULTS) -> Recognition:
        """Begin to recognize a sound. In a task of the event loop; returns at once.

        Raises:
            RequestError: the settings are not the model's; ``param`` is the name of the field.
        """
