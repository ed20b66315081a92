"""`GrammarChecker`: the server's side of the grammar process of one model."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final, Protocol

from calculators.http_payload import RequestError
from calculators.llm.openai import fields
from calculators.llm.structured.grammar import AnswerForm, Grammar
from calculators.llm.structured.life import CannotLoad, Gone, GrammarProcessLife
from calculators.llm.structured.messages import Accepted, Load, Refused
from graph_runtime import Code

log = logging.getLogger("graphrt.grammar")

#: For one form. What takes longer would also make the engine's other answers slower.
SECONDS: Final = 0.9
#: How much the process may grow beyond what it has after loading, in bytes.
MEMORY: Final = 2 * 1024**3
#: Checks that may wait for each other; the next one is told to come back.
MAX_WAITING: Final = 64
#: What is remembered of earlier checks: how many, and how many characters in all.
_REMEMBERED: Final = 1000
_REMEMBERED_SIZE: Final = 32 * 1024**2
#: After a failed load the next one is not tried at once.
_PAUSE_SECONDS: Final = 10.0


class Grammars(Protocol):
    """What proves grammars; see `GrammarChecker`."""

    async def check(self, form: AnswerForm, param: str) -> Grammar: ...

    async def close(self) -> None: ...


class GrammarChecker:
    """Turns forms into grammars that the engine can be given.

    The process is started when the first form comes. It has little time for each: one that takes
    too long ends with the process, and the next form gets another. What came of a form is
    remembered, and those who ask for the same one at the same time wait for one check.
    """

    def __init__(self, model_path: str, *, name: str, seconds: float = SECONDS) -> None:
        """``name``: of the served model, for messages."""
        self._load = Load(model_path, MEMORY)
        self._name = name
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._life: GrammarProcessLife | None = None
        self._known: OrderedDict[AnswerForm, Accepted | Refused] = OrderedDict()
        self._known_size = 0
        self._checks: dict[AnswerForm, asyncio.Task[Accepted | Refused]] = {}
        self._failure = ""
        self._failed_at = float("-inf")
        self._is_closed = False
        #: Questions that the process has been asked.
        self.asked = 0

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._life is None or self._life.is_over else self._life.pid

    async def check(self, form: AnswerForm, param: str) -> Grammar:
        """The grammar of a form. ``param``: the member that asks for it, for errors.

        Raises:
            RequestError: it cannot be honoured; RESOURCE_EXHAUSTED: too many are being checked.
        """
        outcome = self._known.get(form)
        if outcome is None:
            outcome = await self._outcome(form)
        else:
            self._known.move_to_end(form)
        if isinstance(outcome, Refused):
            raise fields.invalid(outcome.path or param, outcome.reason)
        return outcome.grammar

    async def close(self) -> None:
        """End the process; whoever waits gets an error."""
        self._is_closed = True
        for check in list(self._checks.values()):
            check.cancel()
        if self._life is not None:
            await self._life.end()

    async def _outcome(self, form: AnswerForm) -> Accepted | Refused:
        check = self._checks.get(form)
        if check is None:
            if len(self._checks) >= MAX_WAITING:
                raise RequestError(
                    "too many structured outputs are being checked; try again later",
                    code=Code.RESOURCE_EXHAUSTED,
                    retry_after=1.0,
                )
            check = self._checks[form] = asyncio.create_task(self._checked(form))
            check.add_done_callback(lambda _: self._checks.pop(form, None))
        try:
            return await asyncio.shield(check)
        except asyncio.CancelledError:
            if check.cancelled():
                raise RequestError("the model is shut down", code=Code.UNAVAILABLE) from None
            raise

    async def _checked(self, form: AnswerForm) -> Accepted | Refused:
        async with self._turn:
            outcome = await self._ask(form)
        self._remember(form, outcome)
        return outcome

    async def _ask(self, form: AnswerForm) -> Accepted | Refused:
        # Once more if it ended: it need not have been for this form.
        for _ in range(2):
            life = await self._living()
            self.asked += 1
            try:
                return await life.check(form, self._seconds)
            except TimeoutError:
                log.warning("%s: a structured output was too complex", self._name)
                return Refused(
                    f"it is too complex: a grammar of it cannot be made within {self._seconds:g} s"
                )
            except Gone as error:
                log.warning("%s: the grammar process ended: %s", self._name, error)
        return Refused("it is too complex: making a grammar of it needs too much memory")

    async def _living(self) -> GrammarProcessLife:
        """The process, started if there is none.

        Raises:
            RequestError: it cannot be.
        """
        if self._is_closed:
            raise RequestError("the model is shut down", code=Code.UNAVAILABLE)
        if self._life is not None and not self._life.is_over:
            return self._life
        now = asyncio.get_running_loop().time()
        if now - self._failed_at > _PAUSE_SECONDS:
            self._life = GrammarProcessLife()
            try:
                await self._life.load(self._load)
            except CannotLoad as error:
                log.error("%s: no structured output: %s", self._name, error)
                self._failure, self._failed_at = str(error), now
            else:
                return self._life
        raise RequestError(f"this model cannot give structured output: {self._failure}")

    def _remember(self, form: AnswerForm, outcome: Accepted | Refused) -> None:
        self._known[form] = outcome
        self._known_size += _size(form, outcome)
        while len(self._known) > _REMEMBERED or self._known_size > _REMEMBERED_SIZE:
            self._known_size -= _size(*self._known.popitem(last=False))


def _size(form: AnswerForm, outcome: Accepted | Refused) -> int:
    made = len(outcome.grammar.text) if isinstance(outcome, Accepted) else 0
    return len(form.text) + made
