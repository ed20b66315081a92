"""`Deltas`: the packets of an answer while it is made, and their items.

One packet has the items of one turn of a model. The items of all packets of an answer are in this
order::

    Submitted*  Begun  (Gained* per choice, Finished per choice)*  Ended
    Submitted*  Failed
    Submitted*  Begun  ...  Failed

and `ToolCalled` and `ToolRan` anywhere after `Begun`. `OrderCheck` checks it.

A `LanguageModel` gives deltas by a `DeltaSource`.

Every reader of a stream gets the same objects, so nothing in them is changed in place: ``events``
are tuples, or lists that are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Protocol, Self, TypeAlias, runtime_checkable

from msgspec import Struct

from calculators.kit.requests.http_payload import RequestError
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    SpeechSamples,
    ToolCall,
)
from calculators.language.generation_request import GenerationRequest, Source
from calculators.language.mistakes import AuthorMistake, named


class Usage(Struct, frozen=True):
    """Counts of tokens: ``completion_tokens`` over all choices, without an echoed prompt.

    Attributes:
        cached_tokens: tokens of the prompt that came out of a cache, by the server's own count, as
            openvino-genai 2026.4 reports none; None is unknown, as without a cache of prompts.
        reasoning_tokens: tokens of the completion that are reasoning; None is unknown, as without a
            reasoning parser.
        heard_tokens: tokens of the prompt that stand for sounds; None: there are no sounds.
        spoken_tokens: tokens of the completion that are sound; None: it is not spoken.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    heard_tokens: int | None = None
    spoken_tokens: int | None = None


