"""`ProcessInstance`: a handler in a process of its own, from the server's side."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from calculators.kit.child_process.framing import Piece
from calculators.kit.child_process.supervisor import Supervisor, unavailable
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.handler_settings import HandlerSettings
from calculators.tensors.python.instance import Turn
from calculators.tensors.python.messages import (
    End,
    Execute,
    Failed,
    Next,
    Ready,
    decode_answer,
    encode,
    frame_of,
)
from calculators.tensors.python.parcel import Head, UnsupportedPayloadError, packed
from graph_runtime import LoadProgress

log = logging.getLogger("graphrt.python")

#: Seconds that ``finalize`` may delay the unloading of a graph before the process is killed.
FINALIZE_SECONDS: Final = 5.0
#: A call has no time limit while a caller waits for it.
_NEVER: Final = 1e6


class _Asked:
    """A question without an answer yet. ``answer`` is None for an `End`: it has no waiter."""

    __slots__ = ("answer", "is_abandoned")

    def __init__(self, answer: asyncio.Future[Turn] | None) -> None:
        self.answer = answer
        self.is_abandoned = answer is None


class ProcessInstance:
    """A handler in a process, isolated from the server.

    When the process ends, the current call fails with UNAVAILABLE, all generators are lost, and the
    process is restarted. A process that spends more than ``grace_seconds`` on an abandoned call is
    killed.
    """

    def __init__(
        self,
        settings: HandlerSettings,
        *,
        name: str,
        grace_seconds: float,
        on_down: Callable[[ProcessInstance], None],
        on_back: Callable[[], None],
    ) -> None:
        """``name`` is for messages, such as ``handler of node "a"``."""
        self._name = name
        self._node_name = settings.node_name
        self._grace_seconds = grace_seconds
        self._on_down = on_down
        self._asked: deque[_Asked] = deque()
        self._watched: _Asked | None = None
        self._is_hung = False
        self._timer: asyncio.TimerHandle | None = None
        self._child = Supervisor(
            name=name,
            module="calculators.tensors.python.process",
            load=settings,
            decode=decode_answer,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            on_back=on_back,
            is_requests_fault=self._judge,
            is_busy=lambda: False,
            hang_seconds=_NEVER,
            stop_seconds=FINALIZE_SECONDS,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the handler; ``progress`` gets the phases.

        Raises:
            LoadError: the handler cannot be loaded; the traceback is logged.
        """
        await self._child.start(progress)

    @property
    def pid(self) -> int | None:
        """The id of the process, or None while there is none."""
        return self._child.pid

    @property
    def unavailable_reason(self) -> str:
        return self._child.unavailable_reason

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[Turn]:
        heads: list[Head] = []
        pieces: list[Piece] = []
        try:
            for value in inputs:
                head, data = packed(value)
                heads.append(head)
                pieces += data
            frame = frame_of(Execute(key, heads), pieces)
        except UnsupportedPayloadError as error:
            answer: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
            answer.set_exception(
                RequestError(
                    f'the handler of node "{self._node_name}" runs in a process of its own, which '
                    f"takes tensors and HTTP requests, not {error}; with isolation: THREAD in the "
                    f"node's options it takes anything"
                )
            )
            return answer
        return self._ask(*frame)

    def next(self, key: int) -> asyncio.Future[Turn]:
        return self._ask(encode(Next(key)))

    def end(self, key: int) -> None:
        if self.unavailable_reason:
            return  # the generator was lost with its process
        self._asked.append(_Asked(None))
        self._child.send(encode(End(key)))
        self._watch()

    def abandon(self) -> None:
        for asked in self._asked:
            asked.is_abandoned = True
        self._watch()

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await self._child.close()
        if loop.time() - begin >= FINALIZE_SECONDS:
            log.warning('node "%s": finalize takes too long; its process was ended',
                        self._node_name)  # fmt: skip
        self._fail_all(self.unavailable_reason)

    def _ask(self, *pieces: Piece) -> asyncio.Future[Turn]:
        answer: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(answer))
        self._child.send(*pieces)
        return answer

    def _take(self, message: Any) -> None:
        if not self._asked:
            self._child.kill("it sent an answer without a question")
            return
        answer = self._asked.popleft().answer
        if answer is not None and isinstance(message, Failed):
            answer.set_exception(message.error)
        elif answer is not None:
            answer.set_result(message)
        self._watch()

    def _watch(self) -> None:
        """Limit the time of an abandoned call, from the moment it was abandoned."""
        head = self._asked[0] if self._asked else None
        wanted = head if head is not None and head.is_abandoned else None
        if wanted is self._watched:
            return
        self._watched = wanted
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wanted is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace_seconds, self._kill_hung)

    def _judge(self) -> bool:
        """True if a call ended the process, by a crash or by not ending."""
        return bool(self._asked) and (self._child.has_crashed or self._is_hung)

    def _kill_hung(self) -> None:
        self._is_hung = True
        self._child.kill("it did not end an abandoned call in time")

    def _down(self, reason: str) -> None:
        self._is_hung = False
        self._fail_all(f"the {self._name} ended before it answered: {reason}")
        self._on_down(self)

    def _fail_all(self, reason: str) -> None:
        open_, self._asked = self._asked, deque()
        self._watch()
        for asked in open_:
            if asked.answer is not None:
                asked.answer.set_exception(unavailable(reason))
