"""A thread that detects a blocked event loop and reports what blocks it.

A node that is called on the loop cannot be interrupted: Python has no way to end a function that
does not return. So the node is named in the log while its call lasts, and in ``/v1/config``
afterwards. Meanwhile the server answers nothing, not even health, which an orchestrator notices.
"""

from __future__ import annotations

import asyncio
import logging
import math
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

#: Seconds after which a blocked loop is reported while it is; after two of five parts of this, when
#: it turns again, if a node held it. A long step of Python is not a stall.
STALL_SECONDS: Final = 5.0
#: Checks in this time.
_LOOKS: Final = 5
#: Innermost frames of a stack that are shown; the others are the same in every program.
_MOST_FRAMES: Final = 30


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall of the loop. ``node``: the node whose call blocked it, if it was one."""

    node: NodePlan | None
    seconds: float


class LoopWatchdog:
    """Watches the running event loop while the context is entered.

    The watchdog counts checks without progress, not seconds: a process that was stopped as a
    whole, or got no processor time, has not stalled.
    """

    def __init__(
        self,
        name_of: Callable[[NodePlan], str],
        on_end: Callable[[Stall], None],
        stall_seconds: float = STALL_SECONDS,
        exit_process: Callable[[int], object] = os._exit,
        most_seconds: float | None = None,
    ) -> None:
        """
        Args:
            name_of: returns the name of a node for the log; called in the watchdog's thread.
            on_end: called on the loop when it runs again after a stall.
            exit_process: ends the process; see `stop_within`.
            most_seconds: a longer stall ends the process, for one that another starts again.
        """
        self._name_of = name_of
        self._on_end = on_end
        self._period = stall_seconds / _LOOKS
        self._exit_process = exit_process
        self._turns = 0
        self._turned_at = 0.0
        self._stalled_node: NodePlan | None = None
        self._is_stalled = False
        #: The node that a check found on the loop, which had not turned since the one before.
        self._held_by = ""
        self._stop_seconds: float | None = None
        self._most_seconds = math.inf if most_seconds is None else most_seconds
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
        """End the process if the loop is blocked for ``seconds`` from now on.

        For signal handlers: a blocked loop would prevent the stop.
        """
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
        elif self._held_by and now - self._turned_at >= 3 * self._period:
            _log.warning(
                "%s held the event loop for %.1f s, and nothing was answered meanwhile: time.sleep "
                "is `await asyncio.sleep` in a coroutine, and what computes for long is `await "
                "asyncio.to_thread(...)`, or a node of an executor { type: "
                '"ThreadPoolExecutor" }',
                self._held_by,
                now - self._turned_at - self._period,
            )
        self._held_by = ""
        self._turned_at = now
        self._timer = asyncio.get_running_loop().call_later(self._period, self._turn)

    # In the thread --------------------------------------------------------------------------------

    def _watch(self) -> None:
        turns = in_vain = 0
        while not self._closed.wait(self._period):
            if self._turns != turns:
                turns, in_vain = self._turns, 0
                continue
            # Looks in vain are counted, not seconds: a process that was stopped or starved has not
            # stalled, since the watchdog slept too (decision 0041).
            in_vain += 1
            if in_vain == 1:
                node = running_node(sys._current_frames().get(self._loop_thread))
                self._held_by = "" if node is None else self._name_of(node)
            if in_vain == _LOOKS:
                self._report()
            asked = self._stop_seconds
            seconds = self._most_seconds if asked is None else asked
            if in_vain * self._period >= max(seconds, self._period):
                why = "" if asked is None else "asked to stop, and "
                _log.error(
                    "%sthe event loop has not turned for %g s: ending the process", why, seconds
                )
                logging.shutdown()
                # os._exit by default: nothing can interrupt the call that holds the loop, so no
                # other end would come.
                self._exit_process(1)
                return

    def _report(self) -> None:
        # The calculator's own frame is always Python, also where the engine is compiled (decision
        # 0072).
        frame = sys._current_frames().get(self._loop_thread)
        node = running_node(frame)
        self._stalled_node, self._is_stalled = node, True
        holder = f"it is held by {self._name_of(node)}" if node is not None else "it is held"
        stack = "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]).rstrip()
        _log.error(
            "the event loop has not turned for %g s, nothing is answered meanwhile; %s at:\n%s",
            _LOOKS * self._period, holder, stack,
        )  # fmt: skip
