"""`PageViews`: the answers of the page's routes, without a transport."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Final, get_args

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import REGISTRY, NotFoundError, Registry
from graph_runtime.observe.tracing import TraceObject
from servers.drawing.drawing import Direction
from servers.page.events import Following, FollowRequest, GraphView, NodeView, Timeline
from servers.page.feed import FASTEST_HZ, LiveFeed, LiveReader, split_focus
from servers.page.live_graph import ShownGraph, view_graph, view_node
from servers.page.request_feed import MOST_AWAITED
from servers.page.scratch import Scratch
from servers.page.scratch_messages import Calculators, CalculatorView

#: Graphs, and nodes in focus, of one live stream.
MOST_WATCHED: Final = 64
MOST_IN_FOCUS: Final = 8
_SLOWEST_HZ: Final = 0.1
#: Ids of requests that the journal takes from clients.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


class PageViews:
    """Answers about what runs. Belongs to one event loop."""

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed
        #: Reads the files of a graph that is not loaded, in a thread; set by the server.
        self.read_graph: Callable[[str], ShownGraph] | None = None
        #: Returns the registry of all graphs; set by the server.
        self.registry: Callable[[], Registry] = lambda: REGISTRY
        #: Checks and runs drafts; None if that is not allowed.
        self.scratch: Scratch | None = None

    def reader(self, graphs: str, hz: str, focus: str) -> LiveReader:
        """Return a reader for the query of ``GET /v1/live``; "" stands for a missing value.

        Raises:
            RequestError: a value is invalid (INVALID_ARGUMENT).
            UnavailableError: see `LiveFeed.check_room`.
        """
        names = [name for name in graphs.split(",") if name]
        nodes = [name for name in focus.split(",") if name]
        if len(names) > MOST_WATCHED:
            raise RequestError(f"at most {MOST_WATCHED} graphs can be watched", param="graphs")
        if len(nodes) > MOST_IN_FOCUS:
            raise RequestError(f"at most {MOST_IN_FOCUS} nodes can be in focus", param="focus")
        try:
            rate = float(hz) if hz else FASTEST_HZ
        except ValueError:
            rate = 0.0
        if not _SLOWEST_HZ <= rate <= FASTEST_HZ:
            raise RequestError(
                f"a number from {_SLOWEST_HZ:g} to {FASTEST_HZ:g} is needed", param="hz"
            )
        self.feed.check_room()
        return LiveReader(self.feed.state, names, rate, split_focus(nodes, names))

    async def graph(self, name: str, expand: Collection[str], direction: str) -> GraphView:
        """Return the drawing of a graph, loaded or not; see `view_graph`.

        ``direction``: "" stands for "right".

        Raises:
            RequestError: there is no such direction (INVALID_ARGUMENT).
            NotFoundError: there is no such graph.
            GraphError: the graph is not loaded, and its file does not parse.
        """
        if direction not in ("", *get_args(Direction)):
            names = " or ".join(get_args(Direction))
            raise RequestError(f"{names} is needed", param="direction")
        loaded = self.feed.graphs.get(name)
        shown = await self._read(name) if loaded is None else loaded.shown
        return await asyncio.to_thread(
            view_graph,
            shown,
            "" if loaded is None else loaded.revision,
            expand,
            "down" if direction == "down" else "right",
            with_text=self.feed.settings.contents,
        )

    async def _read(self, name: str) -> ShownGraph:
        if self.read_graph is None:
            raise NotFoundError(f'There is no graph "{name}"')
        return await asyncio.to_thread(self.read_graph, name)

    async def node(self, name: str, node: str) -> NodeView:
        """Return the state of a node of a loaded graph.

        Raises:
            NotFoundError: the graph is not loaded, or has no such node.
        """
        graph = self.feed.graphs.get(name)
        if graph is None:
            raise NotFoundError(f'No graph "{name}" is loaded')
        planned = next((each for each in graph.plan.nodes if each.name == node), None)
        if planned is None:
            raise NotFoundError(f'The graph "{name}" has no node "{node}"')

        # In a thread: it reads the declarations of options.
        def _page() -> CalculatorView:
            from servers.page.calculator_page import make_page

            return make_page(planned.calculator_type, planned.calculator_class)

        docs = await asyncio.to_thread(_page)
        return view_node(graph, planned, docs, with_text=self.feed.settings.contents)

    async def calculators(self) -> Calculators:
        """Return names and summaries of all calculators that graphs of this server may have."""

        def listed() -> Calculators:
            from servers.page.calculator_page import list_calculators

            return list_calculators(self.registry())

        return await asyncio.to_thread(listed)

    async def calculator(self, name: str) -> CalculatorView:
        """Return the description of one.

        Raises:
            NotFoundError: there is none of this name.
        """

        def viewed() -> CalculatorView:
            from servers.page.calculator_page import view_calculator

            return view_calculator(name, self.registry())

        return await asyncio.to_thread(viewed)

    async def timeline(self, request_id: str) -> Timeline:
        """Return the timeline of a followed request.

        Raises:
            NotFoundError: it was not followed, or is forgotten.
        """
        found = await asyncio.to_thread(self.feed.followed.timeline, request_id)
        if found is None:
            raise _not_followed()
        return found

    async def perfetto(self, request_id: str) -> TraceObject:
        """Return the trace of a followed request in the Trace Event Format.

        Raises:
            NotFoundError: it was not followed, or is forgotten.
        """
        found = await asyncio.to_thread(self.feed.followed.perfetto, request_id)
        if found is None:
            raise _not_followed()
        return found

    def follow(self, name: str, asked: FollowRequest) -> Following:
        """Follow coming requests of a loaded graph.

        Raises:
            NotFoundError: the graph is not loaded.
            RequestError: the body names neither requests or both, or a value is invalid.
        """
        if name not in self.feed.graphs:
            raise NotFoundError(f'No graph "{name}" is loaded')
        number, request_id = asked.next, asked.request_id
        if isinstance(number, int) == isinstance(request_id, str):
            raise RequestError('the body must have either "next" or "request_id"')
        if isinstance(number, int):
            if not 1 <= number <= MOST_AWAITED:
                raise RequestError(f"a number from 1 to {MOST_AWAITED} is needed", param="next")
            return self.feed.followed.follow_next(name, number)
        assert isinstance(request_id, str)
        if _REQUEST_ID.fullmatch(request_id) is None:
            raise RequestError(
                "1 to 128 letters, digits and . _ - are needed, as in the header x-request-id",
                param="request_id",
            )
        return self.feed.followed.follow_named(name, request_id)


def _not_followed() -> NotFoundError:
    return NotFoundError(
        "There is no timeline of this request: it was not followed, or that was too long ago; POST "
        "/v1/graphs/{model}/follow before it is sent"
    )
