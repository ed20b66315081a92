"""`TextModel`: an encoder model in a supervised process, with many questions in flight."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from calculators.kit.child_process.supervisor import (
    RETRY_AFTER,
    START_SECONDS,
    ChildState,
    Supervisor,
)
from calculators.kit.model_cache import CacheEntry, compiling_with
from calculators.kit.model_initializer import loading
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.text.text_models.large_bodies import off_loop
from calculators.text.text_models.messages import (
    Answer,
    Ask,
    Cancel,
    Computed,
    Load,
    Ready,
    Refused,
    from_model_decoder,
)
from calculators.text.text_models.model_options import TextModelOptions
from graph_runtime import NO_METRICS, Code, LoadProgress, NodeMetrics

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
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.is_sent = False
        #: Crashes of the process while it had the question, and other ends.
        self.deaths = 0
        self.losses = 0


class TextModel:
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
        self._name = name
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
        self._child = Supervisor(
            name=name,
            module=module,
            load=Load(
                str(options.directory),
                MEMORY,
                options.device,
                compiling_with(options.properties, entry),
                options.max_tokens,
                dict(head),
            ),
            decode=from_model_decoder.decode,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            on_back=self._back,
            on_failed_restart=self._fail_all,
            is_requests_fault=self._judge,
            is_busy=lambda: any(each.is_sent for each in self._questions.values()),
            hang_seconds=HANG_SECONDS,
            environment=_ENVIRONMENT,
            is_shared=True,
        )

    async def start(self, progress: LoadProgress | None = None) -> Ready:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            ready: Ready = await self._child.start(progress)
        return ready

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self._child.pid

    @property
    def unavailable_reason(self) -> str:
        """The reason why no question can be answered now, in plain words; "" while one can."""
        return self._child.unavailable_reason

    async def close(self) -> None:
        """End the process; questions in flight fail."""
        closing = asyncio.create_task(self._child.close())
        await asyncio.sleep(0)  # it is closed, so no question begins
        self._fail_all()
        await closing
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
            question: the task's, or one of `calculators.text.text_models.questions`; maybe packed.
            characters: the size of its texts, for the limit of what waits.
            param: the member of the request that has the texts, for errors.

        Raises:
            RequestError: the process refuses the question; too much waits (RESOURCE_EXHAUSTED);
                there is no process (UNAVAILABLE).
        """
        if self._child.state in (ChildState.STOPPED, ChildState.CLOSED):
            raise self._child.unavailable()
        asked = await self._made(question, characters, param)
        self._questions[asked.number] = asked
        self._characters += characters
        try:
            if self._child.state is not ChildState.READY:
                self._set_deadline()
            elif not self._suspects:
                self._send(asked)
            answer = await asked.answer
        except asyncio.CancelledError:
            if asked.is_sent:
                self._child.send(self._pack(Cancel(asked.number)))
            raise
        finally:
            del self._questions[asked.number]
            self._characters -= characters
            if asked in self._suspects:
                self._suspects.remove(asked)
                self._ask_next()
        return outputs_of(answer)

    async def _made(
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
        client = "" if record is None else record.client.name
        packed = await packed_question(question, characters, param)
        if self._refused and hashlib.sha256(packed).digest() in self._refused:
            raise self._refusal()
        self._number += 1
        body = self._pack(Ask(self._number, client, msgspec.Raw(packed)))
        return _Question(self._number, body, characters)

    def _send(self, question: _Question) -> None:
        if not any(each.is_sent for each in self._questions.values()):
            self._child.expect_answer()
        question.is_sent = True
        self._child.send(question.body)

    def _refusal(self) -> RequestError:
        return RequestError(f"the request ended the {self._name} twice, and is refused")

    # Called by the supervisor ---------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        if isinstance(message, Computed):
            self._metrics.note_batch(message)
            for answer in message.answers:
                self._settle(answer)
        elif isinstance(message, Answer | Refused):
            self._settle(message)

    def _settle(self, answer: Answer | Refused) -> None:
        question = self._questions.get(answer.number)
        if question is None or question.answer.done():
            return
        if isinstance(answer, Answer):
            question.answer.set_result(answer)
        else:
            question.answer.set_exception(
                RequestError(answer.reason, param=answer.param, code=Code[answer.code])
            )

    def _judge(self) -> bool:
        """Return whether a question caused the end of the process."""
        has_crashed = self._child.has_crashed or self._child.was_hung
        return has_crashed and any(each.is_sent for each in self._questions.values())

    def _down(self, reason: str) -> None:
        has_crashed = self._child.has_crashed or self._child.was_hung
        for question in self._questions.values():
            if not question.is_sent or question.answer.done():
                continue
            question.is_sent = False
            if has_crashed:
                question.deaths += 1
                if question.deaths == 1:
                    self._suspects.append(question)
                else:  # it was alone
                    self._refuse_from_now_on(question)
            else:
                question.losses += 1
                if question.losses > 1:
                    question.answer.set_exception(
                        RequestError(
                            f"the {self._name} ended twice before it answered: {reason}",
                            code=Code.UNAVAILABLE,
                            retry_after=RETRY_AFTER,
                        )
                    )
        self._set_deadline()

    def _refuse_from_now_on(self, question: _Question) -> None:
        question.answer.set_exception(self._refusal())
        ask = msgspec.msgpack.decode(question.body, type=Ask)
        self._refused[hashlib.sha256(bytes(ask.question)).digest()] = None
        if len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)

    def _back(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._ask_next()

    def _ask_next(self) -> None:
        """Ask what waits for the process: the suspects one after the other, then the rest."""
        if self._child.state is not ChildState.READY:
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
            self._deadline = loop.call_later(START_SECONDS, self._fail_all)

    def _fail_all(self, reason: str = "") -> None:
        """Let all questions fail: there is no process to ask."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(self._child.unavailable())


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


def outputs_of(answer: Answer) -> Outputs:
    """Return the arrays of an answer."""
    values = np.frombuffer(answer.values, "<f4")
    if answer.tokens:
        values = values.reshape(len(answer.tokens), -1)
    return Outputs(values, answer.tokens, answer.note)
