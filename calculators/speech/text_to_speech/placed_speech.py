"""`PlacedSpeech`: a model that speaks in a place of its own; `SpeechWork` runs there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from calculators.kit.child_process.question_lane import QuestionLane
from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.places import Place, PlacedModel, Question, WorkOrder, asked_once
from calculators.speech.text_to_speech.messages import Load, Ready, from_model_decoder
from graph_runtime import LoadProgress, NodeMetrics, ResourceError

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


def speech_lane(load: Load, name: str, place: Place | None = None) -> SpeechLane:
    """Return a model in a child process of this one, or in ``place``.

    ``name``: the served model's, for messages.
    """
    return _lane(load, name) if place is None else PlacedSpeech(load, place)


def _lane(load: Load, name: str) -> QuestionLane[Ready]:
    return QuestionLane(
        "calculators.speech.text_to_speech.process",
        load,
        decode=from_model_decoder.decode,
        ready=Ready,
        name=f'speech process of "{name}"',
        subject="sentence",
        cpu_seconds=CPU_SECONDS,
        wall_seconds=_WALL_SECONDS,
        most_waiting=_MOST_WAITING,
        stall_seconds=_WALL_SECONDS,  # a long sentence may take that long
        is_shared=True,
    )


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A question, with its expected cost; see `QuestionLane.ask`."""

    expected: float
    body: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_Asked)
_load_decoder: Final = msgspec.msgpack.Decoder(Load)


class PlacedSpeech(PlacedModel):
    """A `SpeechLane` to a model in a place."""

    def __init__(self, load: Load, place: Place) -> None:
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
        answer = await asked_once(self._place, _encode(_Asked(expected, body)), tokens=len(body))
        return from_model_decoder.decode(answer)


class SpeechWork:
    """A `calculators.kit.places.Work`: a model that speaks in a child process of this one."""

    def __init__(self, lane: QuestionLane[Ready]) -> None:
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


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> SpeechWork:
    """Make the work of an order of `PlacedSpeech`. Its metrics are the asker's."""
    return SpeechWork(_lane(_load_decoder.decode(arguments), name))
