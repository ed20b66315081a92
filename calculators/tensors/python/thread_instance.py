"""`ThreadInstance`: a handler in a thread of the server's process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from calculators.tensors.python.handler import Handler
from calculators.tensors.python.handler_settings import HandlerSettings
from calculators.tensors.python.handler_thread import HandlerThread
from calculators.tensors.python.instance import Turn

log = logging.getLogger("graphrt.python")

#: Seconds that ``finalize`` may delay the unloading of a graph; a thread that hangs is left alone.
FINALIZE_SECONDS: Final = 5.0


class ThreadInstance:
    """A handler in one thread of its own, so that the event loop never waits for it.

    The thread shares the interpreter with the server: a handler that computes in plain Python
    slows everything down, and one that hangs cannot be ended. Made by `load_in_thread`.
    """

    #: A loaded handler can always work; a call that hangs blocks its own instance only.
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
        """Do nothing: a thread cannot be killed, so the call runs to its end."""

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
        HandlerFileError: the handler cannot be loaded; the traceback is logged.
    """
    thread = HandlerThread(f"graphrt-python-{settings.node_name}")
    try:
        handler = await asyncio.wrap_future(thread.submit(lambda: Handler(settings)))
    except BaseException:
        thread.end()
        raise
    return ThreadInstance(settings.node_name, handler, thread)
