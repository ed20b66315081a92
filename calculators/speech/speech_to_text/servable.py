"""`SpeechToTextServable`: the resource of a node with a speech model."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np

from calculators.kit.child_process.fair_turns import FairTurn, FairTurns
from calculators.kit.child_process.supervisor import RETRY_AFTER
from calculators.kit.model_cache import compiling_with
from calculators.kit.model_initializer import ModelHost, loading
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.speech.audio.sound import (
    BYTES_PER_SAMPLE,
    HIGHEST_RATE,
    LOWEST_RATE,
    Sound,
    resample,
    to_pcm16,
)
from calculators.speech.audio.sound_reader import OpenSound, SoundReader
from calculators.speech.audio.speech_recognizer import SpeechSettings, Transcript
from calculators.speech.speech_to_text.languages import code_of, listed, name_of
from calculators.speech.speech_to_text.messages import (
    SAMPLE_RATE,
    Recognize,
    Recognized,
    RecognizerLoad,
)
from calculators.speech.speech_to_text.node_options import SpeechToTextOptions
from calculators.speech.speech_to_text.pipeline_process import Lost, PipelineProcess
from calculators.speech.speech_to_text.sound_parts import Part, SoundParts, TextOfParts
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import Cancelled, Code, LoadProgress, NodeMetrics


class SpeechMetrics:
    """Counts sounds and their durations."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self._node = metrics
        self._ends: list[Callable[[], None]] = []
        self._audio = metrics.counter(
            "graphrt_speech_audio_seconds", "Seconds of sound that were turned into text."
        )
        self._sounds = metrics.counter(
            "graphrt_speech_sounds", "Sounds that were turned into text."
        )
        self._queue = metrics.histogram(
            "graphrt_speech_queue_seconds", "Time that a sound waited for a free model."
        )
        self._work = metrics.histogram(
            "graphrt_speech_recognition_seconds",
            "Time from the beginning of a sound's recognition to its end.",
        )

    def waited(self, seconds: float) -> None:
        """Note how long a sound has waited for its turn."""
        self._queue.observe(seconds)

    def recognized(self, audio_seconds: float, seconds: float) -> None:
        """Note the end of a recognition, with the durations of the sound and of the work."""
        self._audio.add(audio_seconds)
        self._sounds.add()
        self._work.observe(seconds)

    def follow(
        self,
        *,
        waiting: Callable[[], float],
        restarts: Callable[[], float],
        is_up: Callable[[], float],
    ) -> None:
        """Publish what these functions return, until `end`."""
        gauge, counter = self._node.gauge, self._node.counter
        self._ends = [
            gauge("graphrt_speech_sounds_waiting", "Sounds that wait for a free model.").follow(
                waiting
            ),
            gauge("graphrt_speech_up", "Can a sound be recognized now? 1 or 0.").follow(is_up),
            counter(
                "graphrt_speech_process_restarts",
                "How often a process with the model had to be started again.",
            ).follow(restarts),
        ]

    def end(self) -> None:
        """Stop publishing; called once the models are closed."""
        for each in self._ends:
            each()
        self._ends.clear()


