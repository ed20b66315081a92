"""`SpeechToTextServable`: the resource of a node with a speech model."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Final

import numpy as np

from calculators.audio.pcm import BYTES_PER_SAMPLE, to_pcm16
from calculators.audio.resampling import HIGHEST_RATE, LOWEST_RATE, resample
from calculators.audio.sound import Sound
from calculators.audio.sound_reader import SoundReader
from calculators.audio.speech_recognizer import Segment, SpeechSettings, Transcript, Word
from calculators.child_process.fair_turns import FairTurns, TooManyWaiting
from calculators.child_process.supervisor import RETRY_AFTER
from calculators.model_cache.compiled_models import compiling_with
from calculators.model_cache.loading import loading
from calculators.model_initializer import ModelHost
from calculators.requests.http_payload import RequestError
from calculators.speech_to_text.languages import code_of, listed, name_of
from calculators.speech_to_text.messages import Load, Recognize, Recognized
from calculators.speech_to_text.node_options import SpeechToTextOptions
from calculators.speech_to_text.pipeline_process import Lost, PipelineProcess
from calculators.speech_to_text.speech_metrics import SpeechMetrics
from calculators.speech_to_text.spoken_text import SpokenText
from graph_runtime import Cancelled, Code, LoadProgress

#: Samples per second that speech models hear.
SAMPLE_RATE: Final = 16_000
#: Seconds of one sound: the samples of a longer one would not fit a frame between processes.
MOST_SECONDS: Final = 7200.0
#: Sounds that wait, and seconds of sound that are held in all: 440 MiB.
MOST_WAITING: Final = 64
MOST_HELD_SECONDS: Final = 4 * 3600.0
#: Bytes that a process may grow by after loading.
MEMORY: Final = 8 * 1024**3
#: Samples with which Whisper can do nothing.
_TOO_SHORT: Final = 201
#: Estimated processor seconds per second of sound, for the order of clients.
_COST_OF_SECOND: Final = 0.1
#: Seconds after which a client is asked to come back at the latest.
_LATEST_RETRY: Final = 600.0
_DEFAULTS: Final = SpeechSettings()
#: A sound above this is converted in a thread.
_LONG_SAMPLES: Final = 60 * SAMPLE_RATE


class SpeechToTextServable:
    """Speech models in supervised processes, and a process that reads files for them.

    It is a `calculators.audio.speech_recognizer.SpeechRecognizer`.
    """

    def __init__(
        self,
        options: SpeechToTextOptions,
        host: ModelHost,
    ) -> None:
        self._entry = host.entry
        self._options = options
        self._metrics = SpeechMetrics(host.metrics)
        self._reader = SoundReader(host.name)
        load = Load(
            str(options.directory),
            MEMORY,
            options.device,
            compiling_with(options.properties, host.entry),
            options.finds_words,
        )
        count = options.pipelines
        self._processes = [
            PipelineProcess(load, f'speech process{_numbered(number, count)} of "{host.name}"')
            for number in range(count)
        ]
        self._free = list(self._processes)
        self._turns = FairTurns(count, most_waiting=MOST_WAITING)
        self._number = 0
        self._held = 0.0
        #: Seconds of work for a second of sound, as lately measured.
        self._pace = 0.0

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            await self._reader.start()
            # One after the other: the first fills the cache of compiled models for the others.
            for process in self._processes:
                await process.start(progress)
                progress = None
        self._metrics.follow(
            waiting=lambda: len(self._turns),
            restarts=lambda: sum(each.restarts for each in self._processes),
            is_up=lambda: not self.unavailable_reason,
        )

    @property
    def pids(self) -> list[int]:
        """The models' processes that run now."""
        return [each.pid for each in self._processes if each.pid is not None]

    @property
    def options(self) -> SpeechToTextOptions:
        """The node's options, and the facts about its model."""
        return self._options

    @property
    def unavailable_reason(self) -> str:
        """The reason why no sound can be recognized now; "" while one can."""
        reasons = [each.unavailable_reason for each in self._processes]
        return reasons[0] if all(reasons) else ""

    async def close(self) -> None:
        self._metrics.end()
        await asyncio.gather(*(each.close() for each in self._processes), self._reader.close())
        if self._entry is not None:
            self._entry.close()

    async def recognize_file(self, content: bytes, settings: SpeechSettings) -> SpokenText:
        """Read a file, and begin to recognize it.

        Raises:
            RequestError: the file is no sound, or the settings are not the model's.
        """
        self._question(settings)  # refuses settings before the work
        self._check_room(0.0)
        pcm = await self._reader.read(content, sample_rate=SAMPLE_RATE, max_seconds=MOST_SECONDS)
        seconds = len(pcm) / BYTES_PER_SAMPLE / SAMPLE_RATE
        self._check_room(seconds)
        spoken = SpokenText()
        spoken.begin(self._recognized(spoken, pcm, seconds, self._question(settings)))
        return spoken

    def recognize(self, sound: Sound, settings: SpeechSettings = _DEFAULTS) -> SpokenText:
        """Begin to recognize a sound.

        Raises:
            RequestError: the settings are not the model's; the sound is too long, or too many wait.
        """
        question = self._question(settings)
        if not LOWEST_RATE <= sound.sample_rate <= HIGHEST_RATE:
            raise RequestError(
                f"a sound has {LOWEST_RATE} to {HIGHEST_RATE} samples per second, "
                f"not {sound.sample_rate}",
                param="file",
            )
        if sound.seconds > MOST_SECONDS:
            raise RequestError(
                f"the sound is longer than {MOST_SECONDS:.0f} s; split it", param="file"
            )
        self._check_room(sound.seconds)
        spoken = SpokenText()
        spoken.begin(self._of_sound(spoken, sound, question))
        return spoken

    async def _of_sound(self, spoken: SpokenText, sound: Sound, question: Recognize) -> Transcript:
        def converted() -> bytes:
            if not np.isfinite(sound.samples).all():
                raise RequestError(
                    "the sound has samples that are no numbers (NaN or infinite)", param="file"
                )
            return to_pcm16(resample(sound, SAMPLE_RATE).samples)

        is_long = len(sound.samples) > _LONG_SAMPLES
        pcm = await asyncio.to_thread(converted) if is_long else converted()
        return await self._recognized(spoken, memoryview(pcm), sound.seconds, question)

    async def _recognized(
        self, spoken: SpokenText, pcm: memoryview, seconds: float, question: Recognize
    ) -> Transcript:
        if len(pcm) < _TOO_SHORT * BYTES_PER_SAMPLE:
            return Transcript(text="", seconds=seconds)
        loop = asyncio.get_running_loop()
        came = loop.time()
        self._held += seconds
        try:
            async with self._turns.turn(seconds * _COST_OF_SECOND) as turn:
                began = loop.time()
                self._metrics.waited(began - came)
                done = await self._in_process(spoken, pcm, seconds, question)
                cost = loop.time() - began
                turn.cost = cost
        except TooManyWaiting:
            raise self._full() from None
        finally:
            self._held -= seconds
        self._pace += 0.5 * (cost / max(seconds, 1.0) - self._pace)
        self._metrics.recognized(seconds, cost)
        return _transcript(done, seconds)

    async def _in_process(
        self, spoken: SpokenText, pcm: memoryview, seconds: float, question: Recognize
    ) -> Recognized:
        """Recognize a sound in a free process; once more in another if that is lost."""
        for is_last in (False, True):
            if spoken.is_cancelled:
                raise Cancelled
            process = min(self._free, key=lambda each: not each.is_ready)
            self._free.remove(process)
            spoken.cancel_by(partial(process.cancel, question.number))
            try:
                return await process.recognize(question, pcm, seconds, spoken.add)
            except Lost as lost:
                if is_last or spoken.has_pieces:
                    raise RequestError(
                        f"the speech model's process ended before the text did: {lost}",
                        code=Code.UNAVAILABLE,
                        retry_after=RETRY_AFTER,
                    ) from None
            finally:
                self._free.append(process)
        raise AssertionError

    def _question(self, settings: SpeechSettings) -> Recognize:
        self._number += 1
        return question_of(self._number, settings, self._options)

    def _check_room(self, seconds: float) -> None:
        """Refuse a sound if those that are held are too long or too many already."""
        is_full = self._held > 0 and self._held + seconds > MOST_HELD_SECONDS
        if is_full or len(self._turns) >= MOST_WAITING:
            raise self._full()

    def _full(self) -> RequestError:
        wait = self._held * self._pace / len(self._processes)
        return RequestError(
            "too many sounds wait to be recognized; try again later",
            code=Code.UNAVAILABLE,
            retry_after=math.ceil(min(max(wait, RETRY_AFTER), _LATEST_RETRY)),
        )


