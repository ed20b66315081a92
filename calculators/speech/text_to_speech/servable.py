"""`T2sServable`: the resource of a node that speaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from calculators.kit.child_process.question_lane import QuestionLane
from calculators.kit.child_process.supervisor import RETRY_AFTER, LoadError
from calculators.kit.model_cache import CacheEntry, ModelCache, compiling_with, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer, loading
from calculators.kit.places import Place, PlacedModel, Question, WorkOrder, ask_once
from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.sound import Sound, can_change_tempo, change_tempo
from calculators.speech.text_to_speech.messages import (
    Speak,
    Spoken,
    VoiceLoad,
    VoiceReady,
    VoiceRefused,
    from_model_decoder,
)
from calculators.speech.text_to_speech.node_options import ModelKind, T2sOptions, read_t2s_options
from calculators.speech.text_to_speech.sentences import has_words, split_to_limit, spoken_text
from graph_runtime import Code, LoadProgress, NodeMetrics, NodePlan, ResourceError, ResourceSettings

#: Processor seconds that one text may take, and seconds after which its process is replaced.
CPU_SECONDS: Final = 120.0
_WALL_SECONDS: Final = 120.0
#: Sentences in the queue: one for each request, and for each run of a graph.
_MOST_WAITING: Final = 4096
_MAKER: Final = f"{__name__}:make_work"


class SpeechLane(Protocol):
    """Answers questions to a model that speaks; see `QuestionLane`."""

    async def start(self, progress: LoadProgress | None = None) -> object: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def unavailable_reason(self) -> str: ...

    async def close(self) -> None: ...

    async def ask(self, body: bytes, expected: float) -> Any: ...


def speech_lane(load: VoiceLoad, name: str, place: Place | None = None) -> SpeechLane:
    """Return a model in a child process of this one, or in ``place``.

    ``name``: the served model's, for messages.
    """
    return _lane(load, name) if place is None else PlacedSpeech(load, place)


def _lane(load: VoiceLoad, name: str) -> QuestionLane[VoiceReady]:
    return QuestionLane(
        "calculators.speech.text_to_speech.process",
        load,
        decode=from_model_decoder.decode,
        ready=VoiceReady,
        name=f'speech process of "{name}"',
        subject="sentence",
        cpu_seconds=CPU_SECONDS,
        wall_seconds=_WALL_SECONDS,
        most_waiting=_MOST_WAITING,
        stall_seconds=_WALL_SECONDS,  # a long sentence may take that long
        is_shared=True,
    )


class _AskedVoice(msgspec.Struct, frozen=True, array_like=True):
    """A question, with its expected cost; see `QuestionLane.ask`."""

    expected: float
    body: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_AskedVoice)
_load_decoder: Final = msgspec.msgpack.Decoder(VoiceLoad)


class PlacedSpeech(PlacedModel):
    """A `SpeechLane` to a model in a place."""

    def __init__(self, load: VoiceLoad, place: Place) -> None:
        paths = (load.model_path, *load.voices.values())
        name = Path(load.model_path).name
        super().__init__(WorkOrder(_MAKER, _encode(load), name, paths), place)

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Wait until the place has loaded the model.

        Raises:
            ResourceError: it cannot be loaded.
        """
        await self._started(progress)

    async def ask(self, body: bytes, expected: float) -> Any:
        """See `QuestionLane.ask`."""
        answer = await ask_once(self._place, _encode(_AskedVoice(expected, body)), tokens=len(body))
        return from_model_decoder.decode(answer)


class VoiceWork:
    """A `calculators.kit.places.Work`: a model that speaks in a child process of this one."""

    def __init__(self, lane: QuestionLane[VoiceReady]) -> None:
        self._lane = lane

    async def start(self, progress: LoadProgress) -> bytes:
        """See `Work.start`."""
        try:
            return _encode(await self._lane.start(progress))
        except LoadError as error:
            raise ResourceError(f"the model cannot be loaded: {error}") from None

    async def answer(self, question: Question) -> None:
        """See `Work.answer`."""
        asked = _asked_decoder.decode(question.body)
        question.emit(_encode(await self._lane.ask(asked.body, asked.expected)))

    async def close(self) -> None:
        """End the process."""
        await self._lane.close()


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> VoiceWork:
    """Make the work of an order of `PlacedSpeech`. Its metrics are the asker's."""
    return VoiceWork(_lane(_load_decoder.decode(arguments), name))


