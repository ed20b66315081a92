"""Work on files beside the event loop, in threads that can be abandoned.

A read of a lost network mount does not return, and nothing can interrupt it. So the waiter stops
waiting after a while, and the thread ends with the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar

from graph_runtime import UnavailableError
from graph_runtime.authoring.executor import THREADS
from graph_runtime.errors import reason_of
from graphrt_base.regular_file import raise_if_exhausted, read_by

T = TypeVar("T")
P = ParamSpec("P")

#: Seconds that files may take to answer.
ANSWER_SECONDS: Final = 30.0
#: Threads that work at a time; more would only take the interpreter from the event loop.
AT_A_TIME: Final = 4
#: Work that takes longer waits for a disk or a network, not for the processor: others may begin.
_TURN_SECONDS: Final = 1.0
#: Limit of threads that wait for files that do not answer. Beyond it no work begins.
_MOST_HANGING: Final = 256
_ADVICE: Final = "is a network mount gone?"


class FilesNotAnsweringError(UnavailableError):
    """Files have not answered in time; the thread that asked still waits."""


async def in_file_thread(
    what: str, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run ``work`` in a thread; returns or raises what it does.

    Args:
        what: the owner of the files, for errors: ``the files of the graph "a"``. While they do not
            answer, further work on them fails at once.

    Raises:
        DescriptorsExhaustedError: no file can be opened now.
        FilesNotAnsweringError: the work has not ended within `ANSWER_SECONDS`, or earlier work on
            these files still has not ended.
    """
    turns = _turns()
    async with turns.semaphore:
        if what in turns.hanging:
            # A graph that is reloaded every second would add a thread each time.
            raise FilesNotAnsweringError(f"{what} still do not answer: {_ADVICE}")
        if len(turns.hanging) >= _MOST_HANGING:
            raise FilesNotAnsweringError(
                f"{what} are not read: the files of {len(turns.hanging)} others do not answer"
            )
        begun = _BegunWork(partial(work, *args, **kwargs))
        waiting = asyncio.wrap_future(begun.future)
        # Not shared with the thread, which a cancelled waiter abandons.
        await asyncio.wait({waiting}, timeout=_TURN_SECONDS)
    if not waiting.done():
        turns.hanging.add(what)
        waiting.add_done_callback(partial(_answered, turns, what))
        await asyncio.wait({waiting}, timeout=ANSWER_SECONDS - _TURN_SECONDS)
    if not waiting.done():
        path = read_by(begun.thread)
        which = f" (it waits for {path})" if path else ""
        raise FilesNotAnsweringError(
            f"{what} have not answered for {ANSWER_SECONDS:g} s{which}: {_ADVICE}"
        )
    return waiting.result()


def _answered(turns: _Turns, what: str, future: asyncio.Future[Any]) -> None:
    turns.hanging.discard(what)
    if not future.cancelled():
        future.exception()  # mark as retrieved: the waiter may be gone


class _Turns:
    """The turns of one event loop. ``hanging``: owners of files that do not answer."""

    def __init__(self) -> None:
        self.semaphore = asyncio.Semaphore(AT_A_TIME)
        self.hanging: set[str] = set()


_turns_by_loop: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]] = (
    weakref.WeakKeyDictionary()
)


def _turns() -> _Turns:
    return _turns_by_loop.setdefault(asyncio.get_running_loop(), _Turns())


class _BegunWork(Generic[T]):
    """A call in a thread of its own. ``thread``: the thread's id; None until it runs."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.future: Future[T] = Future()
        self.thread: int | None = None
        self._work = work
        self.future.set_running_or_notify_cancel()
        # Threads of the runtime's cache are daemons: a read of a lost network mount would keep the
        # process from ending otherwise.
        THREADS.start(self._run, "graphrt-files")

    def _run(self) -> None:
        self.thread = threading.get_ident()
        try:
            try:
                result = self._work()
            except OSError as error:
                raise_if_exhausted(error)
                raise
        except BaseException as error:
            future = self.future
            del self  # this frame is in the error's traceback: a cycle would keep what failed
            with suppress(RuntimeError):  # the event loop was closed meanwhile
                future.set_exception(_for_future(error))
            del future
        else:
            with suppress(RuntimeError):
                self.future.set_result(result)


def _for_future(error: BaseException) -> BaseException:
    """Return an exception that a future can have: its waiter would wait for ever otherwise."""
    # `Future.set_exception` of asyncio refuses StopIteration with a TypeError, in a callback that
    # nobody awaits.
    if isinstance(error, StopIteration):
        failure = RuntimeError(f"the call raised {reason_of(error)}")
        failure.__cause__ = error
        return failure
    return error


class _FileCall(Generic[T]):
    """A call that waits for a thread, or is made."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.future: Future[T] = Future()
        self._work = work

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._work()
        except BaseException as error:
            future = self.future
            del self  # as in `_BegunWork`
            future.set_exception(_for_future(error))
            del future
        else:
            self.future.set_result(result)


class DaemonThreads(ThreadPoolExecutor):
    """An executor for an event loop's `asyncio.to_thread`, whose threads do not delay the exit.

    The interpreter waits for all threads of the standard executor when it exits.
    """

    def __init__(self, most_threads: int | None = None) -> None:
        """``most_threads``: by default asyncio's own number."""
        super().__init__(1)  # asyncio takes no other class; its threads are never started
        self._most = most_threads or min(32, (os.cpu_count() or 1) + 4)
        self._running = 0
        self._guard = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()  # guarded by: self._guard

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `concurrent.futures.Executor.submit`."""
        call = _FileCall(partial(fn, *args, **kwargs))
        with self._guard:
            self._waiting.append(call.run)
            if self._running >= self._most:
                return call.future
            self._running += 1
        THREADS.start(self._work, "graphrt-loop")
        return call.future

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._running -= 1
                    return
                run = self._waiting.popleft()
            with suppress(RuntimeError):  # the event loop was closed meanwhile
                run()
            del run

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drop the calls that have not begun; running calls go on until the process ends."""
        with self._guard:
            self._waiting.clear()
