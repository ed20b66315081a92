"""`BatchRunner`: threads that compute the waiting sequences, a batch each at a time.

`BatchQueue` says which sequence is computed next, and which together with it; it is pure logic,
without threads and models. A batch begins with the sequence whose turn it is: clients
take turns, and so do the requests of one client. It is filled with sequences of like length, from
each request one before any request has a second, until one more would make it

- larger than ``budget`` tokens, padding included: a processor is full at about 256,
- more than ``waste`` times as large as its real tokens: padding is computed like any token,
- larger than this stream's share of what waits, so that the other streams get theirs.

Nothing waits for a batch to become fuller: what is there when a stream is free is taken.

`CompiledForms` has the model compiled twice, for a lone sequence and for load.
"""

from __future__ import annotations

import importlib
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from calculators.kit.child_process.answering_process import describe_failure, failure_reason
from calculators.kit.child_process.messages import LoadingPhase
from calculators.kit.machine import usable_processors
from calculators.text.text_models.messages import (
    Computed,
    EncoderAnswer,
    EncoderLoad,
    EncoderRefused,
)
from calculators.text.text_models.text_tokenizer import Encoded, Ids, TextTokens

#: Completes a model with a task's pooling or head: its only output is ``[batch, columns]``.
BuildHead = Callable[[ov.Model, EncoderLoad], ov.Model]
Floats = NDArray[np.float32]

_STREAMS: Final = "NUM_STREAMS"
#: Properties with which the operator chooses the number of streams.
_CHOICES: Final = frozenset({_STREAMS, "PERFORMANCE_HINT", "PERFORMANCE_HINT_NUM_REQUESTS"})
#: Bytes of weights up to which a model is compiled twice: each form has a copy of them.
_COMPILED_TWICE: Final = 1 << 30
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "beam_idx")


