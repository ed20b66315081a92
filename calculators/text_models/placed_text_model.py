"""`PlacedTextModel`: an encoder model in a place of its own; `TextModelWork` runs there."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from calculators.model_cache import CacheEntry
from calculators.places import Place, Question, WorkOrder
from calculators.text_models.messages import Answer, Ready
from calculators.text_models.model_options import TextModelOptions
from calculators.text_models.text_model import Outputs, TextModel, outputs_of, packed_question
from graph_runtime import NO_METRICS, LoadProgress, NodeMetrics

_MAKER: Final = f"{__name__}:make_work"
_CHARACTERS_PER_TOKEN: Final = 4


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A question; see `TextModel.ask`."""

    characters: int
    param: str | None
    question: msgspec.Raw


_encode = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_Asked)
_answer_decoder: Final = msgspec.msgpack.Decoder(Answer)
_ready_decoder: Final = msgspec.msgpack.Decoder(Ready)


class PlacedTextModel:
    """The asker's side: the interface of `TextModel`. Belongs to one event loop."""

    def __init__(
        self,
        module: str,
        options: TextModelOptions,
        place: Place,
        *,
        head: dict[str, Any],
        subject: str,
    ) -> None:
        """The arguments are those of `TextModel`."""
        arguments = (module, options, head, subject)
        directory = options.directory
        self._order = WorkOrder(_MAKER, arguments, directory.name, (directory,))
        self._place = place
        self._subject = subject
        #: The most tokens of one sequence.
        self.max_tokens = options.max_tokens

    async def start(self, progress: LoadProgress | None = None) -> Ready:
        """Wait until the process has loaded the model.

        Raises:
            ResourceError: it cannot be loaded.
        """
        return _ready_decoder.decode(
            await self._place.start(self._order, progress or LoadProgress())
        )

    @property
    def pid(self) -> int | None:
        """None: the process is elsewhere."""
        return None

    @property
    def unavailable_reason(self) -> str:
        """Always "": a question waits for a process, or fails."""
        return ""

    async def close(self) -> None:
        """End the use of the place."""
        await self._place.close()

    async def ask(
        self, question: msgspec.Struct, *, characters: int, param: str | None = None
    ) -> Outputs:
        """See `TextModel.ask`."""
        packed = await packed_question(question, characters, param or self._subject, param)
        body = _encode(_Asked(characters, param, msgspec.Raw(packed)))
        parts: list[bytes] = []
        # Equal texts are not answered sooner by a process that has seen them.
        asked = self._place.ask(body, beginning="", tokens=characters / _CHARACTERS_PER_TOKEN)
        await asked.answer(parts.append)
        return outputs_of(_answer_decoder.decode(parts[0]))


class TextModelWork:
    """A `calculators.places.Work`: an encoder model in a child process of this one."""

    def __init__(self, model: TextModel) -> None:
        self._model = model

    async def start(self, progress: LoadProgress) -> bytes:
        """See `Work.start`."""
        return _encode(await self._model.start(progress))

    async def answer(self, question: Question) -> None:
        """See `Work.answer`."""
        asked = _asked_decoder.decode(question.body)
        outputs = await self._model.ask(
            asked.question, characters=asked.characters, param=asked.param
        )
        answer = Answer(0, outputs.values.tobytes(), outputs.tokens, outputs.note)
        question.emit(_encode(answer))

    async def close(self) -> None:
        """End the process."""
        await self._model.close()


def make_work(
    module: str,
    options: TextModelOptions,
    head: dict[str, Any],
    subject: str,
    *,
    name: str,
    metrics: NodeMetrics,
) -> TextModelWork:
    """Make the work of an order of `PlacedTextModel`."""
    what = f'process of "{name}"'
    return TextModelWork(
        TextModel(module, options, head=head, name=what, subject=subject, metrics=metrics)
    )


#: A text model, wherever it is.
AnyTextModel: TypeAlias = TextModel | PlacedTextModel


def text_model(
    module: str,
    options: TextModelOptions,
    *,
    head: dict[str, Any],
    name: str,
    subject: str,
    metrics: NodeMetrics = NO_METRICS,
    entry: CacheEntry | None = None,
    place: Place | None = None,
) -> AnyTextModel:
    """Return a model in a child process of this one, or in ``place``.

    The arguments are those of `TextModel`. In a place the compiled model is not kept.
    """
    if place is None:
        return TextModel(
            module, options, head=head, name=name, subject=subject, metrics=metrics, entry=entry
        )
    if entry is not None:
        entry.close()
    return PlacedTextModel(module, options, place, head=head, subject=subject)
