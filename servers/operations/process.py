"""The server's process: its heap, its contents, the names of its packages, and its service manager.

The garbage collector is tuned for long-lived servers. A server holds half a million objects of its
libraries and graphs. A full collection goes through all of them, which delays every request in
flight by 40 to 60 ms, and many short-lived objects trigger it several times a second. Requests
leave no cycles, so collecting seldom costs little memory (`gc.freeze`, `gc.set_threshold`).

A service manager that has started the server gets systemd's messages (``sd_notify(3)``): a unit of
``Type=notify`` is up when the server answers requests.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

from calculators.kit.memory import collect_seldom

#: Everything is loaded, or has failed.
READY: Final = "READY=1"
#: Requests in flight are finished, and no new ones are accepted.
STOPPING: Final = "STOPPING=1"

_ADDRESS: Final = "NOTIFY_SOCKET"

_log: Final = logging.getLogger(__name__)


def notify(state: str) -> None:
    """Send a state to the service manager, if there is one. A failure is logged."""
    address = os.environ.get(_ADDRESS)
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # in the abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            # A service manager that does not read must not stop the event loop.
            channel.setblocking(False)
            channel.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("the service manager cannot be notified of %s: %s", state, error.strerror)


NAMES: Final = ("graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers")
CLASH_HINT: Final = "install graphrt in an environment of its own"
_OWN: Final = "graphrt"


def clashes() -> list[tuple[str, str]]:
    """Return (package, distribution) for each package of ours that another distribution has too.

    Installing two such distributions overwrites files silently, and uninstalling one removes files
    of the other.
    """
    # The standard library's `packages_distributions` makes an object of every installed file: a
    # quarter of a server's start, where there are 130 distributions.
    places = [path for path in sys.path if any((Path(path) / name).is_dir() for name in NAMES)]
    found = set()
    for each in distributions(path=places):
        packages = _ours(each)
        if packages and each.name.lower() != _OWN:
            found |= {(package, each.name) for package in packages}
    return sorted(found, key=lambda pair: (NAMES.index(pair[0]), pair[1]))


def clash_text(package: str, distribution: str) -> str:
    """Return a sentence for the operator about one of the `clashes`; `CLASH_HINT` is the remedy."""
    return (
        f"the package `{package}` of graphrt is also in the distribution {distribution}: one has "
        "overwritten the other's files"
    )


def _ours(distribution: Distribution) -> list[str]:
    """Return the names of `NAMES` that a distribution installs too."""
    # Older forms of installation list packages alone.
    files = distribution.read_text("RECORD") or distribution.read_text("top_level.txt") or ""
    lines = f"\n{files}\n"
    return [name for name in NAMES if f"\n{name}/" in lines or f"\n{name}\n" in lines]


def freeze_garbage(*, is_full: bool = True) -> None:
    """Collect garbage, and exclude the remaining objects from collections until the next call.

    Called after each change of what is loaded, because unloaded graphs and models are in cycles.
    Blocks the process for about 0.1 s, and for seconds with thousands of graphs. Unless
    ``is_full``, only objects that are new since the last call are collected.
    """
    if is_full:
        gc.unfreeze()
    gc.collect()
    # A full collection of half a million objects added 40 to 60 ms to every request in flight
    # (decision 0034).
    gc.freeze()
    collect_seldom()


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
