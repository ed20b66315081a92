"""`GrammarProcessLife`: one grammar process, from its start to its end."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from calculators.child_process.child_process import ChildProcess
from calculators.child_process.framing import Frame
from calculators.child_process.messages import LoadFailed, Stop
from calculators.llm.structured.grammar import AnswerForm
from calculators.llm.structured.messages import Accepted, Check, Load, Refused, from_checker_decoder

#: From the start until a tokenizer is loaded.
_LOAD_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0


class Gone(Exception):
    """The process ended before it answered."""


class CannotLoad(Exception):
    """It cannot load the model's tokenizer; the text says why."""


class GrammarProcessLife:
    """Answers questions, one at a time, until it ends."""

    def __init__(self) -> None:
        self._child = ChildProcess(self._take, self._ended, "the grammar process")
        self._answer: asyncio.Future[Any] | None = None
        self.is_over = False

    @property
    def pid(self) -> int:
        return self._child.pid

    async def load(self, load: Load) -> None:
        """Start it.

        Raises:
            CannotLoad: it will never answer; it is over.
        """
        try:
            await self._child.start("calculators.llm.structured.process")
        except OSError as error:
            self.is_over = True
            raise CannotLoad(f"it could not be started: {error.strerror}") from None
        try:
            answer = await self._ask(load, _LOAD_SECONDS)
        except (Gone, TimeoutError) as error:
            await self.end()
            raise CannotLoad(str(error) or "it takes too long") from None
        except BaseException:
            self._child.kill("it is not needed")
            raise
        if isinstance(answer, LoadFailed):
            await self.end()
            raise CannotLoad(answer.reason)

    async def check(self, form: AnswerForm, seconds: float) -> Accepted | Refused:
        """What it says of a form.

        Raises:
            TimeoutError: it took too long, and has been killed.
            Gone: it ended.
        """
        try:
            answer: Accepted | Refused = await self._ask(Check(form), seconds)
        except BaseException:
            self._child.kill("it was at something that takes too long")
            raise
        return answer

    async def end(self) -> None:
        """Stop it, and wait until it is gone."""
        if self.is_over:
            return
        self._child.send(msgspec.msgpack.encode(Stop()))
        try:
            await asyncio.wait_for(self._child.wait(), _STOP_SECONDS)
        except TimeoutError:
            self._child.kill("it did not stop in time")
            await self._child.wait()

    async def _ask(self, message: Load | Check, seconds: float) -> Any:
        if self.is_over:
            raise Gone
        self._answer = asyncio.get_running_loop().create_future()
        self._child.send(msgspec.msgpack.encode(message))
        return await asyncio.wait_for(self._answer, seconds)

    def _take(self, frame: Frame) -> None:
        try:
            message = from_checker_decoder.decode(frame)
        except msgspec.MsgspecError as error:
            self._child.kill(f"it sent what is no message: {error}")
            return
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def _ended(self, reason: str) -> None:
        self.is_over = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Gone(reason))