class CompiledForms:
    """A model of a directory, compiled.

    Under load there is a stream for each processor: on two cores 794 short texts a second instead
    of 473 with one stream of two threads. A lone text of 128 tokens takes 13 ms with all
    processors, and 23 ms with one (MiniLM-L6 with int8 weights, openvino 2026.4.1).

    Attributes:
        streams: batches that are computed at the same time.
        columns: numbers for each sequence; 0 if unknown before a run.
    """

    def __init__(
        self, load: EncoderLoad, build_head: BuildHead, report: Callable[[LoadingPhase], None]
    ) -> None:
        """Read, complete and compile the model; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's, or the model is none of the task.
        """
        report(LoadingPhase("reading the model", 0.3, 0.4))
        core = ov.Core()
        file = Path(load.model_path) / "openvino_model.xml"
        model = build_head(core.read_model(file), load)
        self._inputs = [_input_name(port) for port in model.inputs]
        self._types = [port.get_element_type().to_dtype() for port in model.inputs]
        self._is_stateful = bool(model.get_sinks())
        shape = model.outputs[0].get_partial_shape()
        self.columns: int = shape[1].get_length() if shape[1].is_static else 0
        report(LoadingPhase("compiling the model", 0.4, 1.0))
        properties = dict(load.properties)
        # OVMS writes `NUM_STREAMS: 1` into its graphs: what the operator chose is kept (decision
        # 0052).
        chosen = _CHOICES & properties.keys()
        if load.device == "CPU" and not chosen:
            properties[_STREAMS] = str(usable_processors())
        self._many = core.compile_model(model, load.device, properties)
        self.streams = int(self._many.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._alone = None
        weights = file.with_suffix(".bin").stat().st_size
        if load.device == "CPU" and not chosen and self.streams > 1 and weights <= _COMPILED_TWICE:
            properties[_STREAMS] = "1"
            # A second form with all processors for a sequence that is alone; it holds the weights
            # again, hence the bound (decision 0052).
            self._alone = core.compile_model(model, load.device, properties)

    def runner(self) -> Runner:
        """Return what one stream computes with; for one thread."""
        alone = None if self._alone is None else self._alone.create_infer_request()
        return Runner(
            self._many.create_infer_request(), alone, self._inputs, self._types, self._is_stateful
        )


class Runner:
    """The inference requests of one thread."""

    def __init__(
        self, many: Any, alone: Any, inputs: list[str], types: list[Any], is_stateful: bool
    ) -> None:
        self._many = many
        self._alone = alone
        self._inputs = inputs
        self._types = types
        self._is_stateful = is_stateful

    def compute(self, batch: Sequence[TextTokens], pad: int, *, is_lone: bool) -> Floats:
        """Return a row for each sequence; ``is_lone``: nothing else is computed or waits.

        Raises:
            RuntimeError: the library's.
        """
        request = self._alone if is_lone and self._alone is not None else self._many
        longest = max(len(tokens.ids) for tokens in batch)
        ids = np.full((len(batch), longest), pad, np.int64)
        mask = np.zeros((len(batch), longest), np.int64)
        segments: Ids | None = None
        for row, tokens in enumerate(batch):
            count = len(tokens.ids)
            ids[row, :count] = tokens.ids
            mask[row, :count] = 1
            if tokens.types is not None:
                segments = np.zeros_like(ids) if segments is None else segments
                segments[row, :count] = tokens.types
        feed: list[NDArray[Any]] = []
        for name, kind in zip(self._inputs, self._types, strict=True):
            value: NDArray[Any]
            match name:
                case "input_ids":
                    value = ids
                case "attention_mask":
                    value = mask
                case "token_type_ids":
                    value = np.zeros_like(ids) if segments is None else segments
                case "position_ids":
                    value = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
                case _:
                    value = np.arange(len(batch))
            feed.append(np.ascontiguousarray(value, kind))
        if self._is_stateful:
            # Decoders that embed keep keys and values in a state, which would be another batch's.
            request.reset_state()
        request.infer(feed, share_inputs=True, share_outputs=True)
        # The request's next run writes into its output.
        return np.array(request.get_output_tensor(0).data, np.float32, copy=True)


def find_function(name: str) -> Callable[..., Any]:
    """Import the function that a task names as ``module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _input_name(port: Any) -> str:
    found = [name for name in _INPUTS if name in port.get_names()]
    if not found:
        names = ", ".join(sorted(port.get_names())) or "without a name"
        raise RuntimeError(
            f"openvino_model.xml has the input {names}; those of an encoder model are "
            f"{', '.join(_INPUTS)}"
        )
    return found[0]


#: Tokens of a batch, with padding. MiniLM-L6 takes 180 to 200 us of processor time per token from
#: 32 short sequences on, and three to four times as much for a single one (openvino 2026.4.1).
BUDGET: Final = 256
#: Tokens with padding for each real one.
WASTE: Final = 1.3
#: Requests that a batch may take sequences from; the search costs time for each.
CONSIDERED: Final = 256


class QueuePlace(NamedTuple):
    """A sequence: its request, its number there, and its number of tokens."""

    request: int
    item: int
    length: int


class _Request:
    """The sequences of a request that wait, by length."""

    __slots__ = ("client", "number", "waiting")

    def __init__(self, number: int, client: str, lengths: Sequence[int]) -> None:
        self.number = number
        self.client = client
        self.waiting = sorted((length, index) for index, length in enumerate(lengths))

    def nearest(self, length: int) -> int:
        """Return the position in ``waiting`` of the sequence whose length is nearest."""
        waiting = self.waiting
        at = bisect_left(waiting, (length, -1))
        if at == len(waiting):
            return at - 1
        if at and length - waiting[at - 1][0] < waiting[at][0] - length:
            return at - 1
        return at


class BatchQueue:
    """Sequences that wait, by client and request. Not safe for threads."""

    def __init__(self, streams: int, *, budget: int = BUDGET, waste: float = WASTE) -> None:
        """``streams``: batches that are computed at the same time."""
        self._streams = streams
        self._budget = budget
        self._waste = waste
        self._requests: dict[int, _Request] = {}
        #: Requests by client; clients and requests are in the order of their turns.
        self._clients: dict[str, dict[int, _Request]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return the number of sequences that wait."""
        return self._count

    def add(self, request: int, client: str, lengths: Sequence[int]) -> None:
        """Add the sequences of a request, at least one, by their numbers of tokens."""
        made = self._requests[request] = _Request(request, client, lengths)
        self._clients.setdefault(client, {})[request] = made
        self._count += len(lengths)

    def drop(self, request: int) -> None:
        """Forget what still waits of a request, if anything does."""
        dropped = self._requests.get(request)
        if dropped is not None:
            self._count -= len(dropped.waiting)
            self._remove(dropped)

    def take(self) -> list[QueuePlace]:
        """Remove and return the next batch; it is empty only if nothing waits."""
        if not self._count:
            return []
        # A stream takes at most its share: one large batch is padded to its longest text, and the
        # other stream has nothing to do (decision 0052).
        most = -(-self._count // self._streams)
        first = self._next_request()
        # All sequences of a request are equally old; with the longest first, short ones are left
        # to fill the last batches.
        length, index = first.waiting.pop()
        batch = [QueuePlace(first.number, index, length)]
        self._fill(batch, most)
        for number in {place.request for place in batch}:
            request = self._requests[number]
            if not request.waiting:
                self._remove(request)
        self._count -= len(batch)
        return batch

    def _next_request(self) -> _Request:
        """Return the request whose turn it is; it and its client go to the end of their queues."""
        client = next(iter(self._clients))
        requests = self._clients.pop(client)
        self._clients[client] = requests
        number = next(iter(requests))
        request = requests.pop(number)
        # So a request of 2,048 texts delays another's single text by the batches that run, and not
        # by its own (decision 0052).
        requests[number] = request
        return request

    def _fill(self, batch: list[QueuePlace], most: int) -> None:
        wanted = longest = total = batch[0].length
        # The search runs for each batch on a core that could compute: 256 requests bound it.
        considered = [each for each in islice(self._in_order(), CONSIDERED) if each.waiting]
        while considered:
            found = []
            for order, request in enumerate(considered):
                at = request.nearest(wanted)
                found.append((abs(request.waiting[at][0] - wanted), order, at))
            found.sort()
            left = []
            for _, order, at in found:
                if len(batch) == most or longest * (len(batch) + 1) > self._budget:
                    return
                request = considered[order]
                length, index = request.waiting[at]
                padded = max(longest, length) * (len(batch) + 1)
                # Padding is computed like any token; up to 1.3 padded tokens for a real one a
                # larger batch still gains (decision 0052).
                if padded > self._budget or padded > self._waste * (total + length):
                    continue  # the others of this request are still farther away
                del request.waiting[at]
                batch.append(QueuePlace(request.number, index, length))
                longest, total = max(longest, length), total + length
                if request.waiting:
                    left.append((order, request))
            considered = [request for _, request in sorted(left, key=_order)]

    def _in_order(self) -> Iterator[_Request]:
        """The requests in the order of turns: the first of each client, then the second ones."""
        turns = zip_longest(*(requests.values() for requests in self._clients.values()))
        return filter(None, chain.from_iterable(turns))

    def _remove(self, request: _Request) -> None:
        del self._requests[request.number]
        requests = self._clients[request.client]
        del requests[request.number]
        if not requests:
            del self._clients[request.client]


def _order(item: tuple[int, _Request]) -> int:
    return item[0]


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