def usage_sum(first: Usage, second: Usage) -> Usage:
    """Return the counts of two generations that make one answer. An unknown count adds nothing."""
    return Usage(
        first.prompt_tokens + second.prompt_tokens,
        first.completion_tokens + second.completion_tokens,
        _sum(first.cached_tokens, second.cached_tokens),
        _sum(first.reasoning_tokens, second.reasoning_tokens),
        _sum(first.heard_tokens, second.heard_tokens),
        _sum(first.spoken_tokens, second.spoken_tokens),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token as text and as bytes, with its log-probability.

    The text of a token that is part of a character has U+FFFD. A ``logprob`` above 0, NaN or None
    is unknown, as for the first token of an echoed prompt.
    """

    token: str
    bytes: bytes
    logprob: float | None


class FinishReason(StrEnum):
    """The values that clients know; strict clients refuse any other."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"

    @property
    def is_cut(self) -> bool:
        """True if the answer ended before the model was done."""
        return self in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


def nothing() -> None:
    """Do nothing. The ``stop`` of answers that no model generates."""


class ResolvedSampling(Struct, frozen=True):
    """The sampling of an answer with the defaults of its model, as the responses API shows it.

    Attributes:
        max_tokens: the limit of new tokens; None is the model's length.
        length: the most tokens of prompt and answer together; None: unknown.
    """

    temperature: float
    top_p: float
    max_tokens: int | None = None
    length: int | None = None


class Verbose(Struct, frozen=True):
    """The prompt as the model received it, and its raw text so far, special tokens included."""

    prompt: str
    content: str


class Submitted(Struct, frozen=True):
    """The engine has the request. Nothing is generated yet. Answers do not show it.

    Attributes:
        stop: see `Begun.stop`.
        node: the name of the node whose engine it is.
    """

    stop: Callable[[], None]
    node: str = ""


class Begun(Struct, frozen=True):
    """The first tokens are there. The packet with it has them; until then an error has a status.

    Attributes:
        choices: the number of answers, which are numbered from 0 prompt by prompt.
        usage: counts only the tokens of the prompt, and those only roughly if it has images.
        request: the request that is answered.
        model: the name of the model that answers; "" is the request's.
        fingerprint: changes when the same request may be answered differently.
        sampling: None if unknown.
        sources: passages that the answer may quote.
        prompt_ids: the token ids of each prompt, as 64-bit integers in the machine's byte order;
            None if the request does not ask for them, or if they are unknown.
        prompts: the text of each prompt as the model got it, for APIs whose answers have it.
        stop: ends the generation in the engine, from any node, at any time, any number of times.
            Choices that are open then end with `Finished`, and `Ended` has the usage so far.
    """

    choices: int
    usage: Usage
    request: GenerationRequest
    model: str = ""
    fingerprint: str | None = None
    sampling: ResolvedSampling | None = None
    sources: Sequence[Source] = ()
    prompt_ids: Sequence[bytes] | None = None
    prompts: Sequence[str] = ()
    stop: Callable[[], None] = nothing

    def prompt_of(self, choice: int, prompts: int) -> int:
        """Return which of so many prompts a choice answers: each has as many choices as another."""
        return choice * prompts // self.choices


class Gained(Struct, frozen=True):
    """A group of events of one choice: completions write one event for it, chats one for each.

    The last three members spell the text or count its tokens. A node that changes text drops
    ``logprobs`` and ``token_ids``.

    Attributes:
        events: may be empty, if the tokens of ``logprobs`` or ``token_ids`` made no text yet.
        logprobs: of the tokens that made the group; None unless the request wants them.
        token_ids: the same tokens, if the request returns them.
        usage: the counts so far, if the request has running usage.
    """

    choice: int
    events: Sequence[Event]
    logprobs: Sequence[TokenLogprob] | None = None
    token_ids: Sequence[int] = ()
    usage: Usage | None = None


class Finished(Struct, frozen=True):
    """A choice has ended.

    Attributes:
        stop_string: the stop string of the request that ended it, if one did.
        verbose: prompt and raw text of the first choice so far, if the operator shows them. A node
            that changes text drops it.
    """

    choice: int
    reason: FinishReason
    stop_string: str | None = None
    verbose: Verbose | None = None


class Ended(Struct, frozen=True):
    """The answer has ended: nothing follows.

    Attributes:
        usage: the model's counts, whatever later nodes did to the text.
    """

    usage: Usage


class Failed(Struct, frozen=True):
    """The answer cannot go on: nothing follows.

    Attributes:
        request: the request, for nodes that try another model.
    """

    error: RequestError
    request: GenerationRequest | None = None


class ToolCalled(Struct, frozen=True):
    """The beginning of a tool call by this server; the `ToolRan` of its ``call_id`` follows.

    Answers show both if the request names the server (`GenerationRequest.tool_servers`).

    Attributes:
        server: the label of the server that has the tool.
        arguments: the text of a JSON object, unless the model wrote something else.
    """

    choice: int
    call_id: str
    name: str
    server: str
    arguments: str


class ToolRan(Struct, frozen=True):
    """A call of a tool that this server ran.

    Attributes:
        server: the label of the server that has the tool.
        arguments: the text of a JSON object.
        error: None if it succeeded.
        seconds: the time that it took.
    """

    choice: int
    call_id: str
    name: str
    server: str
    arguments: str
    output: str
    error: str | None
    seconds: float


#: An item of `Deltas`.
Delta: TypeAlias = Submitted | Begun | Gained | Finished | Ended | Failed | ToolCalled | ToolRan


_TEXTS: Final = (Content, Reasoning, Arguments)
_GROUPS: Final = (tuple, list)


class Deltas(tuple[Delta, ...]):
    """One packet on a stream with the tag ``DELTAS``: the items of one turn, in order."""

    __slots__ = ()

    #: For the check of graphs: a stream of these that nobody reads is a mistake, and this
    #: calculator joins branches.
    must_be_read: ClassVar[bool] = True
    joined_by: ClassVar[str] = "FirstAnswerCalculator"

    def __new__(cls, items: Iterable[Delta] = ()) -> Self:
        """Raises `AuthorMistake` for a value that is not an item, or an item with a wrong value."""
        made = super().__new__(cls, items)
        for item in made:
            # The quick way of almost every packet: texts of one choice.
            if type(item) is Gained and type(item.choice) is int and type(item.events) in _GROUPS:
                for event in item.events:
                    if not isinstance(event, _TEXTS) or type(event.text) is not str:
                        break
                else:
                    if item.choice >= 0:
                        continue
            if problem := delta_problem(item):
                raise AuthorMistake(problem)
        return made

    #: For `graph_runtime.testing`: pushed without a timestamp, packets keep their order.
    only_order_counts: ClassVar[bool] = True


def delta_problem(item: object) -> str:
    """Return what is wrong with an item of `Deltas`; "" if nothing is."""
    match item:
        case Gained(choice, events):
            if not _is_choice(choice):
                return f"Gained has {named(choice)} as its choice, which is a number from 0 on"
            if not isinstance(events, tuple | list):
                return f"Gained has {named(events)}, no events: {_GAINED}"
            for event in events:
                if problem := event_problem(event):
                    return problem
            return ""
        case Finished(choice, reason):
            if not _is_choice(choice):
                return f"Finished has {named(choice)} as its choice, which is a number from 0 on"
            if not isinstance(reason, FinishReason):
                return f"Finished has {named(reason)} as its reason: Finished(0, FinishReason.STOP)"
        case Begun(choices, usage, request):
            if not _is_choice(choices) or not choices:
                return f"Begun has {choices!r} choices, which is a number from 1 on"
            both: tuple[object, object] = request, usage
            if not (isinstance(both[0], GenerationRequest) and isinstance(both[1], Usage)):
                return "Begun lacks usage and request: Begun(request.choices, Usage(0, 0), request)"
        case Ended(usage):
            if not isinstance(usage, Usage):
                return f"Ended has {named(usage)}, no usage: Ended(Usage(0, 0))"
        case Failed(error):
            if not isinstance(error, RequestError):
                return f'Failed has {named(error)}, no RequestError: Failed(RequestError("why"))'
        case Submitted() | ToolCalled() | ToolRan():
            return ""
        case (
            str()
            | Content()
            | Reasoning()
            | ToolCall()
            | Arguments()
            | SpeechSamples()
            | Refused()
            | CallDone()
        ):
            return f"{named(item)} stands among the items of Deltas: {_GAINED}"
        case _:
            return f"it yields {named(item)}, no item of Deltas, which are Begun, Gained and more"
    return ""


def event_problem(event: object) -> str:
    """Return what is wrong with an event of `Gained`; "" if nothing is."""
    match event:
        case Content(text) | Reasoning(text) | Arguments(text) | Refused(text):
            if not isinstance(text, str):
                return f"{type(event).__name__} has {named(text)}, no text"
            return ""
        case ToolCall(name, call_id):
            if not all(isinstance(each, str) for each in (name, call_id)):
                return "ToolCall has a name and an id that are texts"
            return ""
        case SpeechSamples(pcm):
            given: object = pcm
            return "" if isinstance(given, bytes) else f"SpeechSamples has {named(given)}, no bytes"
        case CallDone():
            return ""
        case _:
            pass
    return f"{named(event)} stands among the events of Gained: {_GAINED}"


def _is_choice(value: object) -> bool:
    return isinstance(value, int) and value is not True and value is not False and value >= 0


_GAINED: Final = 'Gained(0, (Content("a piece of the answer"),))'


def refusal_deltas(request: GenerationRequest, text: str, category: str | None = None) -> Deltas:
    """Return the whole answer to a request that is refused before anything is generated."""
    choices = request.choices
    unused = Usage(0, 0)
    items: list[Delta] = [Begun(choices, unused, request, sources=request.sources)]
    for choice in range(choices):
        items.append(Gained(choice, (Refused(text, category),)))
        items.append(Finished(choice, FinishReason.CONTENT_FILTER))
    items.append(Ended(unused))
    return Deltas(items)


class OrderError(ValueError):
    """Items of an answer are in an order that no answer has. The text names item and node."""


class OrderCheck:
    """Follows the items of one answer.

    Attributes:
        is_done: the answer has ended or failed.
    """

    def __init__(self, node: str = "") -> None:
        """``node``: the name of the node that sends the items, for errors."""
        self._from = f' of node "{node}"' if node else ""
        self._open: set[int] | None = None
        self.is_done = False

    def feed(self, items: Iterable[Delta]) -> None:
        """Check the next items.

        Raises:
            OrderError: an item cannot stand here.
        """
        for item in items:
            problem = self._problem(item)
            if problem:
                raise OrderError(f"{type(item).__name__}{self._from}: {problem}")

    def finish(self) -> None:
        """Check that the answer is complete.

        Raises:
            OrderError: it is not.
        """
        if not self.is_done:
            raise OrderError(f"the answer{self._from} ended without Ended or Failed")

    def _problem(self, item: Delta) -> str:
        if self.is_done:
            return "the answer has ended"
        match item:
            case Failed():
                self.is_done = True
                return ""
            case Submitted():
                return "it comes after Begun" if self._open is not None else ""
            case Begun(choices):
                if self._open is not None:
                    return "the answer has begun"
                self._open = set(range(choices))
                return ""
            case _:
                return self._problem_inside(item)

    def _problem_inside(self, item: Delta) -> str:
        if self._open is None:
            return "it comes before Begun"
        match item:
            case Ended():
                self.is_done = True
                still = ", ".join(map(str, sorted(self._open)))
                return f"choices {still} have not finished" if still else ""
            case Gained(choice) if choice not in self._open:
                return f"choice {choice} has finished, or does not exist"
            case Finished(choice):
                if choice not in self._open:
                    return f"choice {choice} has finished, or does not exist"
                self._open.discard(choice)
            case _:
                pass
        return ""


class DeltaSource(Protocol):
    """One answer while it is generated. There is one reader."""

    @property
    def is_finished(self) -> bool:
        """True once `read` has returned the end of the answer."""

    async def read(self) -> Deltas:
        """Wait for the next items and return them; empty if they show nothing yet.

        A `calculators.kit.requests.http_payload.RequestError` is returned as
        `calculators.language.delta.Failed`, not raised.
        """

    def stop(self) -> None:
        """End the generation; the next items are its end. Stopping again does nothing."""

    def cancel(self) -> None:
        """End the generation for good: it has no reader any more."""


@runtime_checkable
class LanguageModel(Protocol):
    """A language model, loaded: ``LLM_NODE_RESOURCES`` maps names of nodes to these."""

    @property
    def unfinished(self) -> int:
        """Requests that are running or waiting."""

    @property
    def queue(self) -> int:
        """The number of unfinished requests from which on further ones are refused."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why nothing can be generated now; "" while it can."""

    async def generate(self, request: GenerationRequest, node: str) -> DeltaSource:
        """Check and prompt a request, and submit it to the engine.

        ``node``: the name of the node that asks.

        Raises:
            calculators.kit.requests.http_payload.RequestError: it cannot be answered.
        """
