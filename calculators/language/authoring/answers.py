"""`answers`: a function that answers requests becomes a calculator, in place of a model."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, get_args

from msgspec import structs

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import set_current_record
from calculators.language.authoring.functions import (
    check_generator,
    closable,
    make_calculator,
    option_values,
    options_of,
)
from calculators.language.delta import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Finished,
    FinishReason,
    Gained,
    Submitted,
    Usage,
    delta_problem,
    event_problem,
    refusal_deltas,
    usage_sum,
)
from calculators.language.events import Arguments, Content, Event, Reasoning, Refused, ToolCall
from calculators.language.generation_request import GenerationRequest, Refusal, text_of_content
from calculators.language.mistakes import AuthorMistake, named
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Out
from graphrt_base.interrupts import contained, is_being_cancelled

log = logging.getLogger(__name__)

P = ParamSpec("P")
_DELTAS = get_args(Delta)
_UNUSED = Usage(0, 0)


def answers(
    function: Callable[Concatenate[GenerationRequest, P], AsyncIterator[Any]], /
) -> type[Calculator]:
    """Make a calculator of an async generator that answers requests.

    ::

        @answers
        async def parrot(request: GenerationRequest) -> AsyncIterator[str]:
            for word in request.last_text().split():
                yield word + " "

    The calculator has the function's name, and the ports ``REQUEST`` in and ``DELTAS`` out. What is
    yielded is sent at once: texts and events (`ToolCall`, ...) for every choice of the answer, or
    items of `Deltas`. `Begun`, `Finished` and `Ended` are added where they are not yielded: a
    choice that has called a tool ends with "tool_calls", any other with "stop", and the usage
    counts words, as there are no tokens.
    For a completion of several prompts the function is called for each prompt, one after the other,
    with a request that has only this prompt.
    `Refusal` and `RequestError` may be raised; another exception ends the answer with an error that
    names the node.

    Parameters beside the request are options, as in `on_text`.

    Raises:
        AuthorError: the function is not an async generator.
    """
    check_generator(function, "answers")
    return make_calculator(function, AnsweringFunction, options_of(function))


class AnsweringFunction(Calculator):
    """Answers requests by an async generator. Subclasses are made by `answers`."""

    requests = In[GenerationRequest]("REQUEST", multiple=True)
    deltas = Out[Deltas]("DELTAS")
    timestamp_offset = None
    function: Callable[..., AsyncIterator[Any]]

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._node = cc.node_name
        self._function = partial(self.function, **option_values(self))
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        for request in cc.get_all(self.requests):
            if request is None:
                continue
            if request.refusal is not None:
                refusal = request.refusal
                self._send(cc, refusal_deltas(request, refusal.text, refusal.category))
                continue
            set_current_record(request.record)
            answer = (
                _Answers(request, self._node)
                if len(request.prompts) > 1
                else _FunctionAnswer(request, self._node)
            )
            self._send(cc, Deltas((Submitted(answer.stop, self._node),)))
            async with contextlib.aclosing(closable(answer.packets(self._function))) as packets:
                async for packet in packets:
                    if not request.client.is_writable:
                        await request.client.writable()
                    self._send(cc, packet)

    def _send(self, cc: CalculatorContext, packet: Deltas) -> None:
        cc.emit(self.deltas, packet, at=self._time)
        cc.flush()
        self._time = max(time.monotonic_ns() // 1000, self._time + 1)


class _FunctionAnswer:
    """One answer of a function."""

    def __init__(self, request: GenerationRequest, node: str) -> None:
        self._request = request
        self._node = node
        self._open: set[int] | None = None
        #: The choices that have called a tool.
        self._called: set[int] = set()
        self._words = 0
        self._is_done = False
        self._is_stopped = False
        self._is_running = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    def stop(self) -> None:
        """End the function; the next items are the end of the answer."""
        if not self._is_stopped and not self._is_done:
            self._is_stopped = True
            # Another thread may call this, in runs without an event loop.
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        # A task that is cancelled before its first step would not say that it has ended.
        if self._task is not None and self._is_running:
            self._task.cancel()

    async def packets(
        self, function: Callable[[GenerationRequest], AsyncIterator[Any]]
    ) -> AsyncIterator[Deltas]:
        """Yield the packets of the answer."""
        # A task of its own, which `stop` can cancel. One piece at a time: a slow client slows it.
        said: asyncio.Queue[Any] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._run(function, said))
        try:
            while (piece := await said.get()) is not _END:
                items = self._items(piece)
                if items:
                    yield Deltas(items)
                if self._is_done:
                    return
            yield Deltas(self._end())
        finally:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(
        self,
        function: Callable[[GenerationRequest], AsyncIterator[Any]],
        said: asyncio.Queue[Any],
    ) -> None:
        self._is_running = True
        try:
            if not self._is_stopped:
                async with contextlib.aclosing(closable(function(self._request))) as pieces:
                    async for piece in pieces:
                        if problem := _piece_problem(piece):
                            # Thrown in there, so that the traceback ends at the author's own
                            # ``yield``.
                            await pieces.athrow(AuthorMistake(problem))
                        await said.put(piece)
        except asyncio.CancelledError as error:
            if not self._is_stopped:
                if is_being_cancelled():
                    raise
                self._error = contained(error)
        except BaseException as error:
            self._error = contained(error)
        await said.put(_END)

    def _items(self, piece: Any) -> list[Delta]:
        """Return the items for what the function has yielded."""
        items: list[Delta] = []
        given = piece if isinstance(piece, Deltas) else (piece,)
        for each in given:
            if isinstance(each, str):
                if each:
                    self._gain(Content(each), items)
            elif isinstance(each, Begun):
                if self._open is None:
                    self._open = set(range(each.choices))
                    items.append(each)
            elif isinstance(each, Submitted):
                continue
            elif isinstance(each, Failed):
                self._is_done = True
                items.append(each)
            elif isinstance(each, Ended):
                items += self._finish(FinishReason.STOP)
                items.append(each)
                self._is_done = True
            elif isinstance(each, _DELTAS):
                items += self._begin()
                if isinstance(each, Finished) and self._open is not None:
                    self._open.discard(each.choice)
                elif isinstance(each, Gained):
                    self._count(each)
                items.append(each)
            else:
                self._gain(each, items)
            if self._is_done:
                break
        return items

    def _gain(self, event: Any, items: list[Delta]) -> None:
        items += self._begin()
        for choice in sorted(self._open or ()):
            gained = Gained(choice, (event,))
            self._count(gained)
            items.append(gained)

    def _count(self, gained: Gained) -> None:
        for event in gained.events:
            if isinstance(event, ToolCall):
                self._called.add(gained.choice)
                self._words += 1
            elif isinstance(event, Content | Reasoning | Arguments):
                self._words += _words(event.text)

    @property
    def _usage(self) -> Usage:
        request = self._request
        texts = [text_of_content(each.get("content")) for each in request.messages]
        prompts = [_words(each) if isinstance(each, str) else len(each) for each in request.prompts]
        return Usage(sum(map(_words, texts)) + sum(prompts), self._words)

    def _begin(self) -> list[Delta]:
        if self._open is not None:
            return []
        request = self._request
        self._open = set(range(request.choices))
        return [
            Begun(
                request.choices,
                structs.replace(self._usage, completion_tokens=0),
                request,
                request.answer_model,
                sources=request.sources,
                stop=self.stop,
            )
        ]

    def _finish(self, reason: FinishReason) -> list[Delta]:
        items = self._begin()
        for choice in sorted(self._open or ()):
            has_called = reason is FinishReason.STOP and choice in self._called
            items.append(Finished(choice, FinishReason.TOOL_CALLS if has_called else reason))
        self._open = set()
        return items

    def _end(self) -> list[Delta]:
        """Return the items of the end, when the function has returned, raised or been stopped."""
        self._is_done = True
        error, self._error = self._error, None  # it leads back here
        match error:
            case None:
                return [*self._finish(FinishReason.STOP), Ended(self._usage)]
            case Refusal():
                items = self._begin()
                refused = Refused(error.text, error.category)
                for choice in sorted(self._open or ()):
                    items.append(Gained(choice, (refused,)))
                return [*items, *self._finish(FinishReason.CONTENT_FILTER), Ended(self._usage)]
            case RequestError():
                return [Failed(error.with_traceback(None), self._request)]
            case _:
                pass
        log.error('node "%s" failed', self._node, exc_info=error)
        return [self._failed()]

    def _failed(self) -> Failed:
        error = RequestError(f'node "{self._node}" failed', code=Code.INTERNAL)
        return Failed(error, self._request)


def _piece_problem(piece: object) -> str:
    """Return what is wrong with what a function has yielded; "" if nothing is."""
    if isinstance(piece, str | Deltas):
        return ""
    if isinstance(piece, _DELTAS):
        return delta_problem(piece)
    if isinstance(piece, get_args(Event)):
        return event_problem(piece)
    return f'it yields {named(piece)}, no text: `yield "a piece of the answer"`, or an event'


class _Answers:
    """The answers of a function to each prompt of a completion, as one answer."""

    def __init__(self, request: GenerationRequest, node: str) -> None:
        self._request = request
        self._parts = [
            _FunctionAnswer(replace(request, prompts=(prompt,)), node) for prompt in request.prompts
        ]
        self._has_begun = False
        self._usage = _UNUSED

    def stop(self) -> None:
        """End the function, for all prompts."""
        for part in self._parts:
            part.stop()

    async def packets(
        self, function: Callable[[GenerationRequest], AsyncIterator[Any]]
    ) -> AsyncIterator[Deltas]:
        """Yield the packets of the answer."""
        for place, part in enumerate(self._parts):
            async with contextlib.aclosing(closable(part.packets(function))) as packets:
                async for packet in packets:
                    moved = [each for item in packet for each in self._moved(item, place)]
                    if moved:
                        yield Deltas(moved)
                    if moved and isinstance(moved[-1], Failed):
                        return
        yield Deltas((Ended(self._usage),))

    def _moved(self, item: Delta, place: int) -> Sequence[Delta]:
        """Return an item of the answer to one prompt as one of all."""
        match item:
            case Begun():
                if self._has_begun:
                    return ()
                self._has_begun = True
                whole = structs.replace(
                    item, choices=self._request.choices, request=self._request, stop=self.stop
                )
                return (whole,)
            case Ended(usage):
                self._usage = usage_sum(self._usage, usage)
                return ()
            case Failed():
                return (structs.replace(item, request=self._request),)
            case Submitted():
                return (item,)
            case _:
                return (structs.replace(item, choice=item.choice + place * self._request.n),)


def _words(text: str) -> int:
    """Return the number of words; a piece that has any text counts as one."""
    return max(len(text.split()), bool(text))


_END = object()
