"""`SpeechToTextResourceInitializer`: makes the side packet ``STT_NODE_RESOURCES``.

A node's model is a `SpeechToTextServable` of this process, or `PlacedSpeechToText` where nodes have
places of their own, such as replicas on a cluster; `SpeechWork` runs there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import numpy as np

from calculators.kit.model_cache import CacheEntry, ModelCache, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer
from calculators.kit.packing import pack, unpack
from calculators.kit.places import Place, PlacedModel, Question, WorkOrder
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import SpeechSettings, Transcript
from calculators.speech.speech_to_text.node_options import SpeechToTextOptions, read_speech_options
from calculators.speech.speech_to_text.servable import SpeechToTextServable, question_of
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import LoadProgress, NodeMetrics, NodePlan, ResourceSettings

_MAKER: Final = f"{__name__}:make_work"
_DEFAULTS: Final = SpeechSettings()


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A sound to recognize.

    Attributes:
        content: a file; or float32 samples, if there is a ``sample_rate``.
    """

    content: bytes
    sample_rate: int
    settings: SpeechSettings


class _Piece(msgspec.Struct, frozen=True, tag="piece", array_like=True):
    """New text."""

    text: str


class _Whole(msgspec.Struct, frozen=True, tag="whole", array_like=True):
    """The end of an answer, with the whole transcript."""

    transcript: Transcript


_Part: TypeAlias = _Piece | _Whole
_part_decoder: Final = msgspec.msgpack.Decoder(_Part)


class PlacedSpeechToText(PlacedModel):
    """The interface of `SpeechToTextServable` to a model in a place."""

    def __init__(self, options: SpeechToTextOptions, place: Place) -> None:
        directory = options.directory
        super().__init__(WorkOrder(_MAKER, pack(options), directory.name, (str(directory),)), place)
        self.options = options

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Wait until the place has loaded the model.

        Raises:
            ResourceError: it cannot be loaded.
        """
        await self._started(progress)

    @property
    def pids(self) -> list[int]:
        """Empty: the processes are elsewhere."""
        return []

    async def recognize_file(self, content: bytes, settings: SpeechSettings) -> SpokenText:
        """See `SpeechToTextServable.recognize_file`. That the file is no sound is known later."""
        return self._begun(_Asked(content, 0, settings))

    def recognize(self, sound: Sound, settings: SpeechSettings = _DEFAULTS) -> SpokenText:
        """See `SpeechToTextServable.recognize`."""
        return self._begun(_Asked(sound.samples.tobytes(), sound.sample_rate, settings))

    def _begun(self, asked: _Asked) -> SpokenText:
        question_of(0, asked.settings, self.options)  # refuses settings before the work
        spoken = SpokenText()
        spoken.begin(self._recognized(spoken, asked))
        return spoken

    async def _recognized(self, spoken: SpokenText, asked: _Asked) -> Transcript:
        found: list[Transcript] = []

        def take(packed: bytes) -> None:
            part: _Part = _part_decoder.decode(packed)
            if isinstance(part, _Piece):
                spoken.add(part.text)
            else:
                found.append(part.transcript)

        body = await asyncio.to_thread(pack, asked)  # as large as the sound
        await self._place.ask(body, beginning="", tokens=len(body)).answer(take)
        return found[0]


class SpeechWork:
    """A `calculators.kit.places.Work`: a speech model, and a process that reads files for it."""

    def __init__(self, servable: SpeechToTextServable) -> None:
        self._servable = servable

    async def start(self, progress: LoadProgress) -> bytes:
        """See `Work.start`."""
        await self._servable.start(progress)
        return b""

    async def answer(self, question: Question) -> None:
        """See `Work.answer`."""
        asked = await asyncio.to_thread(unpack, question.body, _Asked)
        if asked.sample_rate:
            sound = Sound(np.frombuffer(asked.content, np.float32), asked.sample_rate)
            spoken = self._servable.recognize(sound, asked.settings)
        else:
            spoken = await self._servable.recognize_file(asked.content, asked.settings)
        try:
            async for text in spoken.pieces():
                question.emit(pack(_Piece(text)))
            question.emit(pack(_Whole(await spoken.transcript())))
        finally:
            spoken.cancel()

    async def close(self) -> None:
        """End the processes."""
        await self._servable.close()


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> SpeechWork:
    """Make the work of an order of `PlacedSpeechToText`."""
    options = unpack(arguments, SpeechToTextOptions)
    return SpeechWork(SpeechToTextServable(options, ModelHost(name, metrics)))


#: A speech model, wherever it is.
AnySpeechToText: TypeAlias = SpeechToTextServable | PlacedSpeechToText


RESOURCES_TAG: Final = "STT_NODE_RESOURCES"
CALCULATORS: Final = ("S2tCalculator", "SpeechToTextCalculator", "ConversationCalculator")


class SpeechToTextResourceInitializer(ModelInitializer[SpeechToTextOptions, AnySpeechToText]):
    """Loads the model of every node of the two calculators for speech."""

    tag = RESOURCES_TAG
    family = "speech_to_text"
    calculators = CALCULATORS

    def read(self, node: NodePlan, settings: ResourceSettings) -> SpeechToTextOptions:
        return read_speech_options(node, settings)

    def hold(self, options: SpeechToTextOptions, cache: ModelCache) -> CacheEntry | None:
        files = sorted(
            file
            for ending in ("xml", "bin")
            for file in options.directory.glob(f"openvino_*.{ending}")
            if file.is_file()
        )
        words = options.finds_words
        return hold_compiled(cache, files, options.device, options.properties, words)

    def resource(
        self, options: SpeechToTextOptions, host: ModelHost, settings: ResourceSettings
    ) -> AnySpeechToText:
        if host.place is not None:
            return PlacedSpeechToText(options, host.place)
        return SpeechToTextServable(options, host)

    def paths(self, options: SpeechToTextOptions) -> tuple[Path, ...]:
        return (options.directory,)
