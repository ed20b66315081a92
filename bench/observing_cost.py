"""What it costs to observe a server: metrics and traces, the page's data, and the page itself.

    python -m bench.observing_cost metrics [--sets N] [--rounds N] [--write FILE]
    python -m bench.observing_cost live [--sets N] [--rounds N] [--seconds S] [--write FILE]
    python -m bench.observing_cost page [--visits N] [--seconds S] [--write FILE]

``metrics``: processor time of servers with metrics and traces, and of one without. The servers run
at the same time and get short rounds of the same requests one after the other, so that other load
of the machine hits all. Two equal processes still differ by some hundredths, so there are several
sets, and medians of them. Requests are small: except for those to the example model, no work of a
model hides the cost. Spans go to a collector that only reads them. The added cost is that of the
server's own process, without the engine's.

``live``: one server gets the same requests in rounds, with 0, 1 and 5 readers of ``GET /v1/live``
in turns, and is left alone for some seconds with each number of readers. A second server with
``--page=false`` gets the same rounds. At the end the cost of one look at many running graphs is
measured in this process.

``page``: times of the page in Chromium, the system's. A server of a graph of 200 nodes gets one
request after the other. Each visit has an empty cache. The first view is timed from the last byte
of the page's document, to the first paint with content and to the drawn nodes. Then the picture is
dragged and scaled all the time, while the interval between frames is taken, and the time that
scripts use in each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final

from bench.clients import HttpConnection, http_request, rest_request
from bench.machine import (
    DEMO,
    PASS_THROUGH,
    JsonClient,
    ServerProcess,
    add_write,
    describe_machine,
    head,
    nanoseconds,
    publish,
    row,
    run_command,
)
from graph_runtime import (
    CalculatorGraph,
    RunTotals,
    ValidatedGraph,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.observe.live_calls import LiveCalls

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVENTS: Final = 1000
STREAMS, TOKENS = 32, 100
#: Number of requests in a round, by kind.
ROUND: Final = {"tokens": STREAMS, "infer": 100, "answer": 100, "events": 2}
#: The unit of a figure, and how many of them a request has.
UNITS: Final = {"tokens": TOKENS, "infer": 1, "answer": 1, "events": EVENTS}
SHOWN: Final = {
    "tokens": f"the example model, {STREAMS} streams of {TOKENS} tokens at once; per token",
    "infer": "`/v2/models/NAME/infer`, FP32 [1, 256], a graph that passes it on; per request",
    "answer": "`/v3/chat/completions`, a graph that answers with one packet; per request",
    "events": "the same, a stream of 1,000 events; per event",
}
TELL: Final = """
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "Tell"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""
CALCULATORS: Final = '''
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Tell(Calculator):
    """Sends so many events as the body says; without a number one answer."""

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    timestamp_offset = None

    def process(self, cc: CalculatorContext) -> None:
        events = cc.get(self.request).parsed_json.get("events")
        if events is None:
            cc.emit(self.response, "{}")
            return
        for number in range(events):
            cc.emit(self.response, f"data: {number}\\n\\n", at=number)
'''


def request_of(kind: str, model: str) -> bytes:
    """Return the bytes of a whole request."""
    if kind == "infer":
        return rest_request(model, 256, "localhost")
    body: dict[str, object] = {"model": model}
    if kind == "tokens":
        body |= {"stream": True, "max_tokens": TOKENS, "ignore_eos": True}
        body["messages"] = [{"role": "user", "content": "Hello"}]
    elif kind == "events":
        body |= {"stream": True, "events": EVENTS}
    return http_request("/v3/chat/completions", "localhost", json.dumps(body).encode())


def connections(kind: str, server: ServerProcess) -> list[HttpConnection]:
    """Open the connections of a round."""
    count = STREAMS if kind == "tokens" else 1
    return [HttpConnection(server.address) for _ in range(count)]


