"""`SpeechModel`: openvino-genai's pipeline, from samples to text, in a process of its own.

`LongForm`: a part of a long sound, heard by openvino-genai window by window.

Whisper hears 30 s at a time. It writes the times of what it hears, too, and the library (2026.4,
``whisper.cpp``) begins the next window where the last complete segment ended, or after the window
if nothing was said after that segment. It tells which of both it did only by the times of the next
window's segments. So a part ends with a window that is heard for its beginning alone, unless both
places are the same; the next part begins there, and hears it again. The windows of a sound in parts
are the same as of a sound as a whole.

A part differs in one thing: the library's features have a floor 80 dB below the loudest moment of
the samples that it gets, and these are the part's. In training they were a window's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import openvino_genai as genai

from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.messages import LoadingPhase
from calculators.speech.audio.sound import Samples
from calculators.speech.speech_to_text.messages import (
    WINDOW,
    Recognize,
    Recognized,
    RecognizerLoad,
    Stopped,
)

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
        texts: the texts of the windows so far.
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
        as for `SpeechModel.recognize_part`.
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
            window_end = begin + _WINDOW_SECONDS
            end = chunks[last - 1][1] if last > first else window_end
            if not 0 <= end < window_end - _FRAME_SECONDS:
                end = window_end
            is_last = window == count - 1
            if is_last and (end < window_end or self._question.words):
                # The library has no words of a window at which it was stopped.
                return Heard(window, first, _samples(begin), "")
            if is_last:
                return Heard(count, last, _samples(window_end), text)
            is_in_next = last == len(chunks) or chunks[last][0] > window_end - _FRAME_SECONDS
            begin, first = window_end if is_in_next else end, last
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


#: Tokens of a prompt: a half of Whisper's decoder, as OpenAI's own program has it, and room for the
#: tokens that genai adds.
_MOST_PROMPT_TOKENS: Final = 220


class SpeechModel:
    """The pipeline of a directory."""

    def __init__(self, load: RecognizerLoad, report: Report) -> None:
        """Load the model; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's.
        """
        report(LoadingPhase("loading the model", 0.3, 1.0))
        properties = dict(load.properties)
        if load.finds_words:
            properties["word_timestamps"] = True
        if load.device.startswith("NPU"):
            properties["STATIC_PIPELINE"] = True
        self._pipeline = genai.ASRPipeline(load.model_path, load.device, **properties)

    def recognize(
        self, samples: Samples, question: Recognize, on_text: Callable[[str], bool]
    ) -> Recognized | Stopped:
        """Return the text of a sound.

        Args:
            samples: at 16 kHz, 201 at least.
            on_text: called with new text; it returns False to cancel.

        Raises:
            RuntimeError: the library's.
        """
        is_cancelled = False
        failure: BaseException | None = None

        def streamer(text: str) -> genai.StreamingStatus:
            # An exception here would be printed for each token, and generation would go on.
            nonlocal is_cancelled, failure
            try:
                is_cancelled = is_cancelled or not on_text(text)
            except BaseException as error:
                failure = error
                is_cancelled = True
            status = genai.StreamingStatus
            return status.CANCEL if is_cancelled else status.RUNNING

        arguments = _arguments(question) | self._texts(question)
        result = self._pipeline.generate(samples, streamer=streamer, **arguments)
        if failure is not None:
            raise failure
        if is_cancelled:
            return Stopped()
        return Recognized(
            str(result.texts[0]),
            _first_language(result),
            [
                (float(each.start_ts), float(each.end_ts), str(each.text), self._tokens(each))
                for each in (_of_first(result.chunks) if question.segments else ())
            ],
            [
                (float(each.start_ts), float(each.end_ts), str(each.text))
                for each in (_of_first(result.words) if question.words else ())
            ],
            len(samples),
        )

    def recognize_part(
        self,
        samples: Samples,
        question: Recognize,
        on_text: Callable[[str], bool],
        yields: Callable[[], bool],
    ) -> Recognized | Stopped:
        """Return the text of the next windows of a long sound; see `LongForm`.

        Args:
            samples: at 16 kHz: ``question.windows`` windows, or the rest of the sound.
            on_text: called with new text, and after each window; it returns False to cancel.
            yields: returns whether others wait.

        Raises:
            RuntimeError: the library's.
        """
        form = LongForm(self._decoded, question, len(samples), on_text, yields)
        arguments = _arguments(question) | self._texts(question) | {"return_timestamps": True}
        result = self._pipeline.generate(samples, streamer=form, **arguments)
        if form.failure is not None:
            raise form.failure
        if form.is_cancelled:
            return Stopped()
        chunks = [
            (float(each.start_ts), float(each.end_ts), str(each.text))
            for each in _of_first(result.chunks)
        ]
        heard = form.heard(chunks)
        if heard.rest and not on_text(heard.rest):
            return Stopped()
        segments = chunks[: heard.chunks] if question.segments else ()
        words = _of_first(result.words) if question.words else ()
        return Recognized(
            "".join(form.texts[: heard.windows]),
            _first_language(result),
            [(start, end, text, self._encoded(text)) for start, end, text in segments],
            [(float(each.start_ts), float(each.end_ts), str(each.text)) for each in words],
            heard.samples,
        )

    def _decoded(self, tokens: list[int]) -> str:
        return str(self._pipeline.get_tokenizer().decode(tokens))

    def _texts(self, question: Recognize) -> dict[str, str]:
        """Prompt and hotwords, cut to what Whisper takes: the library refuses longer ones."""
        most = _MOST_PROMPT_TOKENS
        texts = {}
        if question.hotwords:
            room = most // 2 if question.prompt else most
            texts["hotwords"], count = self._cut(question.hotwords, slice(room))
            most -= count
        if question.prompt:
            # The last words count most.
            texts["initial_prompt"], _ = self._cut(question.prompt, slice(-most, None))
        return texts

    def _tokens(self, segment: Any) -> list[int]:
        """The tokens of a segment; the library does not report them for one without an end."""
        return _ids(segment.token_ids) or self._encoded(str(segment.text))

    def _encoded(self, text: str) -> list[int]:
        tokenizer = self._pipeline.get_tokenizer()
        return _ids(tokenizer.encode(text, add_special_tokens=False).input_ids.data)

    def _cut(self, text: str, part: slice) -> tuple[str, int]:
        """Return a part of a text's tokens as text, and their number."""
        ids = self._encoded(text)
        kept = ids[part]
        if len(kept) < len(ids):
            text = str(self._pipeline.get_tokenizer().decode(kept))
        return text, len(kept)


def _arguments(question: Recognize) -> dict[str, Any]:
    """Return the arguments of ``generate``; those that are not given are the model's own."""
    arguments: dict[str, Any] = {"return_timestamps": question.segments}
    if question.words:
        arguments["word_timestamps"] = True
    if question.language:
        arguments["language"] = question.language
    if question.translates:
        arguments["task"] = "translate"
    if question.temperature > 0:
        arguments.update(temperature=question.temperature, do_sample=True)
    return arguments


def _of_first(several: Any) -> Iterable[Any]:
    """The parts of the first sequence: some pipelines return a list for each, some one list."""
    if not several:
        return ()
    parts: Iterable[Any] = several[0] if isinstance(several[0], list) else several
    return parts


def _first_language(result: Any) -> str:
    languages = getattr(result, "languages", None)
    return str(languages[0]).strip("<|>") if languages else ""


def _ids(tokens: Any) -> list[int]:
    return [int(each) for each in np.asarray(tokens).reshape(-1)]
