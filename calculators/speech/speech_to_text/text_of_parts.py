"""`TextOfParts`: the transcript of a sound, out of those of its parts."""

from __future__ import annotations

from msgspec.structs import replace

from calculators.speech.audio.speech_recognizer import Segment, Transcript, Word
from calculators.speech.speech_to_text.languages import code_of
from calculators.speech.speech_to_text.messages import Recognize, Recognized
from calculators.speech.speech_to_text.node_options import SpeechToTextOptions
from calculators.speech.speech_to_text.sound_parts import Part


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
        """The segments, within the sound. One without an end lasts until the next begins."""
        made: list[Segment] = []
        next_start = seconds
        for start, end, text, tokens in reversed(self._segments):
            start = min(start, seconds)
            end = min(end if end >= start else next_start, seconds)
            made.append(Segment(start, end, text, tuple(tokens)))
            next_start = start
        return tuple(reversed(made))
