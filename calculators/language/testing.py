"""Pieces for tests of nodes on deltas: answers without an engine, and a model that says its lines.

::

    def test_foo_is_masked() -> None:
        runner = CalculatorRunner(redact)
        runner.push("DELTAS", deltas("a fo", "o b", finish="stop"))
        runner.run()
        assert text_of(runner.outputs["DELTAS"]) == "a bar b"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Usage,
    nothing,
)
from calculators.language.events import (
    Arguments,
    CallDone,
    Content,
    Event,
    Reasoning,
    Refused,
    SpeechSamples,
    ToolCall,
    is_object,
)
from calculators.language.generation_request import Api, GenerationRequest, text_of_content
from graph_runtime import Code, Packet

#: A part of an answer: a text, an event, or several events together.
Piece: TypeAlias = str | Event | Sequence[Event]


def request_for(text: str = "Hello", *, api: Api = Api.CHAT, **fields: Any) -> GenerationRequest:
    """Return a request with one message of the user, or with one prompt for completions.

    ``fields``: of `GenerationRequest`, in place of those.
    """
    if api is Api.COMPLETIONS:
        made: dict[str, Any] = {"prompts": (text,)}
    else:
        made = {"messages": ({"role": "user", "content": text},)}
    return GenerationRequest(**{"api": api, "model": "test", "id": "test", **made, **fields})


def call(
    name: str, arguments: Mapping[str, Any] | str, call_id: str = "call00001"
) -> tuple[Event, ...]:
    """Return the events of a call of a tool. Arguments as a text are taken as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return (ToolCall(name, call_id), Arguments(text), CallDone(text, is_object(text)))


def deltas(
    *pieces: Piece,
    finish: FinishReason | str | None = "stop",
    begins: bool = True,
    choice: int = 0,
    choices: int = 1,
    request: GenerationRequest | None = None,
    stop: Callable[[], None] = nothing,
) -> Deltas:
    """Return one packet with an answer, or with a part of one: each piece is a `Gained`.

    Args:
        finish: the reason at the end of the choice, and `Ended`; None: more is to follow.
        begins: put `Begun` before the pieces.
        choice: the choice that gets the pieces. The other ones of ``choices`` stay open, so
            ``finish`` is for answers of one choice.
        request: in `Begun`; `request_for` makes one.
        stop: of `Begun`.
    """
    items: list[Delta] = []
    if begins:
        items.append(Begun(choices, Usage(1, 0), request or request_for(n=choices), stop=stop))
    items += [Gained(choice, _events(piece)) for piece in pieces]
    if finish is not None:
        items.append(Finished(choice, FinishReason(finish)))
        items.append(Ended(Usage(1, len(pieces))))
    return Deltas(items)


def delta_packets(
    *pieces: Piece,
    finish: FinishReason | str | None = "stop",
    request: GenerationRequest | None = None,
    stop: Callable[[], None] = nothing,
) -> list[Deltas]:
    """Return an answer of one choice with a packet for each piece, as a model's turns make it."""
    packets = [
        deltas(piece, finish=None, begins=place == 0, request=request, stop=stop)
        for place, piece in enumerate(pieces)
    ] or [deltas(finish=None, request=request, stop=stop)]
    if finish is not None:
        end = (Finished(0, FinishReason(finish)), Ended(Usage(1, len(pieces))))
        packets[-1] = Deltas((*packets[-1], *end))
    return packets


def items_of(packets: Iterable[Deltas | Packet] | Deltas) -> list[Delta]:
    """Return the items of packets in order: of a `Sink`, a list of `Deltas`, or one `Deltas`."""
    if isinstance(packets, Deltas):
        return list(packets)
    items: list[Delta] = []
    for packet in packets:
        if isinstance(packet, Packet):
            if not packet.is_empty():
                items += packet.payload
        else:
            items += packet
    return items


def events_of(packets: Iterable[Deltas | Packet] | Deltas, choice: int = 0) -> list[Event]:
    """Return the events of a choice, in order."""
    return [
        event
        for item in items_of(packets)
        if isinstance(item, Gained) and item.choice == choice
        for event in item.events
    ]


def text_of(
    packets: Iterable[Deltas | Packet] | Deltas,
    *,
    choice: int = 0,
    kind: Literal["content", "reasoning", "arguments"] = "content",
) -> str:
    """Return the text of a choice that clients join."""
    wanted = {"content": Content, "reasoning": Reasoning, "arguments": Arguments}[kind]
    texts: list[str] = []
    for event in events_of(packets, choice):
        match event:
            case Content(text) | Reasoning(text) | Arguments(text) if type(event) is wanted:
                texts.append(text)
            case _:
                pass
    return "".join(texts)


def every_cut(text: str) -> Iterator[list[str]]:
    """Yield all 2^(n-1) ways to cut a text of n characters into pieces that are not empty."""
    if not text:
        yield []
        return
    for cuts in range(2 ** (len(text) - 1)):
        pieces: list[str] = []
        start = 0
        for place in range(1, len(text)):
            if cuts >> (place - 1) & 1:
                pieces.append(text[start:place])
                start = place
        yield [*pieces, text[start:]]


