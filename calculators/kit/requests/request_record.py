"""The record of a request, which becomes its line in the log, its spans and its metrics.

A front begins a record and makes it the current one of its task. Calculators find it there, or in
the `HttpPayload`, and write into it. It costs a few assignments, so every request has one. Times
are of ``time.perf_counter_ns``; 0 means "not reached".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import Struct, field

from calculators.kit.requests.client_identity import UNKNOWN_CLIENT, ClientIdentity
from calculators.kit.requests.unknown_members import UnknownMembers

if TYPE_CHECKING:
    from graph_runtime.observe.call_times import CallTimes

# Records of requests that have ended are kept for the page, whatever a client calls a model. No
# model's name is longer.
_LONGEST_MODEL = 256


#: Warnings of one request: a body may have any number of unknown members.
MOST_WARNINGS: Final = 8
#: Number of generations and runs that a record keeps: a stream may have any number.
KEPT: Final = 64
_PLACE: Final = re.compile(r"\[\d+\]")


class TokenCount(Protocol):
    """A choice of an answer that is being generated."""

    @property
    def completion_tokens(self) -> int:
        """The number of its tokens so far."""


class GenerationRecord(Struct):
    """One generation of a language model: a node may make several for one stream of requests.

    Attributes:
        node: the node's name.
        operation: the endpoint, "chat/completions".
        began: the request reached the node.
        submitted: the engine got its prompts.
        first_token: the first tokens came back, after the wait in the engine and the prompt's pass.
        ended: the last tokens came, or the request was abandoned.
        prompt_tokens, completion_tokens: sums over all choices, once it has ended.
        shared_tokens: tokens of the prompts with which earlier requests began too, so that they may
            not have been computed again; an estimate, and 0 without prefix caching.
        choices: the choices until then.
        finish_reasons: one per choice that has ended, in the order of their ends.
        max_tokens: the requested limit, or None.
        keeps_texts: True if prompts and answers are kept for the log.
        prompts, answers: the texts that the model got and wrote, if they are kept.
    """

    node: str
    operation: str
    began: int = field(default_factory=perf_counter_ns)
    submitted: int = 0
    first_token: int = 0
    ended: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    shared_tokens: int = 0
    finish_reasons: list[str] = []
    max_tokens: int | None = None
    keeps_texts: bool = False
    prompts: list[str] = []
    answers: list[str] = []
    choices: Sequence[TokenCount] = ()

    @property
    def tokens_so_far(self) -> int:
        """The number of generated tokens; of choices that are generated once, each counts once."""
        return self.completion_tokens or sum(each.completion_tokens for each in self.choices)


class ToolCallRecord(Struct):
    """One call of a tool that this server ran.

    Attributes:
        node: the node's name.
        server: the label of the server that has the tool.
        arguments: the text that the model wrote, if texts are kept; else "".
        ended: 0 if the call was given up.
        output_bytes: the length of the result that the model got.
        error: True if the call failed.
        exceeded: the bound of the node because of which the call was not made; "" if it was.
    """

    node: str
    name: str
    server: str
    arguments: str = ""
    began: int = field(default_factory=perf_counter_ns)
    ended: int = 0
    output_bytes: int = 0
    error: bool = False
    exceeded: str = ""

    def end(self, output_bytes: int, error: bool) -> None:
        """Note the end of the call."""
        self.ended = perf_counter_ns()
        self.output_bytes = output_bytes
        self.error = error


class RouteTaken(NamedTuple):
    """A choice of a model for a request, or for a part of it.

    Attributes:
        name: the route's or model's name in the graph.
        why: the rule, or the failure of the model before it.
        passed_over: names of routes that would have taken the request and could not.
        time: of the choice.
    """

    name: str
    why: str
    passed_over: tuple[str, ...]
    time: int


class RequestRecord(Struct, eq=False):
    """One request of a client, or one stream of requests over gRPC.

    Attributes:
        request_id: safe to repeat anywhere.
        client: its sender; all unknown senders are one.
        model: the name that the client gave, unchecked; "" if it gave none.
        began: when the request's headers were complete.
        error: a word for the error that ended the answer after its status was sent, or "".
        reason: why it was refused or failed, without anything that the client sent; "" if it was
            not, or the reason is unknown.
        keeps_texts: True if prompts and answers are to be kept for the log.
        trace: the tracer's state, or None; if set, the calls of nodes are recorded too.
        trace_id: 32 hexadecimal digits if the request is traced, else "".
        generations: generations of language models, in the order of their start; the last `KEPT`.
        unknown_members: the rule for members of its body that no endpoint knows.
        warnings: texts for the client about a request that is answered all the same; at most
            `MOST_WARNINGS`.
        tool_calls: calls of tools that this server ran; the last `KEPT`.
        forgets: called with a generation that is dropped from ``generations``.
        routes: choices of models by routers and fall-backs; the last `KEPT`.
        waits_for: returns the names of the nodes whose calls have not returned; none before and
            after a run.
        deadline: when the front ends it, in seconds of ``time.monotonic()``; None: it does not.
        runs: runs of graphs, with their names, if the request is traced; the last `KEPT`.
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
    generations: list[GenerationRecord] = []
    runs: list[tuple[str, CallTimes]] = []
    tool_calls: list[ToolCallRecord] = []
    routes: list[RouteTaken] = []
    unknown_members: UnknownMembers = UnknownMembers.WARN
    warnings: tuple[str, ...] = ()
    forgets: Callable[[RequestRecord, GenerationRecord], None] | None = None
    waits_for: Callable[[], Sequence[str]] = tuple
    deadline: float | None = None
    _earlier_prompt_tokens: int = 0
    _earlier_completion_tokens: int = 0

    def unanswered(self, text: str) -> str:
        """Return the text of an exceeded time limit, with the nodes that the request waits for."""
        names = ", ".join(f'"{name}"' for name in self.waits_for())
        if not names:
            return text
        who = f"nodes {names} have" if "," in names else f"node {names} has"
        return f"{text}: {who} not returned"

    def has_warned_of(self, beginning: str) -> bool:
        """Return True if a warning begins so, perhaps with other places in lists."""
        if not self.warnings:
            return False
        wanted = self.without_places(beginning)
        return any(self.without_places(each).startswith(wanted) for each in self.warnings)

    @staticmethod
    def without_places(text: str) -> str:
        """Return a warning without places in lists: one is like that of another place."""
        return _PLACE.sub("[]", text)

    def begin_generation(self, node: str, operation: str) -> GenerationRecord:
        """Add a generation: a language model begins the request, or a part of it."""
        if len(self.generations) == KEPT:
            before = self.generations.pop(0)
            self._earlier_prompt_tokens += before.prompt_tokens
            self._earlier_completion_tokens += before.completion_tokens
            if self.forgets is not None:
                self.forgets(self, before)
        generation = GenerationRecord(node, operation, keeps_texts=self.keeps_texts)
        self.generations.append(generation)
        return generation

    def begin_tool_call(self, node: str, name: str, server: str, arguments: str) -> ToolCallRecord:
        """Add a call of a tool; ``arguments`` are kept only if the record keeps texts."""
        if len(self.tool_calls) == KEPT:
            del self.tool_calls[0]
        call = ToolCallRecord(node, name, server, arguments if self.keeps_texts else "")
        self.tool_calls.append(call)
        return call

    def note_route(self, name: str, why: str, passed_over: tuple[str, ...] = ()) -> None:
        """Add a choice of a model."""
        if len(self.routes) == KEPT:
            del self.routes[0]
        self.routes.append(RouteTaken(name, why, passed_over, perf_counter_ns()))

    def begin_run(self, graph: str) -> CallTimes:
        """Add a run of a graph; returns the recorder of its calls."""
        if len(self.runs) == KEPT:
            del self.runs[0]
        # Imported here: processes of models and handlers import this module and run no graphs.
        from graph_runtime.observe.call_times import CallTimes

        times = CallTimes()
        self.runs.append((graph, times))
        return times

    @property
    def prompt_tokens(self) -> int:
        """The number of prompt tokens of all generations so far."""
        return self._earlier_prompt_tokens + sum(each.prompt_tokens for each in self.generations)

    @property
    def shared_tokens(self) -> int:
        """The number of shared prompt tokens of the generations that are kept."""
        return sum(each.shared_tokens for each in self.generations)

    @property
    def completion_tokens(self) -> int:
        """The number of generated tokens of all generations so far."""
        now = sum(each.completion_tokens for each in self.generations)
        return self._earlier_completion_tokens + now


_CURRENT: Final[ContextVar[RequestRecord | None]] = ContextVar("request_record", default=None)


#: Returns the record of the request that this task works on, or None.
current_record: Final[Callable[[], RequestRecord | None]] = _CURRENT.get
#: Makes a record the current one of this task and of the tasks that it starts.
set_current_record: Final[Callable[[RequestRecord | None], object]] = _CURRENT.set


def name_model(model: str) -> None:
    """Note the model that the current request names, if there is a request."""
    record = _CURRENT.get()
    if record is not None:
        record.model = model[:_LONGEST_MODEL]


def note_error(error: str) -> None:
    """Note the error that ends the current answer after a good status was sent."""
    record = _CURRENT.get()
    if record is not None:
        record.error = error


def note_reason(reason: str) -> None:
    """Note for the log why the current request is answered with an error."""
    record = _CURRENT.get()
    if record is not None:
        record.reason = reason
