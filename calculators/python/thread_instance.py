"""`ThreadInstance`: a handler in a thread of the server's process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from calculators.python.handler import Handler
from calculators.python.handler_settings import HandlerSettings
from calculators.python.handler_thread import HandlerThread
from calculators.python.turn import Turn

log = logging.getLogger("graphrt.python")

#: How long ``finalize`` may hold up the unloading of a graph; what hangs is left to itself.
FINALIZE_SECONDS: Final = 5.0


class ThreadInstance:
    """Everything of the handler runs in one thread, so that the event loop never waits for it.

    The thread shares the interpreter with the server: a handler that computes in plain Python
    slows everything down, and one that hangs cannot be ended. Made by `load_in_thread`.
    """

    #: A handler that is loaded can work; a call that hangs holds up its own instance only.
    unavailable_reason = ""

    def __init__(self, node_name: str, handler: Handler, thread: HandlerThread) -> None:
        self.handler = handler
        self._node_name = node_name
        self._thread = thread

    def execute(self, key: int, inputs: Sequence[Any]) -> asyncio.Future[Turn]:
        return asyncio.wrap_future(self._thread.submit(lambda: self.handler.execute(key, inputs)))

    def next(self, key: int) -> asyncio.Future[Turn]:
        return asyncio.wrap_future(self._thread.submit(lambda: self.handler.next(key)))

    def end(self, key: int) -> None:
        self._thread.submit(lambda: self.handler.end(key))

    def abandon(self) -> None:
        """A thread cannot be ended: the call takes as long as it takes."""

    async def close(self) -> None:
        done = asyncio.wrap_future(self._thread.submit(self.handler.finalize))
        finished, _ = await asyncio.wait((done,), timeout=FINALIZE_SECONDS)
        if finished:
            done.exception()  # logged where it was raised
        else:
            log.warning('node "%s": finalize takes too long; left behind', self._node_name)
            done.cancel()
        self._thread.end()


async def load_in_thread(settings: HandlerSettings) -> ThreadInstance:
    """Load a handler in the thread that it will live in.

    Raises:
        HandlerFileError: it cannot be loaded; the log has the traceback.
    """
    thread = HandlerThread(f"graphrt-python-{settings.node_name}")
    try:
        handler = await asyncio.wrap_future(thread.submit(lambda: Handler(settings)))
    except BaseException:
        thread.end()
        raise
    return ThreadInstance(settings.node_name, handler, thread)