class FakeModel:
    """A `LanguageModel` that says its lines; see `fake_model`.

    Attributes:
        requests: those that it got, in order.
        stopped: the number of answers that were stopped or cancelled before their end.
        unfinished: may be set, for nodes that look at queues.
        queue: with as many unfinished requests further ones are refused.
        unavailable_reason: a text here makes requests fail with UNAVAILABLE.
    """

    def __init__(
        self,
        answer: Callable[[GenerationRequest], Iterable[Piece]],
        *,
        delay: float,
        fails_after: int | None,
        finish: FinishReason | None,
        error: RequestError | None,
    ) -> None:
        self._answer = answer
        self._delay = delay
        self._fails_after = fails_after
        self._finish = finish
        self._error = error or RequestError("the engine failed", code=Code.UNAVAILABLE)
        self.requests: list[GenerationRequest] = []
        self.stopped = 0
        self.unfinished = 0
        self.queue = 1024
        self.unavailable_reason = ""

    async def generate(self, request: GenerationRequest, node: str) -> FakeAnswer:
        self.requests.append(request)
        if self.unavailable_reason:
            raise RequestError(self.unavailable_reason, code=Code.UNAVAILABLE)
        if self.unfinished >= self.queue:
            raise RequestError(
                f"{self.unfinished} requests are running or waiting; try again later",
                code=Code.RESOURCE_EXHAUSTED,
            )
        pieces = [_events(piece) for piece in self._answer(request)]
        finish = self._finish
        if finish is None:
            has_calls = any(isinstance(event, ToolCall) for piece in pieces for event in piece)
            finish = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        fails_at = None if self._fails_after is None else (self._fails_after, self._error)
        self.unfinished += 1
        return FakeAnswer(self, request, pieces, self._delay, finish, fails_at)


class FakeAnswer:
    """One answer of a `FakeModel`."""

    def __init__(
        self,
        model: FakeModel,
        request: GenerationRequest,
        pieces: Sequence[Sequence[Event]],
        delay: float,
        finish: FinishReason,
        fails_at: tuple[int, RequestError] | None,
    ) -> None:
        self._model = model
        self._request = request
        self._pieces = pieces
        self._delay = delay
        self._finish = finish
        self._fails_at = fails_at
        self._said = 0
        self._has_begun = False
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        words = "".join(text_of_content(each.get("content")) for each in request.messages)
        self._prompt_tokens = len(words.split())
        self.is_finished = False

    async def read(self) -> Deltas:
        await self._wait()
        if self._fails_at is not None and self._said >= self._fails_at[0]:
            self._end()
            return Deltas((Failed(self._fails_at[1], self._request),))
        items: list[Delta] = []
        choices = self._request.choices
        if not self._has_begun:
            self._has_begun = True
            items.append(
                Begun(
                    choices,
                    Usage(self._prompt_tokens, 0),
                    self._request,
                    self._request.answer_model,
                    sources=self._request.sources,
                    stop=self.stop,
                )
            )
        is_stopped = self._stopping.is_set()
        if not is_stopped and self._said < len(self._pieces):
            events = self._pieces[self._said]
            self._said += 1
            items += [Gained(choice, events) for choice in range(choices)]
        fails_next = self._fails_at is not None and self._said >= self._fails_at[0]
        if is_stopped or (self._said == len(self._pieces) and not fails_next):
            reason = FinishReason.STOP if is_stopped else self._finish
            items += [Finished(choice, reason) for choice in range(choices)]
            items.append(Ended(Usage(self._prompt_tokens, self._said * choices)))
            self._end()
        return Deltas(items)

    async def _wait(self) -> None:
        # At least one turn of the loop, as with an engine.
        await asyncio.sleep(0)
        if self._delay:
            try:
                await asyncio.wait_for(self._stopping.wait(), self._delay)
            except TimeoutError:
                return

    def stop(self) -> None:
        if self.is_finished or self._stopping.is_set():
            return
        self._model.stopped += 1
        # Another thread may call this, in runs without an event loop.
        self._loop.call_soon_threadsafe(self._stopping.set)

    def cancel(self) -> None:
        if not self.is_finished:
            if not self._stopping.is_set():
                self._model.stopped += 1
            self._end()

    def _end(self) -> None:
        self.is_finished = True
        self._model.unfinished -= 1


def fake_model(
    *pieces: Piece | Callable[[GenerationRequest], Iterable[Piece]],
    delay: float = 0.0,
    fails_after: int | None = None,
    finish: FinishReason | str | None = None,
    error: RequestError | None = None,
) -> FakeModel:
    """Make a model that answers every request with these pieces, one in each turn.

    It takes the place of the engine in the side packet of a graph's resources::

        graph.start_run({"llm": {"LLMExecutor": fake_model("Hel", "lo")}})

    Args:
        pieces: of the answer; or one function that makes them of a request.
        delay: seconds before each turn.
        fails_after: the number of pieces after which the answer fails; 0: before it begins.
        finish: the reason of the end; by default "tool_calls" after calls, else "stop".
        error: of the failure; by default the engine is unavailable.
    """
    fixed: list[Piece] = []
    make: Callable[[GenerationRequest], Iterable[Piece]] | None = None
    for piece in pieces:
        if callable(piece):
            make = piece
        else:
            fixed.append(piece)
    if make is not None and len(pieces) > 1:
        raise TypeError("fake_model takes pieces, or one function that makes them")
    return FakeModel(
        make or (lambda request: fixed),
        delay=delay,
        fails_after=fails_after,
        finish=None if finish is None else FinishReason(finish),
        error=error,
    )


def _events(piece: Piece) -> tuple[Event, ...]:
    if isinstance(piece, str):
        return (Content(piece),) if piece else ()
    if isinstance(
        piece, Content | Reasoning | ToolCall | Arguments | CallDone | SpeechSamples | Refused
    ):
        return (piece,)
    return tuple(piece)
