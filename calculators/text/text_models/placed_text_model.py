"""`PlacedTextModel`: an encoder model in a place of its own; `TextModelWork` runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from calculators.kit.model_initializer import ModelHost
from calculators.kit.packing import pack, unpack
from calculators.kit.places import Place, PlacedModel, Question, WorkOrder, asked_once
from calculators.text.text_models.messages import Answer, Ready
from calculators.text.text_models.model_options import TextModelOptions
from calculators.text.text_models.text_model import Outputs, TextModel, outputs_of, packed_question
from graph_runtime import LoadProgress, NodeMetrics

_MAKER: Final = f"{__name__}:make_work"
_CHARACTERS_PER_TOKEN: Final = 4


class _Arguments(msgspec.Struct, frozen=True, array_like=True):
    """The arguments of `TextModel`."""

    module: str
    options: TextModelOptions
    head: Mapping[str, Any]


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A question; see `TextModel.ask`."""

    characters: int
    param: str | None
    question: msgspec.Raw


_encode = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_Asked)
_answer_decoder: Final = msgspec.msgpack.Decoder(Answer)
_ready_decoder: Final = msgspec.msgpack.Decoder(Ready)


class PlacedTextModel(PlacedModel):
    """The interface of `TextModel` to a model in a place."""

    def __init__(
        self,
        module: str,
        options: TextModelOptions,
        place: Place,
        *,
        head: Mapping[str, Any],
    ) -> None:
        """The arguments are those of `TextModel`."""
        directory = options.directory
        arguments = pack(_Arguments(module, options, head))
        super().__init__(WorkOrder(_MAKER, arguments, directory.name, (str(directory),)), place)
        #: The most tokens of one sequence.
        self.max_tokens = options.max_tokens

    async def start(self, progress: LoadProgress | None = None) -> Ready:
        """Wait until the process has loaded the model.

        Raises:
            ResourceError: it cannot be loaded.
        """
        return _ready_decoder.decode(await self._started(progress))

    async def ask(
        self, question: msgspec.Struct, *, characters: int, param: str | None = None
    ) -> Outputs:
        """See `TextModel.ask`."""
        packed = await packed_question(question, characters, param)
        body = _encode(_Asked(characters, param, msgspec.Raw(packed)))
        answer = await asked_once(self._place, body, tokens=characters / _CHARACTERS_PER_TOKEN)
        return outputs_of(_answer_decoder.decode(answer))


class TextModelWork:
    """A `calculators.kit.places.Work`: an encoder model in a child process of this one."""

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


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> TextModelWork:
    """Make the work of an order of `PlacedTextModel`."""
    found = unpack(arguments, _Arguments)
    process = f'process of "{name}"'
    return TextModelWork(
        TextModel(found.module, found.options, head=found.head, name=process, metrics=metrics)
    )


#: A text model, wherever it is.
AnyTextModel: TypeAlias = TextModel | PlacedTextModel


def text_model(
    module: str, options: TextModelOptions, *, head: Mapping[str, Any], kind: str, host: ModelHost
) -> AnyTextModel:
    """Return a model in a child process of this one, or in the place of ``host``.

    The arguments are those of `TextModel`; ``kind``: of the process, for messages. In a place the
    compiled model is not kept.
    """
    if host.place is None:
        name = f'{kind} process of "{host.name}"'
        return TextModel(
            module, options, head=head, name=name, metrics=host.metrics, entry=host.entry
        )
    if host.entry is not None:
        host.entry.close()
    return PlacedTextModel(module, options, host.place, head=head)
