"""The process of an encoder model: questions come in, many at once, and answers go out.

`QuestionRoutes`: questions of several workers in one process of an encoder model.

Each worker numbers its questions. In the process the number of the worker's link is in the upper
bits; without other workers it is 0, and the numbers are the same.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from calculators.kit.child_process.answering_process import (
    describe_failure,
    failure_reason,
    limit_memory,
)
from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.lean_openvino import load_failure
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.kit.memory import return_free_memory
from calculators.text.text_models.messages import (
    Computed,
    EncoderAnswer,
    EncoderCancel,
    EncoderLoad,
    EncoderQuestion,
    EncoderReady,
    EncoderRefused,
    EncoderWorking,
    to_model_decoder,
)

if TYPE_CHECKING:
    from calculators.text.text_models.batch_runner import BatchRunner
    from calculators.text.text_models.text_tokenizer import Encoded, TextTokenizer

_BITS: Final = 40
_OWN: Final = (1 << _BITS) - 1


class QuestionRoutes:
    """Translates the numbers of questions. `parts` and `finish` may be called by any thread."""

    def __init__(self) -> None:
        #: The numbers of unanswered questions.
        self._open: set[int] = set()

    def begin(self, link: int, ask: EncoderQuestion) -> int:
        """Return the number of a worker's question in this process."""
        number = self.find(link, ask.number)
        self._open.add(number)
        return number

    def find(self, link: int, number: int) -> int:
        """Return the number in this process for a worker's number."""
        return link << _BITS | number

    def finish(self, number: int) -> None:
        """Forget a question that is answered or cancelled."""
        self._open.discard(number)

    def end(self, link: int) -> list[int]:
        """Return the unanswered questions of a link that has ended, and forget them."""
        found = [number for number in tuple(self._open) if number >> _BITS == link]
        self._open.difference_update(found)
        return found

    def parts(
        self, message: msgspec.Struct, links: Sequence[int]
    ) -> Iterator[tuple[int, msgspec.Struct]]:
        """Yield what each link gets of a message; the parent is link 0.

        A batch of several workers is reported to one of them as a batch, so that it is counted
        once; the others get their answers.
        """
        match message:
            case EncoderAnswer() | EncoderRefused():
                yield self._own(message)
            case Computed(answers=answers) if answers:
                own = [self._own(each) for each in answers]
                first = own[0][0]
                here = [each for link, each in own if link == first]
                yield first, replace(message, answers=here)
                yield from ((link, each) for link, each in own if link != first)
            case Computed():
                yield links[0] if links else 0, message
            case EncoderWorking():
                yield from ((link, message) for link in (links or (0,)))
            case _:
                yield 0, message

    def _own(
        self, answer: EncoderAnswer | EncoderRefused
    ) -> tuple[int, EncoderAnswer | EncoderRefused]:
        self._open.discard(answer.number)
        return answer.number >> _BITS, replace(answer, number=answer.number & _OWN)


_LOGGER: Final = "graphrt.child"
#: Bytes of a question up to which it is tokenized at once, in well under a millisecond. Longer
#: ones wait for a thread, where clients take turns.
_SHORT: Final = 2048
#: Seconds that the tokens of one question may take; the process counts as hung then.
_LONGEST: Final = 60.0
#: Seconds between two signs of life while questions are unanswered.
_PULSE: Final = 1.0


def run_text_model(
    arguments: Sequence[str], question: type[msgspec.Struct], encode: str, build_head: str
) -> int:
    """Load, then answer until the parent sends `StopChild` or is gone; returns the exit code.

    Args:
        arguments: the process's: its module, a descriptor and the parent's id.
        question: the type of the task's questions.
        encode: ``module:function`` that turns a `TextTokenizer` and a question into `Encoded`.
        build_head: ``module:function`` that completes the model, see
            `calculators.text.text_models.batch_runner.BuildHead`.
    """
    descriptor, parent = map(int, arguments[1:])
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        return TextModelProcess(connection, question, encode, build_head).run()
    except ParentGone:
        return 0