#: Requests of one model that are being spoken or wait; more are refused with 503.
MOST_REQUESTS: Final = 64
#: The voice of models that need none, for clients that must name one.
DEFAULT_VOICE: Final = "default"
#: Bytes of addresses by which the process may grow after loading. OpenVINO keeps kernels for each
#: step of SpeechT5's decoder: after the longest sentences they take 10 GiB, half of it in memory.
_MEMORY: Final = 24 * 1024**3
#: Estimated processor seconds per character, for the order of clients.
_COST_OF_CHARACTER: Final = 0.01
#: The names of Kokoro's languages.
_KOKORO_LANGUAGES: Final = (
    *("en-us", "en-gb", "es", "fr-fr", "hi", "it", "pt-br"),
    *("a", "b", "e", "f", "h", "i", "p"),
)


@dataclass(frozen=True, slots=True)
class SpeechStyle:
    """The way in which a text is spoken, checked by `T2sServable.style`.

    Attributes:
        voice: a voice of the node, or "" for the model's own.
        language: a code that the model knows, or "" for its own.
        speed: 1.0 is natural.
    """

    voice: str = ""
    language: str = ""
    speed: float = 1.0


class T2sServable:
    """A model that speaks, in a supervised process.

    Texts are spoken sentence by sentence, and clients take turns between sentences.
    """

    def __init__(
        self,
        options: T2sOptions,
        host: ModelHost,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        """``most_requests``: the limit of requests in progress."""
        metrics = host.metrics
        self._entry = host.entry
        self._options = options
        self._most_requests = most_requests
        self._requests = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._seconds = metrics.counter(
            "graphrt_tts_sound_seconds", "Duration of the sound that was made from texts."
        )
        self._first_sound = metrics.histogram(
            "graphrt_tts_first_sound_seconds",
            "From a request's arrival at the node until its first sentence was sound.",
        )
        gauge = metrics.gauge(
            "graphrt_tts_requests", "Requests for speech in progress, waiting ones included."
        )
        self._forget_gauge = gauge.follow(lambda: self._requests)
        load = VoiceLoad(
            str(options.directory),
            _MEMORY,
            options.device,
            compiling_with(options.properties, host.entry),
            {voice: str(file) for voice, file in options.voices.items()},
            keeps_state=options.kind is ModelKind.SPEECHT5,
            piper=options.piper,
        )
        self._lane = speech_lane(load, host.name, host.place)

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            await self._lane.start(progress)

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self._lane.pid

    @property
    def unavailable_reason(self) -> str:
        return self._lane.unavailable_reason

    async def close(self) -> None:
        self._forget_gauge()
        await self._lane.close()
        if self._entry is not None:
            self._entry.close()

    @property
    def voices(self) -> tuple[str, ...]:
        """The names of the voices, sorted; the model's own comes first."""
        named = sorted({*self._options.voices, *self._speakers})
        if self._options.kind.has_own_voice and DEFAULT_VOICE not in named:
            named.insert(0, DEFAULT_VOICE)
        return tuple(named)

    @property
    def _speakers(self) -> Mapping[str, int]:
        return {} if self._options.piper is None else self._options.piper.speakers

    def style(self, voice: str = "", language: str = "", speed: float = 1.0) -> SpeechStyle:
        """Check how a text is to be spoken; "" leaves a choice to the model.

        Raises:
            RequestError: with the member of a request that is wrong.
        """
        low, high = self._options.speed_min, self._options.speed_max
        if not low <= speed <= high:
            raise RequestError(
                f"speed must be between speed_min ({low:g}) and speed_max ({high:g})", param="speed"
            )
        if self._options.kind is ModelKind.KOKORO:
            language = language.lower()
            if language and language not in _KOKORO_LANGUAGES:
                raise RequestError(
                    f"this model's languages are {', '.join(_KOKORO_LANGUAGES[:7])}",
                    param="language",
                )
        else:
            language = ""  # such a model has one language, and OpenVINO Model Server takes any name
            if self._is_stretched(speed) and not can_change_tempo():
                raise RequestError(
                    "this model speaks at speed 1 only; for others this server needs a package: "
                    "pip install 'graphrt[av]'",
                    param="speed",
                )
        return SpeechStyle(self._voice(voice), language, speed)

    def _voice(self, voice: str) -> str:
        if voice in self._options.voices or voice in self._speakers:
            return voice
        if self._options.kind.has_own_voice and voice in ("", DEFAULT_VOICE):
            return ""
        if not voice:
            raise RequestError(
                f"this model needs a voice: name one of {', '.join(self.voices) or 'none'}",
                param="voice",
            )
        raise RequestError(
            f"Requested voice '{voice[:64]}' not found in available voices", param="voice"
        )

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places for requests.

        Raises:
            RequestError: UNAVAILABLE, as all are taken.
        """
        if self._requests >= self._most_requests:
            raise RequestError(
                "too many requests for speech are in progress; try again later",
                code=Code.UNAVAILABLE,
                retry_after=RETRY_AFTER,
            )
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    async def speak(
        self, sentences: Iterable[str], style: SpeechStyle
    ) -> AsyncGenerator[Sound, None]:
        """Yield the sound of each sentence in order, or of its parts if it is long.

        The next one is being made while the caller uses a sound. Close the iterator to stop.

        Raises:
            RequestError: the model cannot speak a text; its process is down (UNAVAILABLE).
        """
        began: float | None = perf_counter()
        pieces = self._pieces(sentences)
        piece = next(pieces, None)
        making: asyncio.Task[Sound] | None = None
        try:
            while piece is not None or making is not None:
                if making is None:
                    assert piece is not None
                    making = asyncio.create_task(self._sound(piece, style))
                sound = await making
                if began is not None:
                    self._first_sound.observe(perf_counter() - began)
                    began = None
                self._seconds.add(sound.seconds)
                making = None
                piece = next(pieces, None)
                if piece is not None:
                    making = asyncio.create_task(self._sound(piece, style))
                yield sound
        finally:
            if making is not None:
                making.cancel()
                making.add_done_callback(_forget)

    def _pieces(self, sentences: Iterable[str]) -> Iterator[str]:
        for sentence in sentences:
            for piece in split_to_limit(spoken_text(sentence), self._options.text_limit):
                if has_words(piece):
                    yield piece

    async def _sound(self, text: str, style: SpeechStyle) -> Sound:
        is_stretched = self._is_stretched(style.speed)
        speed = 1.0 if is_stretched else style.speed
        body = self._encode(Speak(text, style.voice, style.language, speed))
        answer: Spoken | VoiceRefused = await self._lane.ask(body, len(text) * _COST_OF_CHARACTER)
        if isinstance(answer, VoiceRefused):
            raise RequestError(answer.reason, param="input")
        samples = np.frombuffer(answer.samples, np.float32)
        if is_stretched:
            samples = await asyncio.to_thread(
                change_tempo, samples, answer.sample_rate, style.speed
            )
        return Sound(samples, answer.sample_rate)

    def _is_stretched(self, speed: float) -> bool:
        """Return whether the model cannot speak so fast itself."""
        return self._options.kind is ModelKind.SPEECHT5 and speed != 1.0


def _forget(making: asyncio.Task[Sound]) -> None:
    """Drop the result of a task that has no waiter any more."""
    if not making.cancelled():
        making.exception()


RESOURCES_TAG: Final = "TTS_NODE_RESOURCES"


class T2sResourceInitializer(ModelInitializer[T2sOptions, T2sServable]):
    """Loads the model of every node that speaks."""

    tag = RESOURCES_TAG
    family = "text_to_speech"
    calculators = ("T2sCalculator", "TextToSpeechCalculator", "ConversationCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> T2sOptions:
        return read_t2s_options(node, settings)

    def warnings(self, options: T2sOptions) -> Sequence[str]:
        return options.warnings

    def hold(self, options: T2sOptions, cache: ModelCache) -> CacheEntry | None:
        patterns: tuple[str, ...] = ("openvino_*.xml", "openvino_*.bin")
        if options.piper is not None:
            patterns = (Path(options.piper.model).name,)
        files = sorted(file for pattern in patterns for file in options.directory.glob(pattern))
        return hold_compiled(cache, files, options.device, options.properties)

    def resource(
        self, options: T2sOptions, host: ModelHost, settings: ResourceSettings
    ) -> T2sServable:
        return T2sServable(options, host)

    def paths(self, options: T2sOptions) -> tuple[Path, ...]:
        return (options.directory, *options.voices.values())
