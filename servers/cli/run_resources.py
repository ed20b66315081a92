"""Resources of nodes for `graphrt run`, which a server would supply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graph_runtime import (
    GraphError,
    Registry,
    ResourceSettings,
    ValidatedGraph,
    make_resources,
)
from graph_runtime.engine.drivers.sync import coroutine_loop
from servers.cli.graph_registry import located
from servers.cli.messages import CommandFailed


@contextmanager
def node_resources(
    path: str, plan: ValidatedGraph, registry: Registry, given: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Make the resources of nodes, yield them as side packets, and close them at the end.

    Args:
        path: the graph's file.
        given: the user's side packets; nothing is made if the graph needs no others.

    Raises:
        CommandFailed: a resource cannot be made.
    """
    missing = [
        name
        for name, (_, is_optional) in plan.side_packet_types.items()
        if not is_optional and name not in given
    ]
    if not missing:
        yield {}
        return
    # The loop that will run the coroutines of the nodes: a resource may belong to one loop.
    loop = coroutine_loop()
    settings = ResourceSettings(Path(path).resolve().parent)
    making = asyncio.run_coroutine_threadsafe(make_resources(plan, settings, registry), loop)
    try:
        resources = making.result()
    except GraphError as error:
        raise CommandFailed(located(path, error)) from error
    try:
        yield resources.side_packets
    finally:
        asyncio.run_coroutine_threadsafe(resources.close(), loop).result()
