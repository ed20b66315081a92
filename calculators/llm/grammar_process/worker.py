"""`GrammarWorker`: a grammar process that is started when needed and replaced when it ends."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Final

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.messages import LoadFailed, Log
from calculators.kit.child_process.shared_child import make_child, sharers, sharing_here
from calculators.kit.child_process.supervisor import Overrun, WorkLimit
from calculators.kit.memory import FEW_ARENAS
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.grammar_process.messages import (
    GrammarAccepted,
    GrammarCheck,
    GrammarLoad,
    GrammarPostponed,
    GrammarReady,
    GrammarRefused,
    from_checker_decoder,
)
from graph_runtime import Code

#: Time from the start until the tokenizer is loaded.
_LOAD_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
#: Processor time: a process that used less while it had a question was stopped, or hangs.
_PROGRESS: Final = 0.05


class ChildExitedError(Exception):
    """The process ended before it answered, for a reason other than the question."""


class Crashed(Exception):
    """The question made the process crash."""


class GrammarTookTooLong(Exception):
    """The process computed for too long, and has been killed."""


class CannotLoad(Exception):
    """The process cannot load the model's tokenizer; the text says why."""


_ENVIRONMENT: Final = {"GLIBC_TUNABLES": FEW_ARENAS}


class GrammarProcessLife:
    """One grammar process, which answers one question at a time until it ends."""

    def __init__(self) -> None:
        name = "the grammar process"
        self._child = make_child(self._take, self._ended, name, sharing_here())
        self._answer: asyncio.Future[Any] | None = None
        self._loaded_bytes = 0
        self._never_began = False
        #: The size of the vocabulary.
        self.token_count = 0
        #: Seconds of processor time that the last question took.
        self.used = 0.0
        #: True once the process will answer no further question.
        self.is_over = False

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def grown_bytes(self) -> int:
        """The growth of the process since it was loaded; 0 where the system does not report it."""
        return 0 if self.is_over else max(0, _resident_bytes(self.pid) - self._loaded_bytes)

    async def load(self, load: GrammarLoad) -> None:
        """Start the process and load the tokenizer.

        Raises:
            CannotLoad: it will never answer; it is over.
            ChildExitedError: it was ended meanwhile.
        """
        try:
            await self._child.start("calculators.llm.grammar_process.process", _ENVIRONMENT)
        except OSError as error:
            self.is_over = self._never_began = True
            raise CannotLoad(f"it could not be started: {error.strerror}") from None
        try:
            answer = await asyncio.wait_for(self._ask(load), _LOAD_SECONDS)
        except Crashed as error:
            raise CannotLoad(str(error)) from None
        except TimeoutError:
            await self.end()
            raise CannotLoad("it takes too long") from None
        except BaseException:
            self._kill("it is not needed")
            raise
        if isinstance(answer, LoadFailed):
            await self.end()
            raise CannotLoad(answer.reason)
        if isinstance(answer, GrammarReady):
            self.token_count = answer.token_count
        self._loaded_bytes = _resident_bytes(self.pid)

    async def check(
        self, question: GrammarCheck, *, cpu: float, wall: float
    ) -> GrammarAccepted | GrammarRefused | GrammarPostponed:
        """Ask about a form.

        Args:
            cpu: seconds of processor time that the process has.
            wall: seconds without any processor time after which it counts as hung.

        Raises:
            TooLong: it used up ``cpu``.
            Crashed: the form made it crash.
            ChildExitedError: it ended for another reason, or hung and was killed.
        """
        if self.is_over:
            raise ChildExitedError("it was gone before")
        # It may be at the questions of other workers first.
        cpu, wall = cpu * sharers(), wall * sharers()
        is_too_long = False
        used = 0.0

        def overrun(which: Overrun) -> None:
            nonlocal is_too_long, used
            lately = limits.pop().stop()
            if which is Overrun.WALL and lately > _PROGRESS:
                # It works, on a machine that is overloaded.
                used += lately
                # Processor time counts, not wall time: it also passes while the process is stopped
                # (decision 0019).
                left = max(cpu - used, _PROGRESS)
                limits.append(WorkLimit(self.pid, cpu=left, wall=wall, on_overrun=overrun))
                return
            used += lately
            is_too_long = which is Overrun.CPU
            self._kill("it took too long" if is_too_long else "it hangs")

        limits = [WorkLimit(self.pid, cpu=cpu, wall=wall, on_overrun=overrun)]
        try:
            answer: GrammarAccepted | GrammarRefused | GrammarPostponed = await self._ask(question)
        except ChildExitedError:
            if is_too_long:
                raise GrammarTookTooLong from None
            raise
        except asyncio.CancelledError:
            # Its answer would be mistaken for that to the next question.
            self._kill("no caller waits for it")
            raise
        finally:
            self.used = min(used + sum(limit.stop() for limit in limits), cpu)
        return answer

    async def end(self) -> None:
        """Stop the process and wait for its end. A question in progress may still be answered."""
        if self._never_began:
            return
        self.is_over = True
        self._child.stop()
        try:
            await asyncio.wait_for(self._child.wait(), _STOP_SECONDS)
        except TimeoutError:
            self._child.kill("it did not stop in time")
            await self._child.wait()

    def _kill(self, reason: str) -> None:
        self.is_over = True
        self._child.kill(reason)

    async def _ask(self, message: GrammarLoad | GrammarCheck) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        self._child.send(msgspec.msgpack.encode(message))
        return await self._answer

    def _take(self, frame: Frame) -> None:
        try:
            message = from_checker_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            self._kill(f"it sent what is not a message: {error}")
            return
        if isinstance(message, Log):
            logging.getLogger(message.logger).log(message.level, "%s", message.text)
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def _ended(self, reason: str) -> None:
        self.is_over = True
        if self._answer is not None and not self._answer.done():
            kind = Crashed if self._child.has_crashed else ChildExitedError
            self._answer.set_exception(kind(reason))


