"""Graphs of a task that answer requests without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import REGISTRY, RunError
from servers.config import find_graph
from servers.serving.loaded_graph import LoadedGraph, load_graph
from tests.support.patience import PATIENCE


async def packets_of(loaded: LoadedGraph, payload: HttpPayload) -> list[Any]:
    """Return all packets of an answer; raise the calculator's own error."""
    packets: list[Any] = []
    try:
        await loaded.answer(payload, packets.append)
    except RunError as error:
        raise error.errors[0].__cause__ or error from None
    return packets


async def asked(loaded: LoadedGraph, uri: str, body: dict[str, Any]) -> Any:
    """Return the parsed answer of one packet to a body in JSON."""
    text = json.dumps(body)
    (packet,) = await packets_of(loaded, HttpPayload(uri, {}, text.encode(), json.loads(text)))
    return json.loads(packet)


def with_graph(directory: Path, scenario: Callable[[LoadedGraph], Awaitable[None]]) -> None:
    """Run a scenario with the graph of a directory."""

    async def run() -> None:
        loaded = await load_graph(find_graph(directory), REGISTRY)
        try:
            await scenario(loaded)
        finally:
            await loaded.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
