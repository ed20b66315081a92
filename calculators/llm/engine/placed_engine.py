"""`PlacedEngine`: an engine in a place of its own; `EngineWork` runs there."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.places import Asked, Place, Question, WorkOrder
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import (
    RETRY_AFTER,
    Engine,
    EngineDown,
    EngineGeneration,
    ProcessEngine,
    watch_engine,
)
from calculators.llm.engine.messages import Add, EngineReady, Metrics, NewTokens
from calculators.llm.engine.settings import EngineSettings
from graph_runtime import Code, LoadProgress, NodeMetrics, ResourceError

_log: Final = logging.getLogger("graphrt.llm")

_MAKER: Final = f"{__name__}:make_work"
#: Tokens of an answer without a limit, about.
_EXPECTED_TOKENS: Final = 128


class _AskedParts(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a request; see `Add`."""

    parts: list[Add]


_encode = msgspec.msgpack.Encoder().encode
_asked_decoder: Final = msgspec.msgpack.Decoder(_AskedParts)
#: An answer: tokens, each with the number of its choice.
_gained_decoder: Final = msgspec.msgpack.Decoder(list[tuple[int, NewTokens]])
_settings_decoder: Final = msgspec.msgpack.Decoder(EngineSettings)
_ready_decoder: Final = msgspec.msgpack.Decoder(EngineReady)
#: A note: the number of a choice to be stopped.
_choice_decoder: Final = msgspec.msgpack.Decoder(int)


class PlacedEngine:
    """The asker's side; see `calculators.llm.engine.engine.Engine`. Belongs to one event loop."""

    def __init__(
        self, settings: EngineSettings, place: Place, *, name: str, paths: tuple[Path, ...]
    ) -> None:
        """``name``: the model's, for messages; ``paths``: everything that loading reads."""
        self._order = WorkOrder(_MAKER, _encode(settings), name, tuple(map(str, paths)))
        self._place = place
        self._what = f'engine of "{name}"'
        self._is_closed = False
        self._open: set[_PlacedGeneration] = set()
        self.cache_full = 0

    async def start(self, progress: LoadProgress | None = None) -> EngineReady:
        """Wait until the engine has loaded the model.

        Raises:
            LoadError: the model cannot be loaded; the text says why.
        """
        try:
            ready = await self._place.start(self._order, progress or LoadProgress())
        except ResourceError as error:
            raise LoadError(str(error)) from None
        return _ready_decoder.decode(ready)

    @property
    def pid(self) -> int | None:
        """None: the process is elsewhere."""
        return None

    @property
    def restarts(self) -> int:
        """Always 0, as the place counts them."""
        return 0

    @property
    def unavailable_reason(self) -> str:
        """The reason after `close`; else "", as a request waits for a process, or fails."""
        return f"the {self._what} is shut down" if self._is_closed else ""

    @property
    def metrics(self) -> Metrics:
        """Empty metrics: the place publishes the engine's."""
        return Metrics()

    @property
    def unfinished(self) -> int:
        return sum(request.parts for request in self._open)

    @property
    def running(self) -> int:
        return sum(request.parts for request in self._open if request.has_begun)

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        if self._is_closed:
            raise EngineDown(self.unavailable_reason, retry_after=RETRY_AFTER)
        asked = self._place.ask(
            _encode(_AskedParts(list(parts))), beginning=_beginning(parts), tokens=_tokens(parts)
        )
        request = _PlacedGeneration(asked, parts, self._open.discard)
        self._open.add(request)
        request.task = asyncio.create_task(self._feed(request), name="request to an engine")
        return request.generation

    async def _feed(self, request: _PlacedGeneration) -> None:
        def take(packed: bytes) -> None:
            for choice, tokens in _gained_decoder.decode(packed):
                self.cache_full += tokens.finish_reason == "cache"
                request.take(choice, tokens)

        try:
            await request.asked.answer(take)
        except RequestError as error:
            request.generation.fail(error)
        except Exception:
            _log.exception("a request to an engine failed")
            request.generation.fail(RequestError("internal error", code=Code.INTERNAL))

    async def close(self) -> None:
        self._is_closed = True
        for request in list(self._open):
            request.generation.fail(EngineDown(self.unavailable_reason, retry_after=RETRY_AFTER))
        await self._place.close()


class _PlacedGeneration:
    """A request to the place, and its generation here.

    Attributes:
        parts: the number of its prompts.
        has_begun: tokens have come.
    """

    def __init__(
        self,
        asked: Asked,
        parts: Sequence[Add],
        end: Callable[[_PlacedGeneration], object],
    ) -> None:
        """``end``: called when every choice has ended or is stopped, once or more often."""
        self.asked = asked
        self.parts = len(parts)
        self.has_begun = False
        self.task: asyncio.Task[None] | None = None
        self._end = end
        choices = sum(part.settings.num_return_sequences for part in parts)
        self._running = set(range(choices))
        self.generation = EngineGeneration(choices, self._cancel)

    def take(self, choice: int, tokens: NewTokens) -> None:
        self.has_begun = True
        if choice not in self._running:
            return  # it was stopped meanwhile
        if tokens.finish_reason is not None:
            self._running.discard(choice)
            if not self._running:
                self._end(self)
        self.generation.feed(choice, tokens)

    def _cancel(self, choice: int | None) -> None:
        if choice is None:
            self._running.clear()
        else:
            self._running.discard(choice)
        if self._running and choice is not None:
            self.asked.note(_encode(choice))
            return
        self._end(self)
        if self.task is not None:
            self.task.cancel()


def _beginning(parts: Sequence[Add]) -> str:
    """Return the first prompt as characters, four for a token."""
    first = parts[0]
    if first.text:
        return first.text
    return array("i", memoryview(first.input_ids).cast("q")).tobytes().decode("latin-1")


def _tokens(parts: Sequence[Add]) -> float:
    answers = (part.settings.max_new_tokens or _EXPECTED_TOKENS for part in parts)
    return len(parts[0].input_ids) / 8 + sum(min(each, _EXPECTED_TOKENS) for each in answers)


class EngineWork:
    """A `calculators.kit.places.Work`: an engine in a child process of this one."""

    def __init__(
        self, engine: Engine, load: Callable[[LoadProgress], Awaitable[EngineReady]]
    ) -> None:
        """``load``: loads the model into ``engine``."""
        self._engine = engine
        self._load = load

    async def start(self, progress: LoadProgress) -> bytes:
        """See `Work.start`."""
        try:
            return _encode(await self._load(progress))
        except LoadError as error:
            raise ResourceError(str(error)) from None

    async def answer(self, question: Question) -> None:
        """See `Work.answer`."""
        generation = self._engine.submit(_asked_decoder.decode(question.body).parts)
        question.on_note = lambda note: generation.cancel_choice(_choice_decoder.decode(note))
        try:
            while not generation.is_finished:
                question.emit(_encode(await generation.read()))
        finally:
            generation.cancel()

    async def close(self) -> None:
        """End the process."""
        await self._engine.close()


def make_work(arguments: bytes, *, name: str, metrics: NodeMetrics) -> EngineWork:
    """Make the work of an order of `PlacedEngine`; its metrics last as long as the process."""
    engine = ProcessEngine(_settings_decoder.decode(arguments), name=name)
    watch_engine(metrics, engine)
    return EngineWork(engine, engine.start)
