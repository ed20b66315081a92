"""`GrammarProcessLife`: one grammar process, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, Final

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.free_memory import FEW_ARENAS
from calculators.kit.child_process.messages import LoadFailed, Log
from calculators.kit.child_process.shared_child import make_child, sharers, sharing_here
from calculators.kit.child_process.work_limit import Overrun, WorkLimit
from calculators.llm.grammar_process.messages import (
    Accepted,
    Check,
    Load,
    Postponed,
    Ready,
    Refused,
    from_checker_decoder,
)

#: Time from the start until the tokenizer is loaded.
_LOAD_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
#: Processor time: a process that used less while it had a question was stopped, or hangs.
_PROGRESS: Final = 0.05


class ChildExitedError(Exception):
    """The process ended before it answered, for a reason other than the question."""


class Crashed(Exception):
    """The question made the process crash."""


class TooLong(Exception):
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

    async def load(self, load: Load) -> None:
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
        if isinstance(answer, Ready):
            self.token_count = answer.token_count
        self._loaded_bytes = _resident_bytes(self.pid)

    async def check(
        self, question: Check, *, cpu: float, wall: float
    ) -> Accepted | Refused | Postponed:
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
                left = max(cpu - used, _PROGRESS)
                limits.append(WorkLimit(self.pid, cpu=left, wall=wall, on_overrun=overrun))
                return
            used += lately
            is_too_long = which is Overrun.CPU
            self._kill("it took too long" if is_too_long else "it hangs")

        limits = [WorkLimit(self.pid, cpu=cpu, wall=wall, on_overrun=overrun)]
        try:
            answer: Accepted | Refused | Postponed = await self._ask(question)
        except ChildExitedError:
            if is_too_long:
                raise TooLong from None
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

    async def _ask(self, message: Load | Check) -> Any:
        self._answer = asyncio.get_running_loop().create_future()
        self._child.send(msgspec.msgpack.encode(message))
        return await self._answer

    def _take(self, frame: Frame) -> None:
        try:
            message = from_checker_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            self._kill(f"it sent what is no message: {error}")
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
