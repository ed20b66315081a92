"""`TextModel`: an encoder model in a supervised process, with many questions in flight.

`PlacedTextModel` has the same interface for a model in a place of its own, such as a replica of a
cluster, where `TextModelWork` runs; `text_model` chooses between both. `TextServable` is the base
of the three families' resources.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from calculators.kit.child_process.supervisor import (
    RETRY_AFTER,
    START_SECONDS,
    ChildState,
    SupervisedProcess,
)
from calculators.kit.model_cache import CacheEntry, ModelCache, compiling_with
from calculators.kit.model_initializer import ModelHost, ModelInitializer, loading, model_identity
from calculators.kit.packing import pack, unpack
from calculators.kit.places import Place, PlacedModel, Question, WorkOrder, ask_once
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.text.text_models.messages import (
    Computed,
    EncoderAnswer,
    EncoderCancel,
    EncoderLoad,
    EncoderQuestion,
    EncoderReady,
    EncoderRefused,
    from_model_decoder,
)
from calculators.text.text_models.model_options import TextModelOptions, compiled_entry
from graph_runtime import NO_METRICS, Code, LoadProgress, NodeMetrics

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes that are checked, packed or written in less than a millisecond.
AT_ONCE: Final = 64 * 1024


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns; in a thread if it has more than `AT_ONCE` bytes to look at."""
    if size <= AT_ONCE:
        return work(*args, **kwargs)
    # Nothing that costs time by the request's content runs on the event loop.
    return await asyncio.to_thread(work, *args, **kwargs)


_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class TextModelMetrics:
    """Metrics of the batches of a node."""

    def __init__(self, metrics: NodeMetrics, in_flight: Callable[[], int]) -> None:
        """``in_flight``: the number of questions that wait or are computed."""
        self._sizes = metrics.histogram(
            "graphrt_text_batch_sequences", "Sequences that were computed together.", bounds=_SIZES
        )
        self._tokens = metrics.counter(
            "graphrt_text_tokens", "Tokens that were computed, without padding."
        )
        self._padded = metrics.counter(
            "graphrt_text_padded_tokens", "Tokens that were computed, with padding."
        )
        self._waits = metrics.histogram(
            "graphrt_text_queue_seconds",
            "Time that a sequence waited, from its tokens to the beginning of its batch.",
        )
        self.close = metrics.gauge(
            "graphrt_text_questions", "Questions that wait or are computed."
        ).follow(in_flight)

    def note_batch(self, batch: Computed) -> None:
        """Count a batch."""
        self._sizes.observe(len(batch.waits))
        self._tokens.add(batch.tokens)
        self._padded.add(batch.padded)
        for wait in batch.waits:
            self._waits.observe(wait)


#: Questions, and characters of questions, that may be in the process or wait for it.
MOST_QUESTIONS: Final = 4096
MOST_CHARACTERS: Final = 64 << 20
#: Seconds of silence after which a process that owes answers is replaced. While it computes it
#: gives a sign of life each second.
HANG_SECONDS: Final = 20.0
#: Bytes by which the process may grow after loading.
MEMORY: Final = 8 << 30
#: Questions remembered because they ended the process.
_REMEMBERED: Final = 256
_ENVIRONMENT: Final = {
    # Threads of the tokenizer's own would take the processors from the streams.
    "TOKENIZERS_PARALLELISM": "false",
    # Kernels below those that `model_options.KERNELS` bounds.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
}


class Outputs(NamedTuple):
    """The answer to a question.

    Attributes:
        values: a row for each sequence, shape ``[sequences, columns]``.
        tokens: the number of tokens of each sequence.
        note: as the task's function has it.
    """

    values: NDArray[np.float32]
    tokens: list[int]
    note: Any


