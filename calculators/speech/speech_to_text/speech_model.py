"""`SpeechModel`: openvino-genai's pipeline, from samples to text, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import openvino_genai as genai

from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.messages import Loading
from calculators.speech.audio.sound import Samples
from calculators.speech.speech_to_text.long_form import LongForm
from calculators.speech.speech_to_text.messages import Load, Recognize, Recognized, Stopped

#: Tokens of a prompt: a half of Whisper's decoder, as OpenAI's own program has it, and room for the
#: tokens that genai adds.
_MOST_PROMPT_TOKENS: Final = 220


class SpeechModel:
    """The pipeline of a directory."""

    def __init__(self, load: Load, report: Report) -> None:
        """Load the model; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's.
        """
        report(Loading("loading the model", 0.3, 1.0))
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
        """The tokens of a segment; the library does not report those of one without an end."""
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
    """The arguments of ``generate``; those that are not given are the model's own."""
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
