"""The end of a run that nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Final

from graph_runtime import CalculatorGraph, GraphError

#: What was cancelled may take so long to end; then whoever waits goes on without it.
GIVE_UP_SECONDS: Final = 5.0

_stuck: Final[weakref.WeakKeyDictionary[CalculatorGraph, asyncio.Future[None]]] = (
    weakref.WeakKeyDictionary()
)


async def end_run(graph: CalculatorGraph, seconds: float = GIVE_UP_SECONDS) -> None:
    """Cancel the run and wait for its end, whatever happens to this task meanwhile.

    A call that does not return, in a thread of a pool, cannot be ended: after ``seconds`` this
    returns without it, and `ending_of` the graph tells when it has ended after all.
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
    """Done when a run has ended that `end_run` gave up; None if it did not give up."""
    return _stuck.get(graph)


def stuck_nodes(graph: CalculatorGraph) -> list[str]:
    """The nodes whose calls have not returned."""
    return [node.name for node in graph.statistics().nodes if node.in_flight]