def _resident_bytes(pid: int) -> int:
    """Return the resident size of a process; 0 where the system does not report it."""
    if sys.platform != "linux":
        return 0
    import resource

    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


log = logging.getLogger("graphrt.grammar")

#: Growth in bytes after which a process is replaced: libraries return little memory.
MAX_GROWN: Final = 256 * 1024**2
#: Seconds of processor time that a form has for each token of the vocabulary: in each state the
#: library looks at all tokens that may follow. So forms are not refused because a vocabulary is
#: large: that of 151,851 tokens gives 3.9 s.
SECONDS_PER_TOKEN: Final = 2e-5
#: Seconds that a form has beyond the budget for making its grammar.
_MARGIN: Final = 0.1
#: Pause after a failed load.
_PAUSE_SECONDS: Final = 10.0
#: Time after which a client may retry when the process was ended from outside.
_RETRY_SECONDS: Final = 1.0


class GrammarWorker:
    """Answers one question at a time, with a process that is started for the first one.

    A process that takes too long, ends or grows large is replaced. Where that is not the form's
    fault, the next process is asked once more.

    Attributes:
        used: seconds of processor time that the last question took.
        stays: a process is kept ready.
    """

    def __init__(
        self,
        load: GrammarLoad,
        *,
        name: str,
        seconds: float,
        hang_seconds: float,
        idle_seconds: float,
        stays: bool = False,
    ) -> None:
        """Make a worker without a process.

        Args:
            name: the served model's, for messages.
            seconds: processor time for a form.
            hang_seconds: wall time; a process that computes nothing for so long counts as hung.
            idle_seconds: time after which a process without a question ends, unless it ``stays``.
        """
        self._load = load
        self._name = name
        self._seconds = seconds
        self._hang_seconds = hang_seconds
        self._idle_seconds = idle_seconds
        self.stays = stays
        self._life: GrammarProcessLife | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._failure = ""
        self._failed_at = float("-inf")
        self._is_closed = False
        self.used = 0.0

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return None if self._life is None or self._life.is_over else self._life.pid

    async def check(
        self, question: GrammarCheck
    ) -> GrammarAccepted | GrammarRefused | GrammarPostponed:
        """Ask a process about a form.

        Raises:
            RequestError: UNAVAILABLE: processes keep ending, or cannot be loaded.
        """
        if self._timer is not None:
            self._timer.cancel()
        self.used = 0.0
        try:
            return await self._check(question)
        finally:
            self._after_question()

    async def close(self) -> None:
        """End the process for good."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for chore in list(self._chores):
            chore.cancel()
        if self._chores:
            await asyncio.wait(self._chores)
        if self._life is not None:
            await self._life.end()

    async def _check(
        self, question: GrammarCheck
    ) -> GrammarAccepted | GrammarRefused | GrammarPostponed:
        # A process that was killed from outside, was stopped or hangs is the server's fault: once
        # more, then 503 (decision 0013).
        for _ in range(2):
            try:
                life = await self._living()
                return await self._ask(life, question)
            except GrammarTookTooLong:
                log.warning("%s: a structured output was too complex", self._name)
                return too_complex(self._seconds)
            except Crashed as error:
                log.error("%s: a structured output ended the grammar process: %s",
                          self._name, error)  # fmt: skip
                # The form is at fault, and is not tried again (decision 0013).
                return GrammarRefused("it is too complex: a grammar of it cannot be made")
            except ChildExitedError as error:
                log.warning("%s: the grammar process is gone: %s", self._name, error)
        raise RequestError(
            "the process that makes grammars is gone; try again later",
            code=Code.UNAVAILABLE,
            retry_after=_RETRY_SECONDS,
        )

    async def _ask(
        self, life: GrammarProcessLife, question: GrammarCheck
    ) -> GrammarAccepted | GrammarRefused | GrammarPostponed:
        try:
            # By the vocabulary: 0.9 s are too few for ordinary schemas with 150,000 tokens
            # (decision 0013).
            cpu = self._seconds + life.token_count * SECONDS_PER_TOKEN + _MARGIN
            return await life.check(question, cpu=cpu, wall=self._hang_seconds)
        finally:
            self.used += life.used

    async def _living(self) -> GrammarProcessLife:
        """Return the process, started if there is none.

        Raises:
            RequestError: it cannot be started.
            ChildExitedError: it was ended while it was loading.
        """
        if self._is_closed:
            raise shut_down()
        if self._life is not None and not self._life.is_over:
            return self._life
        loop = asyncio.get_running_loop()
        left = self._failed_at + _PAUSE_SECONDS - loop.time()
        if left <= 0:
            self._life = GrammarProcessLife()
            try:
                await self._life.load(self._load)
            except CannotLoad as error:
                log.error("%s: no structured output: %s", self._name, error)
                self._failure, self._failed_at = str(error), loop.time()
                left = _PAUSE_SECONDS
            else:
                return self._life
        raise RequestError(
            f"this model cannot give structured output: {self._failure}",
            code=Code.UNAVAILABLE,
            retry_after=left,
        )

    def _after_question(self) -> None:
        if self._is_closed or self._life is None or self._life.is_over:
            return
        if self._life.grown_bytes > MAX_GROWN:
            if not self._chores:
                self._begin_chore(self._replace(self._life))
        elif not self.stays:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._idle_seconds, self._end_idle, self._life)

    def _end_idle(self, life: GrammarProcessLife) -> None:
        if self._life is life:
            self._life = None
        self._begin_chore(life.end())

    async def _replace(self, old: GrammarProcessLife) -> None:
        """End a process that has grown; if one is kept ready, its successor is loaded first."""
        # The successor is loaded first, so that simple forms do not wait for its imports (decision
        # 0014).
        if self.stays:
            new = GrammarProcessLife()
            try:
                await new.load(self._load)
            except (CannotLoad, ChildExitedError) as error:
                log.warning("%s: the grammar process cannot be replaced: %s", self._name, error)
                return
            if self._life is not old:  # it ended meanwhile, and was replaced
                old = new
            else:
                self._life = new
        elif self._life is old:
            self._life = None
        await old.end()

    def _begin_chore(self, work: Any) -> None:
        chore = asyncio.get_running_loop().create_task(work)
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)


def shut_down() -> RequestError:
    """Return the error of a request whose model is shut down."""
    return RequestError("the model is shut down", code=Code.UNAVAILABLE)


def too_complex(seconds: float) -> GrammarRefused:
    """Return the refusal of a form that takes more than ``seconds``."""
    return GrammarRefused(f"it is too complex: a grammar of it cannot be made within {seconds:g} s")
