"""`BatchRunner`: threads that compute the waiting sequences, a batch each at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from calculators.kit.child_process.answering_process import describe_failure, failure_reason
from calculators.text.text_models.batch_queue import BatchQueue, QueuePlace
from calculators.text.text_models.compiled_forms import CompiledForms, Floats, Runner
from calculators.text.text_models.messages import Computed, EncoderAnswer, EncoderRefused
from calculators.text.text_models.text_tokenizer import Encoded, TextTokens

Answers: TypeAlias = list[EncoderAnswer | EncoderRefused]
#: Seconds that one batch may take; the process counts as hung then.
HANG_SECONDS: Final = 300.0


class _RunningRequest:
    """A request whose sequences wait or are computed."""

    __slots__ = ("encoded", "left", "number", "since", "values")

    def __init__(self, number: int, encoded: Encoded, since: float) -> None:
        self.number = number
        self.encoded = encoded
        self.since = since
        self.left = len(encoded.sequences)
        #: The rows that are there; made with the first ones.
        self.values: Floats | None = None

    def fill(self, index: int, row: Floats) -> None:
        if self.values is None:
            self.values = np.empty((len(self.encoded.sequences), len(row)), np.float32)
        self.values[index] = row
        self.left -= 1

    def answer(self) -> EncoderAnswer:
        assert self.values is not None
        values = self.values.astype("<f4", copy=False).tobytes()
        tokens = [len(each.ids) for each in self.encoded.sequences]
        return EncoderAnswer(self.number, values, tokens, self.encoded.note)


class BatchRunner:
    """A thread for each stream of a model, each with inference requests of its own."""

    def __init__(
        self,
        forms: CompiledForms,
        pad: int,
        send: Callable[[Computed], None],
        log: Callable[[str], None],
    ) -> None:
        """``send`` gets the answers, ``log`` descriptions of failures; both in any thread."""
        self._pad = pad
        self._send = send
        self._log = log
        self._queue = BatchQueue(forms.streams)
        self._requests: dict[int, _RunningRequest] = {}
        self._changed = threading.Condition()
        #: The times at which the running batches began, by thread.
        self._running: dict[int, float] = {}
        for number in range(forms.streams):
            threading.Thread(
                target=self._work, args=(forms.runner(),), name=f"stream {number}", daemon=True
            ).start()

    @property
    def is_busy(self) -> bool:
        """True if anything is computed or waits, and no batch has taken too long."""
        oldest = time.monotonic() - HANG_SECONDS
        with self._changed:
            began = list(self._running.values())
            return bool(self._requests) and all(each > oldest for each in began)

    def add(self, number: int, client: str, encoded: Encoded) -> None:
        """Let the sequences of a request wait: at least one."""
        request = _RunningRequest(number, encoded, time.monotonic())
        lengths = [len(each.ids) for each in encoded.sequences]
        with self._changed:
            self._requests[number] = request
            self._queue.add(number, client, lengths)
            self._changed.notify(len(lengths))

    def drop(self, number: int) -> None:
        """Forget a request: what waits is not computed, what is computed gets no answer."""
        with self._changed:
            if self._requests.pop(number, None) is not None:
                self._queue.drop(number)

    def _work(self, runner: Runner) -> None:
        thread = threading.get_ident()
        while True:
            with self._changed:
                while not (places := self._queue.take()):
                    self._changed.wait()
                is_lone = len(places) == 1 and not len(self._queue) and not self._running
                self._running[thread] = begun = time.monotonic()
                requests = {place.request: self._requests[place.request] for place in places}
            sequences = [requests[place.request].encoded.sequences[place.item] for place in places]
            waits = [begun - requests[place.request].since for place in places]
            rows, failures = self._compute(runner, places, sequences, is_lone=is_lone)
            answers: Answers = []
            with self._changed:
                del self._running[thread]
                for place, row in zip(places, rows, strict=True):
                    request = self._requests.get(place.request)
                    if request is None:
                        continue  # cancelled, or refused just now
                    if row is None:
                        self._requests.pop(place.request)
                        self._queue.drop(place.request)
                        answers.append(
                            EncoderRefused(place.request, failures[place.request], None, "INTERNAL")
                        )
                        continue
                    request.fill(place.item, row)
                    if not request.left:
                        del self._requests[place.request]
                        answers.append(request.answer())
            padded = len(places) * max(place.length for place in places)
            tokens = sum(place.length for place in places)
            self._send(Computed(answers, tokens, padded, waits))

    def _compute(
        self,
        runner: Runner,
        places: Sequence[QueuePlace],
        batch: Sequence[TextTokens],
        *,
        is_lone: bool,
    ) -> tuple[list[Floats | None], dict[int, str]]:
        """Return the row of each sequence, None where it failed, and reasons by request.

        A batch that fails is computed again one by one: the others in it are not at fault.
        """
        try:
            return list(runner.compute(batch, self._pad, is_lone=is_lone)), {}
        except Exception as error:
            if len(batch) == 1:
                self._log(describe_failure(error))
                return [None], {places[0].request: failure_reason(error)}
        rows: list[Floats | None] = []
        reasons: dict[int, str] = {}
        for place, tokens in zip(places, batch, strict=True):
            (row,), failed = self._compute(runner, [place], [tokens], is_lone=False)
            rows.append(row)
            reasons.update(failed)
        return rows, reasons
