"""Times of the page in Chromium: the first view, and frames of a graph of 200 nodes.

    python -m bench.page_view [--visits N] [--seconds S] [--write FILE]

A server of a graph of 200 nodes gets one request after the other. Each visit has an empty cache.
The first view is timed from the last byte of the page's document, to the first paint with content
and to the drawn nodes. Then the picture is dragged and scaled all the time, while the interval
between frames is taken, and the time that scripts use in each. Chromium is the system's.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from bench.machine import ServerProcess, WrittenReport, describe_machine
from bench.metrics_cost import CALCULATORS

_NODES: Final = 200
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


def graph_text(nodes: int = _NODES) -> str:
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
    body = f'{{"model": "{server.model}", "messages": [{{"role": "user", "content": "x"}}]}}'
    address, fields = f"{server.url}/v3/chat/completions", {"Content-Type": "application/json"}

    def ask() -> None:
        while not is_over.is_set():
            asked = urllib.request.Request(address, body.encode(), fields)
            with urllib.request.urlopen(asked) as answer:
                answer.read()

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
        page.locator("[data-node]").nth(_NODES - 1).wait_for(state="attached")
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


def report(visits: int, seconds: float, write: Callable[[str], object]) -> None:
    """Measure, and write the tables."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is not installed")
    write("# The page in a browser\n")
    write(f"`python -m bench.page_view` on {describe_machine()}; Chromium without a graphics card,")
    write(f"on the cores that the server has too. Medians of {visits} visits, milliseconds.\n")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "large"
        place.mkdir()
        (place / "graph.pbtxt").write_text(graph_text())
        (place / "calcs.py").write_text(CALCULATORS)
        words = ("--calculators", str(place / "calcs.py"))
        with ServerProcess(place, *words) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            write("| from the document's last byte | first paint | drawn | longest |")
            write("|---|---|---|---|")
            for name, view in (("servables", "servables"), (f"{_NODES} nodes", "graph/large")):
                views = [first_view(browser, f"{server.url}/#/{view}") for _ in range(visits)]
                painted, drawn = zip(*views, strict=True)
                write(
                    f"| {name} | {median(painted):.0f} | {median(drawn):.0f} | {max(drawn):.0f} |"
                )
            with requests_to(server):
                between, script = frames(browser, f"{server.url}/#/graph/large", seconds)
            browser.close()
    write(f"\n{_NODES} nodes, scaled without a pause while packets travel:\n")
    write("| | median | 95 % |")
    write("|---|---|---|")
    for name, found in (("between two frames", between), ("scripts of a frame", script)):
        write(f"| {name} | {median(found):.1f} | {quantiles(found, n=20)[-1]:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--visits", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--write", type=Path, help="also write the tables to this file")
    words = parser.parse_args()
    write = WrittenReport()
    report(words.visits, words.seconds, write)
    write.keep(words.write)


if __name__ == "__main__":
    main()
