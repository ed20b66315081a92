"""Notices from a thread that the event loop does not turn, and says what holds it.

A node that is called on the loop cannot be cut off: Python has no way to end a function that does
not return. So it is named in the log while it lasts, and in ``/v1/config`` afterwards. Meanwhile
nothing is answered, health neither, which tells an orchestrator.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from graph_runtime import NodePlan
from graph_runtime.engine.drivers.running_call import running_node

_log: Final = logging.getLogger(__name__)

#: The loop answers nobody for so long before it is said. A long step of Python is no stall.
STALL_SECONDS: Final = 5.0
#: How often it is looked at, in this time.
_LOOKS: Final = 5
#: The inner end of a stack; what is above it is the same in every program.
_MOST_FRAMES: Final = 30


@dataclass(frozen=True, slots=True)
class Stall:
    """The loop was held up. ``node``: by whose call; None where it was none's."""

    node: NodePlan | None
    seconds: float


class LoopWatchdog:
    """Watches the running event loop from entering to leaving.

    It counts how often it looked in vain, not seconds: a process that was stopped as a whole, or
    starved, has not stalled.
    """

    def __init__(
        self,
        name_of: Callable[[NodePlan], str],
        on_end: Callable[[Stall], None],
        stall_seconds: float = STALL_SECONDS,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        """
        Args:
            name_of: what a node is called in the log; asked from the watchdog's thread.
            on_end: called on the loop when it turns again after it was held up.
            exit_process: ends the process, as of `stop_within`.
        """
        self._name_of = name_of
        self._on_end = on_end
        self._period = stall_seconds / _LOOKS
        self._exit_process = exit_process
        self._turns = 0
        self._turned_at = 0.0
        self._stalled_node: NodePlan | None = None
        self._is_stalled = False
        self._stop_seconds: float | None = None
        self._loop_thread = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="graphrt-watchdog", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._loop_thread = threading.get_ident()
        self._turned_at = time.monotonic()
        self._turn()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def stop_within(self, seconds: float) -> None:
        """From now on the process is ended when the loop is held up for so long: it is to stop, and
        what holds the loop does not let it. For signal handlers."""
        self._stop_seconds = seconds

    # On the loop ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = time.monotonic()
        self._turns += 1
        if self._is_stalled:
            stall = Stall(self._stalled_node, now - self._turned_at)
            self._is_stalled, self._stalled_node = False, None
            _log.warning("the event loop turns again after %.1f s", stall.seconds)
            self._on_end(stall)
        self._turned_at = now
        self._timer = asyncio.get_running_loop().call_later(self._period, self._turn)

    # In the thread --------------------------------------------------------------------------------

    def _watch(self) -> None:
        turns = in_vain = 0
        while not self._closed.wait(self._period):
            if self._turns != turns:
                turns, in_vain = self._turns, 0
                continue
            in_vain += 1
            if in_vain == _LOOKS:
                self._report()
            seconds = self._stop_seconds
            if seconds is not None and in_vain * self._period >= max(seconds, self._period):
                _log.error(
                    "asked to stop, and the event loop has not turned for %g s: ending the process",
                    seconds,
                )
                logging.shutdown()
                self._exit_process(1)
                return

    def _report(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        node = running_node(frame)
        self._stalled_node, self._is_stalled = node, True
        holder = f"it is held by {self._name_of(node)}" if node is not None else "it is held"
        stack = "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]).rstrip()
        _log.error(
            "the event loop has not turned for %g s, nothing is answered meanwhile; %s at:\n%s",
            _LOOKS * self._period, holder, stack,
        )  # fmt: skip
