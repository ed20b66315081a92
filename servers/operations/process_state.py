"""The contents of the server's process, for finding leaks. SIGUSR1 logs them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from servers.operations.heap import freeze_garbage

_log: Final = logging.getLogger(__name__)

_PROC: Final = Path("/proc/self")
_MIB: Final = 1024 * 1024
#: Packages whose objects are counted: ours, and the ones that hold connections.
_COUNTED: Final = frozenset(
    {"aiohttp", "asyncio", "calculators", "grpc", "graph_runtime", "servers", "uvloop"}
)
#: Classes with fewer objects are not shown.
_FEW: Final = 8

State = dict[str, Any]


def process_state() -> State:
    """Return memory, descriptors, threads, tasks by coroutine, children and objects by class.

    Collects garbage first, so all counted objects are referred to. Blocks the process for about
    0.1 s. Facts that only Linux provides are left out elsewhere.
    """
    is_settled = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    state: State = {"monotonic_seconds": round(time.monotonic(), 1)}
    with suppress(OSError):
        state["memory_mib"] = round(_resident() / _MIB, 1)
        state["descriptors"] = len(list((_PROC / "fd").iterdir()))
        state["children"] = sorted(_children())
    state["threads"] = _counted(thread.name for thread in threading.enumerate())
    state["tasks"] = _counted(_name_of(task) for task in asyncio.all_tasks())
    state["objects"] = {
        name: count for name, count in _counted(_classes()).items() if count >= _FEW
    }
    if is_settled:
        freeze_garbage()
    return state


@contextmanager
def logged_on_signal() -> Iterator[None]:
    """Let SIGUSR1 log the state as one line of JSON while this context is entered."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None:  # not on Windows
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, _log_state)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


def _log_state() -> None:
    _log.info("state of the process: %s", json.dumps(process_state()))


def _resident() -> int:
    pages = (_PROC / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _children() -> Iterator[int]:
    for thread in (_PROC / "task").iterdir():
        with suppress(OSError):  # it has ended
            yield from map(int, (thread / "children").read_text(encoding="ascii").split())


def _name_of(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return str(getattr(coroutine, "__qualname__", type(coroutine).__qualname__))


def _classes() -> Iterator[str]:
    for kind in _types():
        module = str(kind.__module__)
        if module.partition(".")[0] in _COUNTED:
            yield f"{module}.{kind.__qualname__}"


def _types() -> list[type]:
    """Return the type of every object that the garbage collector knows.

    Other threads may be creating some of the objects, such as tuples, and CPython raises
    SystemError if something else refers to a tuple when it is complete. So no Python code runs
    while they are referred to: everything is one call of ``list``, which keeps the interpreter's
    lock.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # it would run finalizers
    try:
        return list(map(type, itertools.chain.from_iterable(map(gc.get_objects, (None,)))))
    finally:
        if was_enabled:
            gc.enable()


def _counted(names: Iterator[str]) -> dict[str, int]:
    """Count the names, the most frequent first."""
    return dict(Counter(names).most_common())
