"""`on_deltas`: a function over all items of an answer becomes a calculator."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Concatenate, ParamSpec

from calculators.kit.requests.http_payload import RequestError
from calculators.language.authoring.functions import (
    GeneratorRun,
    check_generator,
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
    OrderError,
    Submitted,
    delta_problem,
)
from calculators.language.events import Refused
from calculators.language.generation_request import Refusal
from calculators.language.mistakes import place_of
from graph_runtime import Calculator, CalculatorContext, Code, In, Out

log = logging.getLogger(__name__)

P = ParamSpec("P")


def on_deltas(
    function: Callable[Concatenate[AsyncIterator[Delta], P], AsyncIterator[Delta]], /
) -> type[Calculator]:
    """Make a calculator of an async generator over the items of an answer.

    ::

        @on_deltas
        async def count(deltas: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
            async for item in deltas:
                yield item

    The calculator has the function's name, and the ports ``DELTAS`` in and out. The function is
    called for each answer, and gets its items from `Begun` to `Ended` or `Failed`. What it yields
    until it asks for the next item is sent in the same packet. Returning early ends the answer:
    open choices get `Finished`, and the model is stopped. Exceptions are as in `on_text`; what is
    no item, and an answer without its `Begun` or its end, are errors of the node, too.

    Parameters beside the items are options, as in `on_text`.

    Raises:
        AuthorError: the function is not an async generator.
    """
    check_generator(function, "on_deltas")
    return make_calculator(function, DeltaGenerators, options_of(function))


class DeltaGenerators(Calculator):
    """Changes answers by an async generator. Subclasses are made by `on_deltas`."""

    deltas = In[Deltas]("DELTAS")
    changed = Out[Deltas]("DELTAS")
    function: Callable[..., AsyncIterator[Delta]]

    def open(self, cc: CalculatorContext) -> None:
        self._node = cc.node_name
        self._function: Callable[[AsyncIterator[Delta]], AsyncIterator[Delta]] = partial(
            self.function, **option_values(self)
        )
        self._run: GeneratorRun[Delta, Delta] | None = None
        self._begun: Begun | None = None
        #: The choices that the function has not ended; None before its `Begun`.
        self._open: set[int] | None = None
        #: The function has sent the end of the answer.
        self._has_ended = False
        #: The function has returned; only the end of the model's answer is still passed on.
        self._is_left = False

    async def process(self, cc: CalculatorContext) -> None:
        out: list[Delta] = []
        group: list[Delta] = []
        for item in cc.get(self.deltas):
            match item:
                case Submitted():
                    out.append(item)
                case Begun():
                    await self._end_run()
                    self._begun, self._open = item, None
                    self._has_ended = self._is_left = False
                    self._run = GeneratorRun(self._function, delta_problem)
                    group.append(item)
                case Failed() if self._begun is None:
                    out.append(item)  # nothing has begun, so nobody has seen it
                case _:
                    group.append(item)
        if group:
            await self._feed(group, out)
        if out:
            cc.emit(self.changed, Deltas(out))

    async def close(self, cc: CalculatorContext) -> None:
        await self._end_run()

    async def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.close()

    async def _feed(self, group: list[Delta], out: list[Delta]) -> None:
        ends = isinstance(group[-1], Ended | Failed)
        run = self._run
        if run is not None:
            wrong = self._take(await run.feed(group, ends=ends), out)
            error = run.take_error()
            if wrong is None and error is None and ends and not self._has_ended:
                wrong = OrderError(
                    f"{place_of(self.function)}: it returned without the end of the answer"
                )
            if wrong is not None:
                await run.close()
                error = wrong
            match error:
                case None:
                    if run.is_done and not ends:
                        self._leave(out, FinishReason.STOP)
                case Refusal():
                    self._leave(out, FinishReason.CONTENT_FILTER, error)
                case RequestError():
                    self._fail(error.with_traceback(None), out)
                case _:
                    log.error('node "%s" failed', self._node, exc_info=error)
                    text = f'node "{self._node}" failed'
                    self._fail(RequestError(text, code=Code.INTERNAL), out)
        if self._is_left and ends and not self._has_ended:
            self._has_ended = True
            out.append(group[-1])
        if ends:
            await self._end_run()
            self._begun = None

    def _take(self, items: list[Delta], out: list[Delta]) -> Exception | None:
        """Send what the function has yielded, up to the end of the answer; return what is wrong."""
        for item in items:
            if self._has_ended:
                return None
            kind = type(item).__name__
            match item:
                case Begun(choices):
                    self._open = set(range(choices))
                case Gained() | Finished() | Ended() if self._open is None:
                    return self._wrong(f"yielded {kind} before Begun")
                case Gained(choice) | Finished(choice) if choice not in (self._open or ()):
                    return self._wrong(f"yielded {kind} of choice {choice}, which is not open")
                case Finished(choice):
                    if self._open is not None:
                        self._open.discard(choice)
                case Ended() | Failed():
                    self._has_ended = True
                case _:
                    pass
            out.append(item)
        return None

    def _wrong(self, what: str) -> OrderError:
        return OrderError(f"{place_of(self.function)} {what}")

    def _leave(
        self, out: list[Delta], reason: FinishReason, refusal: Refusal | None = None
    ) -> None:
        """End the choices that are open. The model's own end follows, with its usage."""
        begun = self._begun
        self._run = None
        self._is_left = True
        if begun is None:
            return
        if not self._has_ended:
            if self._open is None:
                out.append(begun)
                self._open = set(range(begun.choices))
            for choice in sorted(self._open):
                if refusal is not None:
                    out.append(Gained(choice, (Refused(refusal.text, refusal.category),)))
                out.append(Finished(choice, reason))
            self._open.clear()
        begun.stop()

    def _fail(self, error: RequestError, out: list[Delta]) -> None:
        begun = self._begun
        self._run = None
        if not self._has_ended:
            self._has_ended = True
            out.append(Failed(error, None if begun is None else begun.request))
        if begun is not None:
            begun.stop()