def question_of(number: int, settings: SpeechSettings, options: SpeechToTextOptions) -> Recognize:
    """Return settings as the model's process wants them.

    Raises:
        RequestError: the model does not have what they ask for.
    """
    if settings.words and not options.finds_words:
        raise RequestError(
            "Word timestamps not supported for this model; the option enable_word_timestamps "
            "of the graph's node makes it find them",
            param="timestamp_granularities",
        )
    if settings.translates and not options.is_multilingual:
        raise RequestError(
            "this model knows English only, and translates nothing; use a multilingual one",
            param="model",
        )
    return Recognize(
        number,
        _language(settings.language, options),
        settings.translates,
        settings.prompt,
        settings.hotwords,
        settings.temperature,
        settings.segments,
        settings.words,
    )


def _numbered(number: int, count: int) -> str:
    return f" {number + 1}" if count > 1 else ""


def _language(language: str, options: SpeechToTextOptions) -> str:
    """The model's word for a language; "" where there is no choice."""
    if not language:
        return ""
    code = code_of(language)
    if options.languages:
        if code not in options.languages:
            raise RequestError(
                f"Invalid language code. The model's are {listed(options.languages)}",
                param="language",
            )
        return code
    if not options.is_multilingual:
        if code != "en":
            raise RequestError(
                "Invalid language code. This model knows English only (en)", param="language"
            )
        return ""
    # Models other than Whisper want names: English.
    return name_of(code).title()


def _transcript(done: Recognized, seconds: float) -> Transcript:
    return Transcript(
        text=done.text,
        seconds=seconds,
        language=code_of(done.language) if done.language else "",
        segments=_segments(done, seconds),
        words=tuple(Word(*each) for each in done.words),
    )


def _segments(done: Recognized, seconds: float) -> tuple[Segment, ...]:
    """The segments, within the sound. One whose end is not known lasts until the next begins."""
    made: list[Segment] = []
    next_start = seconds
    for start, end, text, tokens in reversed(done.segments):
        start = min(start, seconds)
        end = min(end if end >= start else next_start, seconds)
        made.append(Segment(start, end, text, tuple(tokens)))
        next_start = start
    return tuple(reversed(made))
