"""`GrammarChecker`: the server's side of the grammar processes of one model."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from calculators.kit.child_process.fair_turns import FairTurns, TooManyWaiting
from calculators.kit.machine import usable_processors
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import leave_out
from calculators.kit.requests.request_record import current_record
from calculators.llm.grammar_process.messages import (
    GrammarAccepted,
    GrammarCheck,
    GrammarLoad,
    GrammarPostponed,
    GrammarRefused,
)
from calculators.llm.grammar_process.worker import GrammarWorker, shut_down, too_complex
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from graph_runtime import Code

#: Processor time for one form, and more for large vocabularies (`SECONDS_PER_TOKEN`). A form that
#: takes longer would also slow down the engine's other answers.
SECONDS: Final = 0.9
#: Wall time: a process that computes nothing for so long was stopped, or hangs.
HANG_SECONDS: Final = 5.0
#: Bytes by which a process may grow after loading.
MEMORY: Final = 2 * 1024**3
#: Forms that may wait in each of the two queues; of more, the dearest is refused for now.
MAX_WAITING: Final = 64
#: Processes of one model, started one by one as needed.
MAX_PROCESSES: Final = 4
#: Idle time after which a process ends; one process stays.
IDLE_SECONDS: Final = 60.0

#: The budgets of a form in the first process, one after the other: processor time to make its
#: grammar, and the length up to which a grammar is tried. A schema of ten properties takes 3 ms and
#: has 4,500 characters, and twice that where a model may think first.
FIRST_STEPS: Final = ((0.012, 6_000), (0.06, 24_000))
#: Characters of a form; a longer one skips the first process.
_FIRST_FORM: Final = 64 * 1024
#: Expected cost of a form in seconds: per character of the form, per character of its grammar, and
#: where the grammar is unknown.
_PER_CHARACTER: Final = 1e-5
_PER_GRAMMAR_CHARACTER: Final = 3e-6
_UNKNOWN: Final = 0.5

#: Bounds of the memory of earlier checks: their number, and their characters in all.
REMEMBERED: Final = 256
_REMEMBERED_SIZE: Final = 8 * 1024**2


class Grammars(Protocol):
    """Makes and proves grammars; see `GrammarChecker`."""

    async def check(self, form: AnswerForm, param: str) -> Grammar: ...

    async def close(self) -> None: ...


class _Checking:
    """A form that is being checked.

    Attributes:
        waiting: the number of callers that wait for it.
        has_begun: a process works on it. Then it is finished and remembered.
    """

    __slots__ = ("has_begun", "task", "waiting")

    def __init__(self) -> None:
        self.task: asyncio.Task[GrammarAccepted | GrammarRefused] | None = None
        self.waiting = 0
        self.has_begun = False


class GrammarChecker:
    """Turns forms into grammars that the engine can be given.

    The outcome of a form is remembered, unless a failure was not the form's fault. Callers that ask
    for the same form at the same time share one check. A form that no caller waits for any more is
    not begun.

    A form first gets a few milliseconds of a process that does nothing else, and some more if it
    needs them: enough for most. The others queue up for the other processes, where a form has
    `SECONDS`. So a simple form never waits for hard ones of any client. In both queues clients take
    turns, and of one client's forms the cheapest come first.
    """

    def __init__(
        self,
        model_path: str,
        *,
        name: str,
        seconds: float = SECONDS,
        hang_seconds: float = HANG_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """``name``: the served model's, for messages; the times: see `GrammarWorker`."""
        load = GrammarLoad(model_path, MEMORY)

        def worker(*, stays: bool) -> GrammarWorker:
            return GrammarWorker(
                load,
                name=name,
                seconds=seconds,
                hang_seconds=hang_seconds,
                idle_seconds=idle_seconds,
                stays=stays,
            )

        # One process makes only first tries. With one queue for all, 69 regular expressions of 1 kB
        # kept a schema of one property waiting for 50 s (decision 0014).
        others = min(MAX_PROCESSES, max(2, usable_processors() // 2)) - 1
        self._seconds = seconds
        self._first = worker(stays=True)
        self._first_turns = FairTurns(1, MAX_WAITING)
        #: Idle processes, the one that was used last at the end.
        self._free = [worker(stays=False) for _ in range(others)]
        self._long_turns = FairTurns(others, MAX_WAITING)
        self._workers = (self._first, *self._free)
        self._known: OrderedDict[AnswerForm, GrammarAccepted | GrammarRefused] = OrderedDict()
        self._known_size = 0
        self._checks: dict[AnswerForm, _Checking] = {}
        self._is_closed = False
        #: The number of checks that were given to a process.
        self.asked = 0

    @property
    def pid(self) -> int | None:
        """The id of the process that forms go to first, while there is one."""
        return self._first.pid

    @property
    def pids(self) -> list[int]:
        """The ids of all processes."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    async def check(self, form: AnswerForm, param: str) -> Grammar:
        """Return the grammar of a form. The request's record gets what it does not enforce.

        Args:
            param: the member of the request that asks for the form, for errors.

        Raises:
            RequestError: the form cannot be honoured; RESOURCE_EXHAUSTED: too many are being
                checked; UNAVAILABLE: it cannot be checked now.
        """
        outcome = self._known.get(form)
        if outcome is None:
            outcome = await self._outcome(form)
        else:
            self._known.move_to_end(form)
        if isinstance(outcome, GrammarRefused):
            # Refusals are remembered as grammars are: a hostile form must not cost its time again
            # (decision 0013).
            raise fields.invalid(outcome.path or param, outcome.reason)
        for path, why in outcome.notices:
            leave_unenforced(path or param, why)
        return outcome.grammar

    async def close(self) -> None:
        """End the processes; waiting callers get an error."""
        self._is_closed = True
        for checking in list(self._checks.values()):
            if checking.task is not None:
                checking.task.cancel()
        await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _outcome(self, form: AnswerForm) -> GrammarAccepted | GrammarRefused:
        if self._is_closed:
            raise shut_down()
        checking = self._checks.get(form)
        if checking is None:
            checking = self._checks[form] = _Checking()
            checking.task = asyncio.create_task(self._checked(form, checking))
            checking.task.add_done_callback(lambda _: self._forget(form, checking))
        assert checking.task is not None
        checking.waiting += 1
        try:
            # A client that leaves must not end a check that other clients wait for.
            return await asyncio.shield(checking.task)
        except asyncio.CancelledError:
            if checking.task.cancelled():
                raise shut_down() from None
            raise
        finally:
            checking.waiting -= 1
            if not checking.waiting and not checking.has_begun:
                self._forget(form, checking)
                checking.task.cancel()

    def _forget(self, form: AnswerForm, checking: _Checking) -> None:
        if self._checks.get(form) is checking:
            del self._checks[form]

    async def _checked(
        self, form: AnswerForm, checking: _Checking
    ) -> GrammarAccepted | GrammarRefused:
        try:
            outcome = await self._answer(form, checking)
        except TooManyWaiting:
            raise RequestError(
                "too many structured outputs are being checked; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1.0,
            ) from None
        self._remember(form, outcome)
        return outcome

    async def _answer(
        self, form: AnswerForm, checking: _Checking
    ) -> GrammarAccepted | GrammarRefused:
        expected = len(form.text) * _PER_CHARACTER
        for seconds, length in FIRST_STEPS if len(form.text) <= _FIRST_FORM else ():
            async with self._first_turns.turn(expected) as turn:
                checking.has_begun = True
                self.asked += 1
                worker = self._first_worker()
                # Rules are made in Python, which can be interrupted, so the first tries need no new
                # process (decision 0014).
                answer = await worker.check(GrammarCheck(form, seconds, length))
                turn.cost = worker.used
                if not isinstance(answer, GrammarPostponed):
                    return answer
                expected = _cost_of(answer)
                # The rest of its cost is paid in the other queue, but the connection is rated for
                # all of it here too.
                turn.cost += expected
            # Its clients have left between two tries: a form that nobody waits for is not started
            # (decision 0014).
            if not checking.waiting:
                raise asyncio.CancelledError
            checking.has_begun = False
            if (answer.length or 0) > FIRST_STEPS[-1][1]:
                break
        async with self._long_turns.turn(expected) as turn:
            checking.has_begun = True
            self.asked += 1
            worker = self._free.pop()
            try:
                answer = await worker.check(GrammarCheck(form, self._seconds))
            finally:
                self._free.append(worker)
            turn.cost = worker.used
        if isinstance(answer, GrammarPostponed):
            return too_complex(self._seconds)
        return answer

    def _first_worker(self) -> GrammarWorker:
        """Return the first worker; without a process, it changes places with one that has one."""
        if self._first.pid is None:
            for number, other in enumerate(self._free):
                if other.pid is not None:
                    # A process takes 0.3 s and more to import and load its tokenizer: simple forms
                    # get one that lives.
                    self._first, self._free[number] = other, self._first
                    self._first.stays, self._free[number].stays = True, False
                    break
        return self._first

    def _remember(self, form: AnswerForm, outcome: GrammarAccepted | GrammarRefused) -> None:
        self._known[form] = outcome
        self._known_size += _size(form, outcome)
        while len(self._known) > REMEMBERED or self._known_size > _REMEMBERED_SIZE:
            self._known_size -= _size(*self._known.popitem(last=False))


def leave_unenforced(path: str, why: str) -> None:
    """Leave out a part of a form, as `leave_out` says; without a request's record nothing is said.

    Raises:
        RequestError: the record's rule is to refuse it.
    """
    if current_record() is not None:
        text = f'"{path}" is not enforced: {why}'
        leave_out(RequestError(text, param=path, detail="not enforced"))


def _cost_of(answer: GrammarPostponed) -> float:
    """Estimate the seconds that a postponed form still takes."""
    return _UNKNOWN if answer.length is None else answer.length * _PER_GRAMMAR_CHARACTER


def _size(form: AnswerForm, outcome: GrammarAccepted | GrammarRefused) -> int:
    made = len(outcome.grammar.text) if isinstance(outcome, GrammarAccepted) else 0
    return len(form.text) + made
