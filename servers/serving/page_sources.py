"""States of servables for the page, and the files of graphs that are not loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from graph_runtime import NodePlan, NotFoundError
from servers.contract.data_plane import ServableState
from servers.operations.loop_watchdog import Stall
from servers.page.events import FilePlace, ServableNow
from servers.page.live_graph import ShownGraph
from servers.serving.graph_definition import GraphDefinition
from servers.serving.model_repository import ModelRepository
from servers.serving.models.model_definition import ModelDefinition
from servers.serving.servable import VERSION, Loading, Servable, ShowsGraph, UseCount
from servers.serving.served_entry import ServedEntry


class StallReporter:
    """Names nodes for a `servers.operations.loop_watchdog.LoopWatchdog` and takes its reports.

    ``servables`` returns what is served now.
    """

    def __init__(self, servables: Callable[[], Sequence[Servable]]) -> None:
        self._servables = servables

    def name_of(self, node: NodePlan) -> str:
        """Return ``node "x" of graph "y"``. Safe in any thread."""
        graph = self._graph_of(node)
        return f'node "{node.name}"' + (f' of graph "{graph.name}"' if graph is not None else "")

    def note(self, stall: Stall) -> None:
        """Keep a stall beside the state of its graph until the graph is loaded again."""
        graph = self._graph_of(stall.node) if stall.node is not None else None
        if graph is not None and stall.node is not None:
            graph.hold_up = (
                f'its node "{stall.node.name}" held up the whole server for {stall.seconds:.0f} s, '
                f"until {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; a calculator that computes for "
                f"long needs an executor, or to be a coroutine"
            )

    def _graph_of(self, node: NodePlan) -> GraphDefinition | None:
        for each in self._servables():
            if isinstance(each, GraphDefinition) and each.holds(node):
                return each
        return None


#: A place in a reason: ``graph.pbtxt:6:3``.
_PLACE: Final = re.compile(r"(?:^|[\s(])([^\s:()]+\.\w+):(\d{1,9}):(\d{1,9})")


def servables_now(
    repository: ModelRepository, memory_of: Callable[[str], int | None]
) -> Sequence[ServableNow]:
    """Return everything that is configured, in its order, a line per version of a model.

    ``memory_of``: returns the bytes of memory of a graph's processes; None if they are unknown.
    """
    return [each for slot in repository.slots() for each in _of_slot(slot, memory_of)]


def shown_graph_of(repository: ModelRepository, name: str) -> ShownGraph:
    """Read the files of a graph that need not be loaded. For a thread.

    Raises:
        NotFoundError: the configuration names no such graph.
        GraphError: its file cannot be read or does not parse (FAILED_PRECONDITION).
    """
    for each in repository.servables():
        if isinstance(each, ShowsGraph) and name in (each.name, *each.adapters):
            return each.read_shown()
    raise NotFoundError(f'There is no graph "{name}"')


def _of_slot(slot: ServedEntry, memory_of: Callable[[str], int | None]) -> Iterator[ServableNow]:
    servable = slot.servable
    rejected = "" if slot.rejected is None else slot.rejected.reason
    loading = list(slot.loading())
    if not isinstance(servable, ModelDefinition):
        users = None
        if isinstance(servable, GraphDefinition) and servable.graph is not None:
            users = servable.graph.users
        role = servable.http_role
        yield _line(
            servable.name,
            VERSION,
            servable.state,
            servable.reason or servable.unavailable_reason,
            servable.created,
            loading[0] if loading else None,
            users,
            task="" if role is None else role.task,
            adapters=list(servable.adapters),
            replaced_by_failed=rejected,
            memory_bytes=memory_of(servable.name),
        )
        return
    versions = list(servable.versions.values())
    for version in versions:
        yield _line(
            servable.name,
            str(version.number),
            version.state,
            version.reason,
            version.created,
            version.loading,
            version.users,
            is_graph=False,
        )
    if not versions:
        state, reason, since = servable.state, servable.reason, servable.created
        yield _line(servable.name, "", state, reason, since, None, None, is_graph=False)


def _line(
    name: str,
    version: str,
    state: ServableState,
    reason: str,
    since: int,
    loading: Loading | None,
    users: UseCount | None,
    *,
    is_graph: bool = True,
    task: str = "",
    adapters: list[str] | None = None,
    replaced_by_failed: str = "",
    memory_bytes: int | None = None,
) -> ServableNow:
    found = _PLACE.search(reason or replaced_by_failed)
    return ServableNow(
        name=name,
        kind="graph" if is_graph else "model",
        version=version,
        state=state.name,  # type: ignore[arg-type]  # states have the same names
        phase="" if loading is None else loading.progress.phase,
        percent=0 if loading is None else loading.percent,
        reason=reason,
        since=since,
        place=None if found is None else FilePlace(found[1], int(found[2]), int(found[3])),
        in_flight=0 if users is None else users.requests,
        limit=None if users is None else users.limit,
        memory_bytes=memory_bytes,
        task=task,
        adapters=adapters or [],
        replaced_by_failed=replaced_by_failed,
    )