def run_round(clients: Sequence[HttpConnection], request: bytes, count: int) -> None:
    """Send ``count`` requests, one at a time on each connection."""
    for _ in range(count // len(clients)):
        for client in clients:
            client.send(request)
        for client in clients:
            client.receive()


def write_tell(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Write the graph of `Tell`; return its directory and the server's arguments."""
    place = folder / "tell"
    place.mkdir()
    (place / "graph.pbtxt").write_text(TELL)
    calculators = folder / "tell.py"
    calculators.write_text(CALCULATORS)
    return place, ("--calculators", str(calculators))


# Metrics ------------------------------------------------------------------------------------------

_WITHOUT, _METRICS, _TRACES = "without", "metrics", "metrics and traces"


@dataclass
class Cost:
    """Seconds of processor time per round: of the server's own process, and with its engine's."""

    own: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


class _Collector(BaseHTTPRequestHandler):
    """A handler that reads requests and ignores them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """Run a collector of spans; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure_set(kind: str, directory: Path, rounds: int, spans: str, *more: str) -> dict[str, Cost]:
    """Measure one set of servers, in turns. ``spans``: the collector's address."""
    ways = {
        _WITHOUT: ("--metrics_enable=false",),
        _METRICS: (),
        _TRACES: ("--otlp_endpoint", spans),
    }
    costs = {way: Cost() for way in ways}
    with ExitStack() as stack:
        servers = {
            way: stack.enter_context(ServerProcess(directory, *more, *arguments))
            for way, arguments in ways.items()
        }
        request = request_of(kind, servers[_WITHOUT].model)
        clients = {way: connections(kind, server) for way, server in servers.items()}
        turns = list(servers.items())
        if kind == "tokens":
            rounds = max(1, rounds // 4)  # rounds of this kind take long
        for number in range(rounds + 2):
            for way, server in turns if number % 2 else reversed(turns):
                before = {part: nanoseconds(pid) for part, pid in server.pids.items()}
                run_round(clients[way], request, ROUND[kind])
                used = {
                    part: (nanoseconds(pid) - before[part]) / 1e9
                    for part, pid in server.pids.items()
                }
                if number >= 2:  # warm up
                    costs[way].own.append(used["server"])
                    costs[way].whole.append(sum(used.values()))
        for each in clients.values():
            for client in each:
                client.close()
    return costs


def costs_of(
    kind: str, sets: int, directory: Path, rounds: int, spans: str, *more: str
) -> tuple[float, dict[str, float]]:
    """Return microseconds per unit without metrics and traces, and the additions, as medians.

    Uses the quietest round of each server: other load of the machine only adds to it.
    """
    unit = ROUND[kind] * UNITS[kind] / 1e6
    measured = [measure_set(kind, directory, rounds, spans, *more) for _ in range(sets)]
    base = median(min(costs[_WITHOUT].whole) for costs in measured) / unit
    added = {
        way: median(min(costs[way].own) - min(costs[_WITHOUT].own) for costs in measured) / unit
        for way in (_METRICS, _TRACES)
    }
    return base, added


def measure_text(directory: Path, rounds: int) -> tuple[float, int]:
    """Seconds from a request for ``/metrics`` to its answer, and the answer's size in bytes."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    taken: list[float] = []
    text = b""
    with ServerProcess(directory) as server:
        client = HttpConnection(server.address)
        client.ask(request_of("infer", server.model))
        for _ in range(rounds):
            began = perf_counter()
            text = client.ask(request)
            taken.append(perf_counter() - began)
        client.close()
    return median(taken), len(text)


def metrics_report(sets: int, rounds: int) -> Iterator[str]:
    """Measure, and yield the report."""
    yield "# What metrics and traces cost"
    yield ""
    yield f"`python -m bench.observing_cost metrics` on {describe_machine()}."
    yield f"Processor time of the server's processes in the quietest of {rounds} rounds, of the"
    yield f"model {rounds // 4}; medians of {sets} sets of servers. Without: of all its processes;"
    yield "added: of its own process, the engine's not included."
    yield ""
    yield from head("", "without", "metrics add", "", "metrics and traces add", "")
    with tempfile.TemporaryDirectory() as folder, collector() as spans:
        passing = Path(folder, "pass")
        passing.mkdir()
        (passing / "graph.pbtxt").write_text(PASS_THROUGH)
        telling, more = write_tell(Path(folder))
        places = {"tokens": DEMO, "infer": passing}
        for kind in ROUND:
            words = () if kind in places else more
            place = places.get(kind, telling)
            base, added = costs_of(kind, sets, place, rounds, spans, *words)
            cells = (
                each for cost in added.values() for each in (f"{cost:.2f} µs", f"{cost / base:.1%}")
            )
            yield row(SHOWN[kind], f"{base:.2f} µs", *cells)
        seconds, size = measure_text(passing, 200)
    yield ""
    yield f"`GET /metrics` of one graph: {seconds * 1e3:.1f} ms for {size:,} bytes."


def metrics(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Cost of metrics and traces: processor time of servers with them, and of one without."""
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    add_write(parser)
    given = parser.parse_args(words)
    publish(metrics_report(given.sets, given.rounds), given.write)


# Live ---------------------------------------------------------------------------------------------

READERS: Final = (0, 1, 5)
KINDS: Final = ("tokens", "answer", "events")
_NODES: Final = 20
_RUNS: Final = (1, 128, 1024)


class Reader:
    """A client that reads a live stream until `close`, and counts its bytes."""

    def __init__(self, server: ServerProcess) -> None:
        self.received = 0
        self._client = HttpConnection(server.address)
        path = f"/v1/live?graphs={server.model}"
        self._client.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._has_begun.wait(60)

    def _read(self) -> None:
        while data := self._client.receive_some():
            self.received += len(data)
            self._has_begun.set()

    def close(self) -> None:
        self._client.shut_down()
        self._thread.join(60)
        self._client.close()


@contextmanager
def watching(server: ServerProcess, count: int) -> Iterator[list[Reader]]:
    """Watch a server with ``count`` readers."""
    readers = [Reader(server) for _ in range(count)]
    try:
        yield readers
    finally:
        for reader in readers:
            reader.close()


def measure_rounds(kind: str, directory: Path, rounds: int, *more: str) -> dict[str, float]:
    """Return microseconds of processor time per unit, of the quietest round of each way."""
    used: dict[str, list[int]] = {}
    with ExitStack() as stack:
        plain = stack.enter_context(ServerProcess(directory, *more, "--page=false"))
        server = stack.enter_context(ServerProcess(directory, *more, "--page=true"))
        request = request_of(kind, server.model)
        clients = {each: connections(kind, each) for each in (plain, server)}
        ways = [("without the page", plain, 0), *((f"{n} readers", server, n) for n in READERS)]
        for number in range(rounds + 2):
            for way, asked, readers in ways if number % 2 else reversed(ways):
                with watching(asked, readers):
                    before = nanoseconds(asked.pids["server"])
                    run_round(clients[asked], request, ROUND[kind])
                    if number >= 2:  # warm up
                        used.setdefault(way, []).append(nanoseconds(asked.pids["server"]) - before)
        for each in clients.values():
            for client in each:
                client.close()
    unit = ROUND[kind] * UNITS[kind] * 1000
    return {way: min(used[way]) / unit for way, _, _ in ways}


def measure_idle(directory: Path, seconds: float) -> dict[int, tuple[float, float]]:
    """Return the share of a core, and bytes per second and reader, by the number of readers."""
    found = {}
    with ServerProcess(directory, "--page=true") as server:
        time.sleep(2)
        for count in READERS:
            with watching(server, count) as readers:
                time.sleep(1)
                before = nanoseconds(server.pids["server"])
                sent = sum(each.received for each in readers)
                time.sleep(seconds)
                used = (nanoseconds(server.pids["server"]) - before) / 1e9 / seconds
                sent = sum(each.received for each in readers) - sent
            found[count] = (used, sent / seconds / max(1, count))
    return found


def _plan() -> ValidatedGraph:
    nodes = "".join(
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{number}" '
        f'output_stream: "s{number + 1}" }}\n'
        for number in range(_NODES)
    )
    return validate_graph(
        parse_graph_text(f'input_stream: "s0"\noutput_stream: "s{_NODES}"\n{nodes}')
    )


async def measure_looks() -> dict[int, float]:
    """Return the microseconds of one look by the number of running runs."""
    found = {}
    plan = _plan()
    totals = RunTotals(plan)
    graphs: list[CalculatorGraph] = []
    for count in _RUNS:
        while len(graphs) < count:
            graph = CalculatorGraph(validated_graph=plan)
            graph.count_into(totals)
            await graph.start_run_async()
            graph.add_packet_to_input_stream("s0", "a packet", 0)
            graphs.append(graph)
        await asyncio.sleep(0)
        taken = []
        for _ in range(20):
            began = thread_time_ns()
            totals.look()
            taken.append(thread_time_ns() - began)
        found[count] = min(taken) / 1000
    for graph in graphs:
        await graph.close_async()
    return found


def measure_calls(packets: int = 20_000) -> tuple[float, float]:
    """Return the microseconds per call of a graph that nobody watches, and of a watched one."""
    plan = _plan()

    def run(*, is_watched: bool) -> float:
        totals = RunTotals(plan)
        graph = CalculatorGraph(validated_graph=plan)
        graph.count_into(totals)
        graph.start_run()
        if is_watched:
            totals.observer = LiveCalls(len(plan.nodes))
        began = perf_counter_ns()
        for place in range(packets):
            graph.add_packet_to_input_stream("s0", "a packet", place)
        graph.wait_until_idle()
        taken = perf_counter_ns() - began
        graph.close()
        return taken / 1000 / packets / _NODES

    without, watched = [], []
    for _ in range(5):
        without.append(run(is_watched=False))
        watched.append(run(is_watched=True))
    return min(without), min(watched)


def live_report(sets: int, rounds: int, seconds: float) -> Iterator[str]:
    """Measure, and yield the report."""
    yield "# What the page's data cost"
    yield ""
    yield f"`python -m bench.observing_cost live` on {describe_machine()}."
    yield f"Processor time of the server's own process in the quietest of {rounds} rounds, of the"
    yield f"model {max(1, rounds // 4)}; medians of {sets} sets of servers. Equal processes"
    yield "differ by some hundredths."
    yield ""
    ways = ("without the page", *(f"{count} readers" for count in READERS))
    yield from head("", *ways)
    with tempfile.TemporaryDirectory() as folder:
        telling = write_tell(Path(folder))
        for kind in KINDS:
            place, more = (DEMO, ()) if kind == "tokens" else telling
            turns = max(1, rounds // 4) if kind == "tokens" else rounds
            measured = [measure_rounds(kind, place, turns, *more) for _ in range(sets)]
            found = {way: median(each[way] for each in measured) for way in ways}
            yield row(SHOWN[kind], *(f"{found[way]:.2f} µs" for way in ways))
    idle = measure_idle(DEMO, seconds)
    shares = (f"{share:.2%}" for share, _ in idle.values())
    yield row(f"the example model, no requests for {seconds:g} s; share of a core", "", *shares)
    looks = asyncio.run(measure_looks())
    told = ", ".join(f"{count:,}: {taken:,.0f} µs" for count, taken in looks.items())
    yield ""
    yield f"One look at the running runs of a graph of {_NODES} nodes, by their number: {told}."
    without, watched = measure_calls()
    yield f"One call of a node: {without:.2f} µs, watched {watched:.2f} µs."


def live(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Cost of the page's data: processor time of a server that nobody watches, and with readers."""
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20)
    add_write(parser)
    given = parser.parse_args(words)
    publish(live_report(given.sets, given.rounds, given.seconds), given.write)


# Page ---------------------------------------------------------------------------------------------

_DRAWN_NODES: Final = 200
_PATIENCE_MS: Final = 120_000
#: Notes when the first node's button is there and the frame with it is painted.
_WATCH: Final = """
    window.drawn_ = new Promise((done) => {
        const look = () => document.querySelector("[data-node], main h1")
            ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
            : requestAnimationFrame(look);
        requestAnimationFrame(look);
    });
    window.frames_ = [];
    const request = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (paint) => request((time) => {
        const began = performance.now();
        paint(time);
        window.frames_.push([time, performance.now() - began]);
    });
"""
_FIRST_VIEW: Final = """
    drawn_.then((drawn) => {
        const [page] = performance.getEntriesByType("navigation");
        const [paint] = performance.getEntriesByName("first-contentful-paint");
        return [paint.startTime - page.responseEnd, drawn - page.responseEnd];
    })
"""


def graph_text(nodes: int = _DRAWN_NODES) -> str:
    """Return a graph of HTTP requests with so many nodes, one in three with two streams."""
    parts = [
        'input_stream: "HTTP_REQUEST_PAYLOAD:s"',
        'output_stream: "HTTP_RESPONSE_PAYLOAD:output"',
    ]
    for i in range(nodes - 1):
        streams = [f'input_stream: "{f"s{i - 1}" if i else "s"}" output_stream: "s{i}"']
        if i % 3 == 0 and i >= 9:
            streams.append(f'input_stream: "s{i - 8}" output_stream: "t{i}"')
        parts.append(
            f'node {{ name: "n{i}" calculator: "PassThroughCalculator" {" ".join(streams)} }}'
        )
    parts.append(
        f'node {{ name: "last" calculator: "Tell" input_stream: "HTTP_REQUEST_PAYLOAD:s{nodes - 2}"'
        ' output_stream: "HTTP_RESPONSE_PAYLOAD:output" }'
    )
    return "\n".join(parts)


@contextmanager
def requests_to(server: ServerProcess) -> Iterator[None]:
    """Send one request after the other until the block ends."""
    is_over = threading.Event()
    body = {"model": server.model, "messages": [{"role": "user", "content": "x"}]}

    def ask() -> None:
        with JsonClient(server.address) as client:
            while not is_over.is_set():
                client.post("/v3/chat/completions", body)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def page_of(browser: Browser) -> Iterator[Page]:
    """Open a page with an empty cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        page.set_default_timeout(_PATIENCE_MS)
        page.add_init_script(_WATCH)
        yield page
    finally:
        context.close()


def value_of(page: Page, expression: str) -> Any:
    """Return the value of an expression without `eval`, which the page's policy forbids."""
    session = page.context.new_cdp_session(page)
    words = {"expression": expression, "returnByValue": True, "awaitPromise": True}
    value = session.send("Runtime.evaluate", words)["result"]["value"]
    session.detach()
    return value


def first_view(browser: Browser, address: str) -> tuple[float, float]:
    """Return milliseconds from the document to the first paint, and to the drawn view."""
    with page_of(browser) as page:
        page.goto(address)
        painted, drawn = value_of(page, _FIRST_VIEW)
        return painted, drawn


def frames(browser: Browser, address: str, seconds: float) -> tuple[list[float], list[float]]:
    """Return the intervals between frames and the time of scripts in each, in milliseconds."""
    with page_of(browser) as page:
        page.goto(address)
        page.locator("[data-node]").nth(_DRAWN_NODES - 1).wait_for(state="attached")
        page.mouse.move(720, 450)
        value_of(page, "frames_.length = 0")
        session = page.context.new_cdp_session(page)
        drags = int(seconds * 50)
        for step in range(drags):
            move = {"type": "mouseWheel", "x": 720 + step % 40, "y": 450, "deltaX": 0}
            session.send("Input.dispatchMouseEvent", {**move, "deltaY": 20 * (-1) ** (step // 25)})
        found = value_of(page, "frames_")
        times = sorted({time for time, _ in found})
        between = [after - before for before, after in pairwise(times)]
        return between, [took for _, took in found]


def page_report(visits: int, seconds: float) -> Iterator[str]:
    """Measure, and yield the tables."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is not installed")
    yield "# The page in a browser"
    yield ""
    yield (
        f"`python -m bench.observing_cost page` on {describe_machine()}; Chromium without a "
        "graphics card,"
    )
    yield f"on the cores that the server has too. Medians of {visits} visits, milliseconds."
    yield ""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "large"
        place.mkdir()
        (place / "graph.pbtxt").write_text(graph_text())
        (place / "calcs.py").write_text(CALCULATORS)
        words = ("--calculators", str(place / "calcs.py"))
        with ServerProcess(place, *words) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            yield from head("from the document's last byte", "first paint", "drawn", "longest")
            for name, view in (
                ("servables", "servables"),
                (f"{_DRAWN_NODES} nodes", "graph/large"),
            ):
                views = [first_view(browser, f"{server.url}/#/{view}") for _ in range(visits)]
                painted, drawn = zip(*views, strict=True)
                times = (median(painted), median(drawn), max(drawn))
                yield row(name, *(f"{each:.0f}" for each in times))
            with requests_to(server):
                between, script = frames(browser, f"{server.url}/#/graph/large", seconds)
            browser.close()
    yield ""
    yield f"{_DRAWN_NODES} nodes, scaled without a pause while packets travel:"
    yield ""
    yield from head("", "median", "95 %")
    for name, found in (("between two frames", between), ("scripts of a frame", script)):
        yield row(name, f"{median(found):.1f}", f"{quantiles(found, n=20)[-1]:.1f}")


def page(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Times of the page in Chromium: the first view, and frames of a graph of 200 nodes."""
    parser.add_argument("--visits", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10)
    add_write(parser)
    given = parser.parse_args(words)
    publish(page_report(given.visits, given.seconds), given.write)


if __name__ == "__main__":
    run_command("bench.observing_cost", __doc__, {"metrics": metrics, "live": live, "page": page})
