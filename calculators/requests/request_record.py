"""What is known of a request when it is over: for its line in the log, its spans, its figures.

A front begins a record and makes it the current one of its task; what answers the request finds it
there, or in the `HttpPayload`, and writes into it. It costs a few assignments, so there is one for
every request. Times are of ``time.perf_counter_ns``; 0 is "not reached".
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final

from graph_runtime.observe.call_times import CallTimes

#: Generations and runs of one request that are remembered: a stream may have any number.
KEPT: Final = 64


@dataclass(slots=True)
class GenerationRecord:
    """One generation of a language model: a node may make several for one stream of requests.

    Attributes:
        node: the node's name.
        operation: the endpoint, "chat/completions".
        began: the request reached the node.
        submitted: its prompts were made, and the engine got them.
        first_token: the first tokens came back: waiting in the engine and the prompt's pass are
            over.
        ended: the last ones came, or nobody waited any more.
        prompt_tokens, completion_tokens: of all choices.
        finish_reasons: one per choice that has ended, in the order of their ends.
        max_tokens: that were asked for; None without a limit.
        keeps_texts: are prompts and answers wanted, for the log?
        prompts, answers: as the model got and wrote them, if so.
    """

    node: str
    operation: str
    began: int = field(default_factory=perf_counter_ns)
    submitted: int = 0
    first_token: int = 0
    ended: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reasons: list[str] = field(default_factory=list)
    max_tokens: int | None = None
    keeps_texts: bool = False
    prompts: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who sent a request, for those who let clients take turns. Says nothing about rights.

    Attributes:
        name: the API key's digest where keys are needed, else the peer's address; "" is unknown.
        connection: tells connections of the same name apart.
    """

    name: str
    connection: str = ""


UNKNOWN_CLIENT: Final = ClientIdentity("")


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request of a client; a stream of requests over gRPC has one record, too.

    Attributes:
        request_id: safe to repeat anywhere.
        client: who sent it; all who are unknown are one.
        model: the name that the client gave; "" where it gave none. Not to be trusted.
        began: when the request's headers were complete.
        error: a word for what ended the answer after its status was sent; "" if nothing did.
        reason: why it was refused, or failed, without anything that the client sent; "" where it
            was not, or nobody knows.
        keeps_texts: are prompts and answers to be kept, for the log?
        trace: of whoever traces it: then the calls of nodes are recorded, too; else None.
        trace_id: 32 hexadecimal digits, where somebody traces the request; "" otherwise.
        generations: of language models, in the order of their begin; the last `KEPT` of a long
            stream.
        forgets: is told of a generation that goes from there, nearly always long ended.
        runs: of graphs with their names, where they are traced; the last `KEPT`.
    """

    request_id: str
    model: str = ""
    client: ClientIdentity = UNKNOWN_CLIENT
    began: int = field(default_factory=perf_counter_ns)
    error: str = ""
    reason: str = ""
    keeps_texts: bool = False
    trace: object = None
    trace_id: str = ""
    generations: list[GenerationRecord] = field(default_factory=list)
    runs: list[tuple[str, CallTimes]] = field(default_factory=list)
    forgets: Callable[[RequestRecord, GenerationRecord], None] | None = None
    _earlier_prompt_tokens: int = 0
    _earlier_completion_tokens: int = 0

    def begin_generation(self, node: str, operation: str) -> GenerationRecord:
        """A language model takes up the request, or a part of it."""
        if len(self.generations) == KEPT:
            before = self.generations.pop(0)
            self._earlier_prompt_tokens += before.prompt_tokens
            self._earlier_completion_tokens += before.completion_tokens
            if self.forgets is not None:
                self.forgets(self, before)
        generation = GenerationRecord(node, operation, keeps_texts=self.keeps_texts)
        self.generations.append(generation)
        return generation

    def begin_run(self, graph: str) -> CallTimes:
        """A run of a graph begins, whose calls are to be recorded by what this gives."""
        if len(self.runs) == KEPT:
            del self.runs[0]
        times = CallTimes()
        self.runs.append((graph, times))
        return times

    @property
    def prompt_tokens(self) -> int:
        return self._earlier_prompt_tokens + sum(each.prompt_tokens for each in self.generations)

    @property
    def completion_tokens(self) -> int:
        now = sum(each.completion_tokens for each in self.generations)
        return self._earlier_completion_tokens + now


_CURRENT: Final[ContextVar[RequestRecord | None]] = ContextVar("request_record", default=None)


def current_record() -> RequestRecord | None:
    """The record of the request that this task works on; None where there is none."""
    return _CURRENT.get()


def name_model(model: str) -> None:
    """The current request, if there is one, asks for this model."""
    record = _CURRENT.get()
    if record is not None:
        record.model = model


def note_error(error: str) -> None:
    """The answer of the current request ends with this, although it began well."""
    record = _CURRENT.get()
    if record is not None:
        record.error = error


def note_reason(reason: str) -> None:
    """Why the current request is answered with an error, as the log may have it."""
    record = _CURRENT.get()
    if record is not None:
        record.reason = reason


def set_current_record(record: RequestRecord | None) -> None:
    """From now on this task, and those that it starts, work on this request."""
    _CURRENT.set(record)
