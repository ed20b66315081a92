"""The resources of the nodes that `graphrt run` runs: what a server would supply."""

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
from servers.cli.graph_source import located
from servers.cli.messages import CommandFailed


@contextmanager
def node_resources(
    path: str, plan: ValidatedGraph, registry: Registry, given: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Side packets with the resources of nodes, closed at the end.

    ``path``: of the graph. ``given``: the user's side packets; when the graph needs no others,
    nothing is made.

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
    # The loop that coroutines of the nodes will run on: a resource may belong to one loop.
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
