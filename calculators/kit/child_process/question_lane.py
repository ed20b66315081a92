"""`QuestionLane`: one child that answers questions, and the queue of questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from calculators.kit.child_process.fair_turns import FairTurn, FairTurns, TooManyWaiting
from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.shared_child import sharers
from calculators.kit.child_process.supervisor import (
    RETRY_AFTER,
    STALL_SECONDS,
    ChildState,
    Overrun,
    ReadyT,
    SupervisedProcess,
    WorkLimit,
)
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code

#: Seconds after which a process that has computed little for one question counts as hung: it is
#: stopped, gets no processor time, or waits for something.
WALL_SECONDS: Final = 20.0


class _Lost(Exception):
    """The process ended, and the question was not the cause."""


_DOWN: Final = (ChildState.STOPPED, ChildState.CLOSED)


class _QueuedQuestion(msgspec.Struct, eq=False):
    """A question that the process has.

    Attributes:
        answer: for the asker; cancelled if the asker left.
        limit: watches the process's work.
        is_left: the asker left, so that the lane ends the turn.
    """

    turn: FairTurn
    limit: WorkLimit
    answer: asyncio.Future[Any]
    is_left: bool = False


class QuestionLane(SupervisedProcess[ReadyT]):
    """Asks a supervised child one question at a time; clients take turns.

    A question that computes for too long, or makes the process crash, is refused, and the next one
    gets a new process at once. A question that is lost because the process hung or was killed from
    outside is asked once more.
    """

    def __init__(
        self,
        module: str,
        load: msgspec.Struct,
        *,
        decode: Callable[[Frame], Any],
        ready: type[ReadyT],
        name: str,
        subject: str,
        cpu_seconds: float,
        wall_seconds: float,
        most_waiting: int,
        stall_seconds: float = STALL_SECONDS,
        environment: Mapping[str, str] = MappingProxyType({}),
        is_shared: bool = False,
    ) -> None:
        """``module``: the process's main module; ``load``: the first message to it; ``decode``:
        decodes a frame of an answer; ``ready``: the type of its first message.

        ``name``, ``subject``: names of the process and of a question, for messages.
        ``cpu_seconds``: processor time for one question; ``wall_seconds``: time after which a
        process that has not used it is replaced; ``most_waiting``: limit of waiting questions;
        ``stall_seconds``: time for one question after which the process counts as unavailable;
        ``is_shared``: one process serves all workers of a server. Each of them puts one question,
        and the process answers them in turns, so that one may use the time of all.
        """
        self._subject = subject
        turns = sharers() if is_shared else 1
        # The child's clock counts the questions of all workers (decision 0071).
        self._cpu_seconds = cpu_seconds * turns
        self._wall_seconds = wall_seconds = wall_seconds * turns
        self._turns = FairTurns(most_waiting=most_waiting)
        self._question: _QueuedQuestion | None = None
        self._overrun: Overrun | None = None
        self._is_at_fault = False
        super().__init__(
            name=name,
            module=module,
            load=load,
            decode=decode,
            ready=ready,
            hang_seconds=2 * wall_seconds,  # the lane itself looks after each question
            stall_seconds=stall_seconds * turns,
            environment=environment,
            is_shared=is_shared,
        )

    @property
    def is_idle(self) -> bool:
        """True if no question is being answered or waits."""
        return self._question is None and not len(self._turns)

    async def ask(self, body: bytes, expected: float) -> Any:
        """Return the answer to an encoded question; ``expected``: as in `FairTurns.turn`.

        A question whose asker leaves is not put to the process, if it has not been.

        Raises:
            RequestError: it takes too long or too much memory; too much waits (RESOURCE_EXHAUSTED);
                there is no process (UNAVAILABLE).
        """
        if self.state in _DOWN:
            raise self.unavailable()
        try:
            turn = await self._turns.begin(expected)
        except TooManyWaiting:
            raise RequestError(
                f"too many {self._subject}s wait to be made; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=RETRY_AFTER,
            ) from None
        try:
            reason = ""
            # Once more in another process, since the question was not at fault (decision 0013: a
            # process that was stopped or killed from outside is the server's fault).
            for _ in range(2):
                if self.state is not ChildState.READY:
                    await self.until_ready()
                try:
                    return await self._put(body, turn)
                except _Lost as lost:
                    reason = str(lost)
            raise RequestError(
                f"the {self.name} ended twice before it answered: {reason}",
                code=Code.UNAVAILABLE,
                retry_after=RETRY_AFTER,
            )
        finally:
            question = self._question
            if question is not None and question.turn is turn:
                # So the turn goes on until the child has answered; ending it now would give the
                # child two questions at a time.
                question.is_left = True  # the process cannot be interrupted
            else:
                self._turns.end(turn)

    def _put(self, body: bytes, turn: FairTurn) -> asyncio.Future[Any]:
        """Put a question to the process, which is ready; return the future answer."""
        pid = self.pid
        assert pid is not None
        self._overrun = None
        self.expect_answer()
        self.send(body)
        limit = WorkLimit(
            pid, cpu=self._cpu_seconds, wall=self._wall_seconds, on_overrun=self._stop
        )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._question = _QueuedQuestion(turn, limit, answer)
        return answer

    def _end_question(self) -> asyncio.Future[Any] | None:
        """End the question that the process has; return the future of an asker who waits."""
        question = self._question
        if question is None:
            return None
        self._question = None
        question.turn.cost = question.limit.stop()
        if question.is_left:
            self._turns.end(question.turn)
        return None if question.answer.done() else question.answer

    def _fail(self, error: Exception) -> None:
        """End the question, if there is one, with an error."""
        answer = self._end_question()
        if answer is not None:
            answer.set_exception(error)
            answer.exception()  # its asker may leave before it learns of this

    # See `SupervisedProcess` ----------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._question is not None

    def take(self, message: Any) -> None:
        answer = self._end_question()
        if answer is not None:
            answer.set_result(message)

    def _stop(self, overrun: Overrun) -> None:
        self._overrun = overrun
        self.kill(
            f"it took too long for one {self._subject}"
            if overrun is Overrun.CPU
            else f"it has not answered for {self._wall_seconds:.0f} s"
        )

    def caused_end(self) -> bool:
        self._is_at_fault = self._question is not None and (
            self._overrun is Overrun.CPU or (self._overrun is None and self.has_crashed)
        )
        return self._is_at_fault

    def down(self, reason: str) -> None:
        if self._is_at_fault:
            self._fail(RequestError(f"the {self._subject} takes too long or too much memory"))
        else:
            self._fail(_Lost(reason))

    def end_work(self) -> None:
        self._fail(self.unavailable())