class TextModelProcess:
    """The threads of the process: this one receives, one tokenizes what is long, some compute."""

    def __init__(
        self,
        connection: ParentConnection,
        question: type[msgspec.Struct],
        encode: str,
        build_head: str,
    ) -> None:
        """See `run_text_model`."""
        from calculators.text.text_models.text_tokenizer import Detokenize, Tokenize

        self._connection = connection
        self._routes = QuestionRoutes()
        self._sending = threading.Lock()
        self._packed = msgspec.msgpack.Encoder().encode
        self._question: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            question | Tokenize | Detokenize
        )
        self._common = (Tokenize, Detokenize)
        self._names = (encode, build_head)
        self._tokenizer: TextTokenizer
        self._encode: Callable[[TextTokenizer, Any], Encoded]
        self._runner: BatchRunner
        self._long = _LongQuestions(self._answer, lambda number: self._runner.drop(number))

    def run(self) -> int:
        """Handle messages to the end; returns the exit code."""
        next_pulse = 0.0
        while True:
            is_busy = hasattr(self, "_runner") and (self._runner.is_busy or self._long.is_busy)
            for frame in self._connection.receive(wait=True, seconds=_PULSE if is_busy else None):
                if (code := self._handle(frame)) is not None:
                    return code
            while self._connection.gone:
                for number in self._routes.end(self._connection.gone.pop()):
                    self._long.drop(number)
                    self._runner.drop(number)
            if is_busy and time.monotonic() >= next_pulse:
                next_pulse = time.monotonic() + _PULSE
                self._send(EncoderWorking())

    def _handle(self, frame: Frame) -> int | None:
        """Handle a message; the exit code if it was the last."""
        message = to_model_decoder.decode(frame)
        match message:
            case EncoderQuestion():
                message = replace(
                    message, number=self._routes.begin(self._connection.link, message)
                )
                if len(frame) <= _SHORT:
                    self._answer(message)
                else:
                    self._long.add(message)
            case EncoderCancel():
                number = self._routes.find(self._connection.link, message.number)
                self._long.drop(number)
                self._runner.drop(number)
                self._routes.finish(number)
            case EncoderLoad():
                try:
                    ready = self._load(message)
                except Exception as error:
                    self._send(LoadFailed(load_failure(message.model_path, error)))
                    return 1
                limit_memory(message.memory_limit)
                self._send(ready)
            case StopChild():
                return 0
            case _:
                raise AssertionError(message)
        return None

    def _load(self, load: EncoderLoad) -> EncoderReady:
        # Imported here: the libraries take long to load, and may be what is broken.
        from calculators.text.text_models.batch_runner import (
            BatchRunner,
            CompiledForms,
            find_function,
        )
        from calculators.text.text_models.tokenizer_files import open_tokenizer

        self._send(LoadingPhase("loading the tokenizer", 0.0, 0.3))
        encode, build_head = self._names
        self._encode = find_function(encode)
        self._tokenizer = tokenizer = open_tokenizer(load)
        forms = CompiledForms(load, find_function(build_head), self._send)
        self._runner = BatchRunner(forms, tokenizer.pad, self._send, self._log)
        return EncoderReady(forms.columns, tokenizer.vocabulary, forms.streams)

    def _answer(self, ask: EncoderQuestion) -> None:
        """Tokenize a question, and let its sequences wait for their batches."""
        from calculators.text.text_models.text_tokenizer import InputError, answer_question

        try:
            question = self._question.decode(ask.question)
            if isinstance(question, self._common):
                encoded = answer_question(self._tokenizer, question)
            else:
                encoded = self._encode(self._tokenizer, question)
                self._check(encoded)
        except InputError as error:
            self._send(EncoderRefused(ask.number, error.reason, error.param, error.code))
            return
        except Exception as error:
            self._log(describe_failure(error))
            self._send(EncoderRefused(ask.number, failure_reason(error), None, "INTERNAL"))
            return
        if encoded.sequences:
            self._runner.add(ask.number, ask.client, encoded)
        else:
            self._send(EncoderAnswer(ask.number, b"", [], encoded.note))

    def _check(self, encoded: Encoded) -> None:
        """Refuse sequences that the model must not get."""
        from calculators.text.text_models.text_tokenizer import InputError

        most, vocabulary = self._tokenizer.max_tokens, self._tokenizer.vocabulary
        for ids, _ in encoded.sequences:
            if not 0 < len(ids) <= most:
                raise InputError(
                    f"a text has {len(ids)} tokens, and the model takes 1 to {most}",
                    code="OUT_OF_RANGE",
                )
            if vocabulary and not 0 <= ids.min() <= ids.max() < vocabulary:
                raise InputError("a token is not in the model's vocabulary", code="OUT_OF_RANGE")

    def _send(self, message: msgspec.Struct) -> None:
        # A parent that is gone ends the thread that receives, and with it the process.
        with self._sending, contextlib.suppress(ParentGone):
            for link, part in self._routes.parts(message, self._connection.links):
                self._connection.send_to(link, self._packed(part))

    def _log(self, text: str) -> None:
        self._send(Log(logging.ERROR, _LOGGER, text))


class _LongQuestions:
    """A thread for questions that take long to tokenize; clients take turns."""

    def __init__(
        self, answer: Callable[[EncoderQuestion], None], drop: Callable[[int], None]
    ) -> None:
        self._answer = answer
        self._drop = drop
        self._changed = threading.Condition()
        #: Questions by client, in the order of turns; no entry is empty.
        self._waiting: OrderedDict[str, deque[EncoderQuestion]] = OrderedDict()
        self._current: EncoderQuestion | None = None
        self._since = 0.0
        self._is_dropped = False
        threading.Thread(target=self._work, name="tokenizing", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """True while a question is tokenized, unless that has taken too long."""
        return self._current is not None and time.monotonic() - self._since < _LONGEST

    def add(self, ask: EncoderQuestion) -> None:
        with self._changed:
            self._waiting.setdefault(ask.client, deque()).append(ask)
            self._changed.notify()

    def drop(self, number: int) -> None:
        """Forget a question."""
        with self._changed:
            if self._current is not None and self._current.number == number:
                self._is_dropped = True
                return
            for client, asks in self._waiting.items():
                for ask in asks:
                    if ask.number == number:
                        asks.remove(ask)
                        if not asks:
                            del self._waiting[client]
                        return

    def _work(self) -> None:
        while True:
            with self._changed:
                self._current, self._is_dropped = None, False
                while not self._waiting:
                    self._changed.wait()
                client, asks = self._waiting.popitem(last=False)
                self._current, self._since = asks.popleft(), time.monotonic()
                if asks:
                    self._waiting[client] = asks
            self._answer(self._current)
            with self._changed:
                if self._is_dropped:
                    self._drop(self._current.number)
                self._current = None
                is_idle = not self._waiting
            if is_idle:
                return_free_memory()  # a long question takes a hundred times its length