class _Question:
    """A question in the process, or on the way there."""

    __slots__ = ("answer", "body", "characters", "deaths", "is_sent", "losses", "number")

    def __init__(self, number: int, body: bytes, characters: int) -> None:
        self.number = number
        self.body = body
        self.characters = characters
        self.answer: asyncio.Future[EncoderAnswer] = asyncio.get_running_loop().create_future()
        self.is_sent = False
        #: Crashes of the process while it had the question, and other ends.
        self.deaths = 0
        self.losses = 0


class TextModel(SupervisedProcess[EncoderReady]):
    """Asks a supervised process any number of questions at once.

    When the process crashes, the questions that it had are asked again, one after the other, so
    that the one at fault is found: it is refused, then and later. Questions that are lost because
    the process was killed from outside are asked once more.
    """

    def __init__(
        self,
        module: str,
        options: TextModelOptions,
        *,
        head: Mapping[str, Any],
        name: str,
        metrics: NodeMetrics = NO_METRICS,
        entry: CacheEntry | None = None,
    ) -> None:
        """``module``: the process's main module; ``head``: the task's settings, for the process.

        ``name``: the process's, for messages; ``entry``: the compiled model's.
        """
        self._entry = entry
        self._pack = msgspec.msgpack.Encoder().encode
        self._number = 0
        self._questions: OrderedDict[int, _Question] = OrderedDict()
        self._characters = 0
        #: Questions that had the process when it crashed, and are to be asked alone.
        self._suspects: list[_Question] = []
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._deadline: asyncio.TimerHandle | None = None
        self._metrics = TextModelMetrics(metrics, lambda: len(self._questions))
        #: The most tokens of one sequence.
        self.max_tokens = options.max_tokens
        super().__init__(
            name=name,
            module=module,
            load=EncoderLoad(
                str(options.directory),
                MEMORY,
                options.device,
                compiling_with(options.properties, entry),
                options.max_tokens,
                dict(head),
            ),
            decode=from_model_decoder.decode,
            ready=EncoderReady,
            hang_seconds=HANG_SECONDS,
            environment=_ENVIRONMENT,
            is_shared=True,
        )

    async def start(self, progress: LoadProgress | None = None) -> EncoderReady:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            return await super().start(progress)

    async def close(self) -> None:
        """End the process; questions in flight fail."""
        await super().close()
        self._metrics.close()
        if self._entry is not None:
            self._entry.close()

    async def ask(
        self,
        question: msgspec.Struct | msgspec.Raw,
        *,
        characters: int,
        param: str | None = None,
    ) -> Outputs:
        """Return the answer to a question. If the asker is cancelled, what can be is dropped.

        Args:
            question: the task's, `Tokenize` or `Detokenize`; maybe packed.
            characters: the size of its texts, for the limit of what waits.
            param: the member of the request that has the texts, for errors.

        Raises:
            RequestError: the process refuses the question; too much waits (RESOURCE_EXHAUSTED);
                there is no process (UNAVAILABLE).
        """
        if self.state in (ChildState.STOPPED, ChildState.CLOSED):
            raise self.unavailable()
        asked = await self._make_question(question, characters, param)
        self._questions[asked.number] = asked
        self._characters += characters
        try:
            if self.state is not ChildState.READY:
                self._set_deadline()
            elif not self._suspects:
                self._send(asked)
            answer = await asked.answer
        except asyncio.CancelledError:
            if asked.is_sent:
                self.send(self._pack(EncoderCancel(asked.number)))
            raise
        finally:
            del self._questions[asked.number]
            self._characters -= characters
            if asked in self._suspects:
                self._suspects.remove(asked)
                self._ask_next()
        return outputs_of(answer)

    async def _make_question(
        self, question: msgspec.Struct | msgspec.Raw, characters: int, param: str | None
    ) -> _Question:
        if (
            len(self._questions) >= MOST_QUESTIONS
            or self._characters + characters > MOST_CHARACTERS
        ):
            raise RequestError(
                "too many requests wait to be computed; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=RETRY_AFTER,
            )
        record = current_record()
        # The queue of batches is in the process, so turns of clients are too (decision 0052).
        client = "" if record is None else record.client.name
        packed = await packed_question(question, characters, param)
        if self._refused and hashlib.sha256(packed).digest() in self._refused:
            raise self._refusal()
        self._number += 1
        body = self._pack(EncoderQuestion(self._number, client, msgspec.Raw(packed)))
        return _Question(self._number, body, characters)

    def _send(self, question: _Question) -> None:
        if not self.is_busy:
            self.expect_answer()
        question.is_sent = True
        self.send(question.body)

    def _refusal(self) -> RequestError:
        return RequestError(f"the request ended the {self.name} twice, and is refused")

    # See `SupervisedProcess` ----------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return any(each.is_sent for each in self._questions.values())

    def take(self, message: Any) -> None:
        if isinstance(message, Computed):
            self._metrics.note_batch(message)
            for answer in message.answers:
                self._settle(answer)
        elif isinstance(message, EncoderAnswer | EncoderRefused):
            self._settle(message)

    def _settle(self, answer: EncoderAnswer | EncoderRefused) -> None:
        question = self._questions.get(answer.number)
        if question is None or question.answer.done():
            return
        if isinstance(answer, EncoderAnswer):
            question.answer.set_result(answer)
        else:
            question.answer.set_exception(
                RequestError(answer.reason, param=answer.param, code=Code[answer.code])
            )

    def caused_end(self) -> bool:
        return (self.has_crashed or self.was_hung) and self.is_busy

    def down(self, reason: str) -> None:
        has_crashed = self.has_crashed or self.was_hung
        for question in self._questions.values():
            if not question.is_sent or question.answer.done():
                continue
            question.is_sent = False
            if has_crashed:
                question.deaths += 1
                if question.deaths == 1:
                    # Several questions share a batch, so nobody knows which one crashed the
                    # process: each is asked alone (decision 0052).
                    self._suspects.append(question)
                else:  # it was alone
                    self._refuse_from_now_on(question)
            else:
                # Killed from outside: no question is at fault.
                question.losses += 1
                if question.losses > 1:
                    question.answer.set_exception(
                        RequestError(
                            f"the {self.name} ended twice before it answered: {reason}",
                            code=Code.UNAVAILABLE,
                            retry_after=RETRY_AFTER,
                        )
                    )
        self._set_deadline()

    def _refuse_from_now_on(self, question: _Question) -> None:
        question.answer.set_exception(self._refusal())
        ask = msgspec.msgpack.decode(question.body, type=EncoderQuestion)
        self._refused[hashlib.sha256(bytes(ask.question)).digest()] = None
        if len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)

    def back(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._ask_next()

    def _ask_next(self) -> None:
        """Ask what waits for the process: the suspects one after the other, then the rest."""
        if self.state is not ChildState.READY:
            return
        if self._suspects:
            if not self._suspects[0].is_sent:
                self._send(self._suspects[0])
            return
        for question in self._questions.values():
            if not question.is_sent and not question.answer.done():
                self._send(question)

    def _set_deadline(self) -> None:
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(START_SECONDS, self.end_work)

    def cannot_restart(self, reason: str) -> None:
        self.end_work()

    def end_work(self) -> None:
        """Let all questions fail: there is no process to ask."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(self.unavailable())


async def packed_question(
    question: msgspec.Struct | msgspec.Raw, characters: int, param: str | None
) -> bytes:
    """Return a question as MessagePack; long ones are packed in a thread.

    Raises:
        RequestError: a text of ``param`` is not Unicode.
    """
    try:
        return await off_loop(characters, msgspec.msgpack.encode, question)
    except UnicodeEncodeError:
        raise RequestError(
            f"the {param or 'request'} has a text that is not Unicode (half of a surrogate pair)",
            param=param,
        ) from None


def outputs_of(answer: EncoderAnswer) -> Outputs:
    """Return the arrays of an answer."""
    values = np.frombuffer(answer.values, "<f4")
    if answer.tokens:
        values = values.reshape(len(answer.tokens), -1)
    return Outputs(values, answer.tokens, answer.note)


_MAKER: Final = f"{__name__}:make_work"
_CHARACTERS_PER_TOKEN: Final = 4


class _Arguments(msgspec.Struct, frozen=True, array_like=True):
    """The arguments of `TextModel`."""

    module: str
    options: TextModelOptions
    head: Mapping[str, Any]


class _AskedTexts(msgspec.Struct, frozen=True, array_like=True):
    """A question; see `TextModel.ask`."""

    characters: int
    param: str | None
    question: msgspec.Raw


_encode = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_AskedTexts)
_answer_decoder: Final = msgspec.msgpack.Decoder(EncoderAnswer)
_ready_decoder: Final = msgspec.msgpack.Decoder(EncoderReady)


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
        """The arguments are as for `TextModel`."""
        directory = options.directory
        arguments = pack(_Arguments(module, options, head))
        super().__init__(WorkOrder(_MAKER, arguments, directory.name, (str(directory),)), place)
        #: The most tokens of one sequence.
        self.max_tokens = options.max_tokens

    async def start(self, progress: LoadProgress | None = None) -> EncoderReady:
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
        body = _encode(_AskedTexts(characters, param, msgspec.Raw(packed)))
        answer = await ask_once(self._place, body, tokens=characters / _CHARACTERS_PER_TOKEN)
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
        answer = EncoderAnswer(0, outputs.values.tobytes(), outputs.tokens, outputs.note)
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

    The arguments are as for `TextModel`; ``kind``: of the process, for messages. In a place the
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


class TextOptions(Protocol):
    """The options of a node with an encoder model.

    Attributes:
        model: the model, and how it is computed.
        head: the settings of its head, a part of what is compiled.
    """

    @property
    def model(self) -> TextModelOptions: ...

    @property
    def head(self) -> Mapping[str, Any]: ...


Options = TypeVar("Options", bound=TextOptions)


class TextServable(Generic[Options]):
    """An encoder model in a supervised process, as the resource of its node.

    Attributes:
        model: the process, or the model in a place of its own.
        max_tokens: the most tokens of one sequence.
    """

    def __init__(self, module: str, options: Options, *, kind: str, host: ModelHost) -> None:
        """See `text_model`."""
        self._options = options
        #: Numbers of an output of the model; 0: it does not say.
        self._columns = 0
        self.max_tokens = options.model.max_tokens
        self.model = text_model(module, options.model, head=options.head, kind=kind, host=host)

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        ready = await self.model.start(progress)
        self._columns = ready.columns

    def with_options(self, options: Options) -> Self:
        """Return a servable of the same process, for a node with other options of its model.

        Raises:
            ResourceError: the model cannot have them.
        """
        servable = copy.copy(self)
        servable._options = options
        return servable

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self.model.pid

    @property
    def unavailable_reason(self) -> str:
        """The reason why no question is answered now, in plain words; "" while one is."""
        return self.model.unavailable_reason

    async def close(self) -> None:
        """End the process."""
        await self.model.close()


Servable = TypeVar("Servable", bound=TextServable[Any])


class TextModelInitializer(ModelInitializer[Options, Servable]):
    """The resource initializer of a family of encoder models.

    Nodes share a model with the same head; all other options are their own.
    """

    def hold(self, options: Options, cache: ModelCache) -> CacheEntry | None:
        return compiled_entry(options.model, cache, options.head)

    def paths(self, options: Options) -> tuple[Path, ...]:
        return (options.model.directory,)

    def made_of(self, options: Options) -> str | None:
        return model_identity(options.model, options.head, paths=self.paths(options))

    def with_options(self, resource: Servable, options: Options) -> Servable:
        return resource.with_options(options)
