"""The end of a run that nobody waits for any more."""

from __future__ import annotations

import asyncio
import contextlib

from graph_runtime import CalculatorGraph, GraphError


async def end_run(graph: CalculatorGraph) -> None:
    """Cancel the run and wait for its end, whatever happens to this task meanwhile."""

    async def cancel() -> None:
        graph.cancel()
        with contextlib.suppress(GraphError):
            await graph.wait_until_done_async()

    ending = asyncio.ensure_future(cancel())
    while not ending.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
