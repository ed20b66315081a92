"""Cancellation of runs, with a time limit for calls that do not return."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Final

from graph_runtime import CalculatorGraph, GraphError

#: Seconds that a cancelled run may take to end before it is abandoned.
GIVE_UP_SECONDS: Final = 5.0

_stuck: Final[weakref.WeakKeyDictionary[CalculatorGraph, asyncio.Future[None]]] = (
    weakref.WeakKeyDictionary()
)


async def end_run(graph: CalculatorGraph, seconds: float = GIVE_UP_SECONDS) -> None:
    """Cancel the run and wait for its end, even if this task is cancelled meanwhile.

    A call in a thread of a pool that does not return cannot be ended. After ``seconds`` the run is
    abandoned, and `ending_of` is done when it ends after all.
    """

    async def cancel() -> None:
        graph.cancel()
        with contextlib.suppress(GraphError):
            await graph.wait_until_done_async()

    loop = asyncio.get_running_loop()
    ending = loop.create_task(cancel())
    due = loop.time() + seconds
    while not ending.done() and loop.time() < due:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([ending], timeout=due - loop.time())
    if not ending.done():
        _stuck[graph] = ending


def ending_of(graph: CalculatorGraph) -> asyncio.Future[None] | None:
    """Return a future for the end of an abandoned run; None if it was not abandoned."""
    return _stuck.get(graph)


def stuck_nodes(graph: CalculatorGraph) -> list[str]:
    """Return the names of the nodes whose calls have not returned."""
    return [node.name for node in graph.statistics().nodes if node.in_flight]
