"""Ctrl-C, and exceptions of authors that look like the end of the program.

The interpreter raises KeyboardInterrupt in the main thread for Ctrl-C, wherever that thread is, and
then the application has to get it. The same exception raised by a calculator, or a ``sys.exit()``
in one, is an error of that calculator like any other: it ends a run, not the program.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from graphrt_base.errors import Code, GraphError, reason_of

#: How many parts of the program have taken Ctrl-C over, so that it raises nothing.
_taken_over = 0


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Declare that Ctrl-C raises no exception inside this context, for all threads.

    Servers and commands declare it that handle SIGINT themselves.
    """
    global _taken_over
    _taken_over += 1
    try:
        yield
    finally:
        _taken_over -= 1


def raise_interrupt(error: BaseException) -> None:
    """Raise ``error`` again if Ctrl-C may have raised it; else it is an author's.

    Raises:
        KeyboardInterrupt: it may be Ctrl-C.
    """
    if (
        isinstance(error, KeyboardInterrupt)
        and not _taken_over
        and threading.current_thread() is threading.main_thread()
    ):
        raise error


def contained(error: BaseException) -> Exception:
    """Return an exception of an author's code as one that ends no more than its call.

    SystemExit, KeyboardInterrupt and their like end tasks, event loops and programs, so they become
    the cause of an ordinary error.
    """
    if isinstance(error, Exception):
        return error
    failure = GraphError(reason_of(error), code=Code.UNKNOWN)
    failure.__cause__ = error
    return failure


def is_being_cancelled() -> bool:
    """True if somebody has cancelled the running task: a CancelledError is not an author's then."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
