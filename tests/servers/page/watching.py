"""A real server on the test's loop whose graphs go on when the test says so, and live streams."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, Stop
from servers.config import GraphEntry
from servers.fronts.http import HttpSettings
from servers.page.settings import PageSettings
from servers.server.lifecycle import Server, ServerSettings
from tests.servers.serving.served_graphs import make_registry, write_graph
from tests.support.patience import PATIENCE

#: Words for running graphs, by the name in the request: "turn" is one turn, "end" the last.
orders: defaultdict[str, asyncio.Queue[str]] = defaultdict(asyncio.Queue)


class Turns(Calculator):
    """Sends an event per order that the request's queue gets."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    again = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    loopback = Out[bool]("LOOPBACK")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self.turn = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            self.orders = orders[cc.get(self.request).parsed_json["orders"]]
        else:
            order = await self.orders.get()
            if order == "fail":
                raise ValueError("told to fail")
            if order == "end":
                cc.emit(self.response, "data: [DONE]\n\n", at=self.turn)
                return
        cc.emit(self.response, f"data: {self.turn}\n\n", at=self.turn)
        cc.emit(self.loopback, True, at=self.turn)
        self.turn += 1


class Pieces(Calculator):
    """Sends an event per order in one call, each at once."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    piece = Out[str]("PIECE")
    timestamp_offset = None

    async def process(self, cc: CalculatorContext) -> None:
        for number in range(2):
            cc.emit(self.piece, f"data: {number}\n\n", at=number)
            cc.flush()
            await orders["pieces"].get()
        cc.emit(self.piece, "data: [DONE]\n\n", at=2)


class Numbers(Calculator):
    """A source of ten numbers."""

    number = Out[int]("NUMBER")

    def open(self, cc: CalculatorContext) -> None:
        self.next = 0

    def process(self, cc: CalculatorContext) -> None:
        if self.next == 10:
            raise Stop
        cc.emit(self.number, self.next, at=self.next)
        self.next += 1


class Slow(Calculator):
    """Takes a number per order, and answers after the last."""

    number = In[int]("NUMBER")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def process(self, cc: CalculatorContext) -> None:
        await orders["slow"].get()
        if cc.get(self.number) == 9:
            cc.emit(self.response, "done")


TURNS: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "turns"
  calculator: "Turns"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  output_stream: "LOOPBACK:loopback"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
}
"""
PRESSED: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
max_queue_size: 2
node { name: "numbers" calculator: "Numbers" output_stream: "NUMBER:number" }
node {
  name: "slow"
  calculator: "Slow"
  input_stream: "NUMBER:number"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
PIECES: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "pieces"
  calculator: "Pieces"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "PIECE:piece"
}
node {
  name: "after"
  calculator: "PassThroughCalculator"
  input_stream: "piece"
  output_stream: "output"
}
"""
ECHO: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "Echo"
  calculator: "Echo"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
GRAPHS: Final = {"turns": TURNS, "pressed": PRESSED, "echo": ECHO, "pieces": PIECES}


class Watched:
    """State of a page that reads a live stream: events, and the newest numbers of each graph."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.events: list[tuple[str, Any]] = []
        self.hello: dict[str, Any] = {}
        self.graphs: dict[str, dict[str, Any]] = {}
        self.nodes: dict[tuple[str, str], dict[str, Any]] = {}
        self.streams: dict[tuple[str, str], dict[str, Any]] = {}

    async def until(self, is_so: Callable[[Watched], bool]) -> None:
        """Read events until ``is_so`` holds. What it looks up may not be known yet."""

        def holds() -> bool:
            try:
                return is_so(self)
            except KeyError:
                return False

        async with asyncio.timeout(PATIENCE):
            while not holds():
                await self.read()

    async def read(self) -> tuple[str, Any]:
        """Read the next event. Raise StopAsyncIteration at the end of the stream."""
        name, data = "", ""
        async for line in self._lines:
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and name:
                self._take(name, json.loads(data))
                return self.events[-1]
        raise StopAsyncIteration

    def named(self, name: str) -> list[Any]:
        """Return the data of all events of a name so far."""
        return [data for event, data in self.events if event == name]

    def requests(self, at: str) -> list[str]:
        """Return the ids of requests of which an event was sent."""
        return [each["id"] for each in self.named("request") if each["at"] == at]

    def _take(self, name: str, data: Any) -> None:
        self.events.append((name, data))
        if name == "hello":
            self.hello = data
        if name == "graph":
            shape = self.hello["graphs"][data["g"]]
            self.graphs[data["g"]] = data
            for place, numbers in data["n"].items():
                node = self.nodes.setdefault((data["g"], shape["nodes"][int(place)]), {"h": {}})
                calls = {**node["h"], **dict(numbers["h"])}
                node.update(numbers, h=calls)
            for place, numbers in data["s"].items():
                self.streams[data["g"], shape["streams"][int(place)]] = numbers


class Page:
    """A client of one server, and the server."""

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client

    @asynccontextmanager
    async def watching(self, query: str = "", **more: Any) -> AsyncIterator[Watched]:
        """Open a live stream."""
        async with self.client.stream("GET", f"/v1/live?{query}", **more) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield Watched(answer.aiter_lines())

    @asynccontextmanager
    async def turning(self, name: str, request_id: str = "") -> AsyncIterator[AsyncIterator[str]]:
        """Send a request that streams until `orders` of this name end it."""
        async with self.streaming("turns", request_id, orders=name) as lines:
            yield lines

    @asynccontextmanager
    async def streaming(
        self, graph: str, request_id: str = "", **members: Any
    ) -> AsyncIterator[AsyncIterator[str]]:
        """Send a request to a graph that streams."""
        headers = {"x-request-id": request_id} if request_id else {}
        body = {"model": graph, "stream": True, **members}
        path = "/v3/chat/completions"
        async with self.client.stream("POST", path, json=body, headers=headers) as answer:
            assert answer.status_code == 200
            yield answer.aiter_lines()

    async def echo(self, **headers: str) -> httpx.Response:
        """Send a request that is answered at once."""
        return await self.client.post(
            "/v3/chat/completions", json={"model": "echo"}, headers=headers
        )


def on_page(
    folder: Path,
    scenario: Callable[[Page], Awaitable[None]],
    *,
    page: PageSettings | None = None,
    graphs: Iterable[str] = tuple(GRAPHS),
    further: tuple[GraphEntry, ...] = (),
    headers: dict[str, str] | None = None,
    **http: Any,
) -> None:
    """Run a scenario on a server with the graphs of `GRAPHS`."""

    async def run() -> None:
        orders.clear()
        registry = make_registry()
        for each in (Turns, Pieces, Numbers, Slow):
            registry.register_calculator(each)
        entries = tuple(write_graph(folder, name, GRAPHS[name]) for name in graphs)
        settings = HttpSettings(port=0, page=page or PageSettings(), **http)
        server = Server(ServerSettings((*entries, *further), settings, registry=registry))
        await server.start()
        try:
            await server.load()
            limits = httpx.Limits(max_connections=None)
            async with httpx.AsyncClient(
                base_url=server.addresses[0], timeout=PATIENCE, limits=limits, headers=headers
            ) as client:
                await scenario(Page(server, client))
        finally:
            await server.stop()

    asyncio.run(run())