#: Seconds of one sound.
MOST_SECONDS: Final = 7200.0
#: Sounds in progress, and bytes of their files. A client that has none in progress may begin one
#: beyond that, up to twice as much.
MOST_SOUNDS: Final = 64
MOST_BYTES: Final = 512 * 1024**2
#: Seconds of sound of one client in progress.
MOST_CLIENT_SECONDS: Final = 4 * 3600.0
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

    It is a `calculators.speech.audio.speech_recognizer.SpeechRecognizer`.
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
        load = RecognizerLoad(
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
        self._turns = FairTurns(count)
        self._progress = _Progress()
        self._number = 0
        #: Sounds that a process is at.
        self._working = 0
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
            waiting=lambda: self._progress.sounds - self._working,
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
            RequestError: the file is not sound, or the settings are not the model's.
        """
        question = self._question(settings)  # refuses settings before the work
        client = _current_client()
        self._check_room(client, 0.0, len(content))
        file = await self._reader.open(content, sample_rate=SAMPLE_RATE, max_seconds=MOST_SECONDS)
        try:
            self._check_room(client, file.seconds, file.size)
            parts = SoundParts(file.read, file.seconds, is_whisper=self._options.is_whisper)
            first = await parts.next()
        except BaseException:
            await file.close()
            raise
        spoken = SpokenText()
        spoken.begin(self._of_file(spoken, file, parts, first, question, client))
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
        client = _current_client()
        size = sound.samples.nbytes
        self._check_room(client, sound.seconds, size)
        spoken = SpokenText()
        spoken.begin(self._of_sound(spoken, sound, question, client))
        return spoken

    async def _of_file(
        self,
        spoken: SpokenText,
        file: OpenSound,
        parts: SoundParts,
        first: Part,
        question: Recognize,
        client: ClientIdentity,
    ) -> Transcript:
        try:
            with self._progress.of(client, file.seconds, file.size):
                return await self._recognized(spoken, parts, first, question)
        finally:
            await file.close()

    async def _of_sound(
        self, spoken: SpokenText, sound: Sound, question: Recognize, client: ClientIdentity
    ) -> Transcript:
        def converted() -> bytes:
            if not np.isfinite(sound.samples).all():
                raise RequestError(
                    "the sound has samples that are not numbers (NaN or infinite)", param="file"
                )
            return to_pcm16(resample(sound, SAMPLE_RATE).samples)

        with self._progress.of(client, sound.seconds, sound.samples.nbytes):
            is_long = len(sound.samples) > _LONG_SAMPLES
            content = [await asyncio.to_thread(converted) if is_long else converted()]

            async def read() -> memoryview:
                return memoryview(content.pop() if content else b"")

            parts = SoundParts(read, sound.seconds, is_whisper=self._options.is_whisper)
            return await self._recognized(spoken, parts, await parts.next(), question)

    async def _recognized(
        self, spoken: SpokenText, parts: SoundParts, part: Part, question: Recognize
    ) -> Transcript:
        """Recognize one part after the other; between two the turn is given up."""
        loop = asyncio.get_running_loop()
        came = loop.time()
        cost = 0.0
        text = TextOfParts(self._options)
        while len(part.pcm) >= _TOO_SHORT * BYTES_PER_SAMPLE:
            async with self._turns.turn(parts.seconds_left * _COST_OF_SECOND) as turn:
                began = loop.time()
                if not parts.heard:
                    self._metrics.waited(began - came)
                self._number += 1
                asked = text.continued(question, self._number, part)
                done = await self._in_process(spoken, part, asked, turn)
                turn.cost = loop.time() - began
                cost += turn.cost
            text.add(done, parts.heard / SAMPLE_RATE)
            parts.drop(done.samples)
            if part.is_last and done.samples * BYTES_PER_SAMPLE >= len(part.pcm):
                break
            if spoken.is_cancelled:
                raise Cancelled
            part = await parts.next()
        seconds = parts.seconds
        self._pace += 0.5 * (cost / max(seconds, 1.0) - self._pace)
        self._metrics.recognized(seconds, cost)
        return text.transcript(seconds)

    async def _in_process(
        self, spoken: SpokenText, part: Part, question: Recognize, turn: FairTurn
    ) -> Recognized:
        """Recognize a part in a free process; once more in another if that is lost."""
        has_pieces = False

        def add(piece: str) -> None:
            nonlocal has_pieces
            has_pieces = True
            spoken.add(piece)

        for is_last in (False, True):
            if spoken.is_cancelled:
                raise Cancelled
            process = min(self._free, key=lambda each: not each.is_ready)
            self._free.remove(process)
            self._working += 1
            spoken.cancel_by(partial(process.cancel, question.number))
            if question.windows:
                turn.on_wanted = partial(process.let_others, question.number)
            try:
                pcm = memoryview(part.pcm)
                return await process.recognize(
                    question, pcm, part.seconds, add, yields=len(self._turns) > 0
                )
            except Lost as lost:
                # What the client has got cannot be taken back, and another run need not say the
                # same.
                if is_last or has_pieces:
                    raise RequestError(
                        f"the speech model's process ended before the text did: {lost}",
                        code=Code.UNAVAILABLE,
                        retry_after=RETRY_AFTER,
                    ) from None
            finally:
                turn.on_wanted = None
                spoken.cancel_by(None)
                self._working -= 1
                self._free.append(process)
        raise AssertionError

    def _question(self, settings: SpeechSettings) -> Recognize:
        return question_of(0, settings, self._options)

    def _check_room(self, client: ClientIdentity, seconds: float, size: int) -> None:
        """Refuse a sound if those in progress are too long or too many already."""
        if not self._progress.has_room(client.name, seconds, size):
            wait = self._progress.seconds * self._pace / len(self._processes)
            raise RequestError(
                "too many sounds wait to be recognized; try again later",
                code=Code.UNAVAILABLE,
                retry_after=math.ceil(min(max(wait, RETRY_AFTER), _LATEST_RETRY)),
            )


class _Progress:
    """The sounds in progress, by client."""

    def __init__(self) -> None:
        self._sounds: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._bytes = 0

    @property
    def sounds(self) -> int:
        return self._sounds.total()

    @property
    def seconds(self) -> float:
        return self._seconds.total()

    def has_room(self, client: str, seconds: float, size: int) -> bool:
        most = 1 if self._sounds[client] else 2
        if self._sounds[client] and self._seconds[client] + seconds > MOST_CLIENT_SECONDS:
            return False
        return self.sounds < most * MOST_SOUNDS and self._bytes + size <= most * MOST_BYTES

    @contextmanager
    def of(self, client: ClientIdentity, seconds: float, size: int) -> Iterator[None]:
        """Count a sound during the ``with``."""
        self._sounds[client.name] += 1
        self._seconds[client.name] += math.ceil(seconds)
        self._bytes += size
        try:
            yield
        finally:
            self._sounds[client.name] -= 1
            self._seconds[client.name] -= math.ceil(seconds)
            self._bytes -= size
            if not self._sounds[client.name]:
                del self._sounds[client.name], self._seconds[client.name]


def _current_client() -> ClientIdentity:
    record = current_record()
    return UNKNOWN_CLIENT if record is None else record.client


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
    """Return the model's word for a language; "" where there is no choice."""
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
