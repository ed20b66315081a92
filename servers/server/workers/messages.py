"""The protocol between the supervisor of a server and its workers, encoded as MessagePack.

::

    supervisor -> worker   Begin, then Perform, Peers, Look, Outcome
    worker -> supervisor   Loaded, State at every change, Ask, Outcome
    both                   messages about shared children

Either side asks by a number of its own choice, and the `Outcome` has the same number.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from calculators.kit.child_process.shared_child import (
    KillShared,
    Release,
    SharedGone,
    SharedPhase,
    SharedUp,
    Want,
)


class Action(StrEnum):
    """An action of all workers.

    Attributes:
        RELOAD, LOAD, UNLOAD: calls of the data plane.
        METRICS: write the text of the worker's own metrics.
        SETTLE: nothing; the answer says that all earlier messages have been handled.
    """

    RELOAD = "reload"
    LOAD = "load"
    UNLOAD = "unload"
    METRICS = "metrics"
    SETTLE = "settle"


class BeginWork(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """The first message to a worker.

    Attributes:
        words: the words of the command line.
        number: the worker's number, from 1.
        workers: the number of workers.
        http_port, grpc_port: 0 if the server does not listen so.
        replaces: another worker had this number, so this one listens when it has loaded.
        unloaded: models that operators have unloaded.
    """

    words: list[str]
    number: int
    workers: int
    http_port: int
    grpc_port: int
    replaces: bool
    unloaded: list[str]


class Loaded(msgspec.Struct, frozen=True, tag="loaded", array_like=True):
    """Everything is loaded or has failed, and the worker listens. ``report`` is for people."""

    report: str = ""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One line of a repository's index."""

    name: str
    version: str
    state: str
    reason: str


class State(msgspec.Struct, frozen=True, tag="state", array_like=True):
    """The state of one worker, as `servers.contract.data_plane.DataPlane` gives it."""

    is_ready: bool
    index: list[Entry]
    statuses: dict[str, Any]


class Peers(msgspec.Struct, frozen=True, tag="peers", array_like=True):
    """The states of the other workers that listen."""

    states: list[State]


class Look(msgspec.Struct, frozen=True, tag="look", array_like=True):
    """Look for changed files now."""


class AskWorker(msgspec.Struct, frozen=True, tag="ask", array_like=True):
    """Let all workers do an action."""

    number: int
    action: Action
    model: str = ""


class Perform(msgspec.Struct, frozen=True, tag="perform", array_like=True):
    """Do an action."""

    number: int
    action: Action
    model: str = ""


class WorkerFailure(msgspec.Struct, frozen=True, array_like=True):
    """An error of the data plane. ``code`` names a `graph_runtime.Code`.

    Attributes:
        reloaded, failed: as in a `ReloadError`; None for another error.
    """

    message: str
    code: str
    reloaded: list[str] | None = None
    failed: dict[str, str] | None = None


class Outcome(msgspec.Struct, frozen=True, tag="outcome", array_like=True):
    """The end of an action: a failure, or whether it has changed anything, or a text."""

    number: int
    has_changed: bool = False
    failure: WorkerFailure | None = None
    text: str = ""


ToWorker = BeginWork | Perform | Peers | Look | Outcome | SharedPhase | SharedUp | SharedGone
FromWorker = Loaded | State | AskWorker | Outcome | Want | Release | KillShared

to_worker_decoder: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(ToWorker)
from_worker_decoder: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(FromWorker)


class WorkerAsked:
    """The questions of one end by their numbers. Belongs to one event loop."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}

    async def ask(self, send: Callable[[int], None]) -> Outcome:
        """Return the answer; ``send`` sends the question with its number.

        Raises:
            Exception: that of `fail`.
        """
        number = next(self._numbers)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            send(number)
            return await answer
        finally:
            del self._waiting[number]

    def answer(self, outcome: Outcome) -> None:
        """Take an answer. It is ignored if its question has no waiter any more."""
        waiting = self._waiting.get(outcome.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """End all questions: the other end is gone."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
