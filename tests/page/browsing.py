"""Chromium on a server's page, and what must hold after every test there.

Nothing is downloaded: the browser is the system's. Run `npm ci` in `page/` for the findings of axe.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

AXE: Final = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
#: The rules of axe that must find nothing.
RULES: Final = ("wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice")

Look = Literal["light", "dark"]

expect.set_options(timeout=PATIENCE * 1000)

# Frames are counted, and the time of scripts in them.
_FRAMES: Final = """
    window.frames_ = [];
    const request = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (paint) => request((time) => {
        const began = performance.now();
        paint(time);
        window.frames_.push([began, performance.now() - began]);
    });
"""
_VIOLATIONS: Final = """
    document.addEventListener("securitypolicyviolation", (event) =>
        console.error(`refused by ${event.violatedDirective}: ${event.blockedURI}`));
"""


def find_chromium() -> str | None:
    """Return the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium; skips the test where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox to offer.
        words = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=words)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page of a browser at a server's address, with everything that went wrong on it."""

    def __init__(self, page: Page, address: str, look: Look, expected: Sequence[str]) -> None:
        self.page = page
        self._look = look
        self._address = address
        self._expected = expected
        self._problems: list[str] = []
        page.set_default_timeout(PATIENCE * 1000)
        page.add_init_script(_VIOLATIONS)
        page.add_init_script(_FRAMES)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._problems.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        known = any(words in message.text for words in self._expected)
        if message.type in ("error", "warning") and not known:
            place = message.location.get("url", "")
            self._problems.append(f"{message.type} on the console: {message.text} {place}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._address, "blob:", "data:")):
            self._problems.append(f"a request to {request.url}")

    def go(self, fragment: str) -> None:
        """Open a view, such as ``graph/demo``."""
        self.page.goto(f"{self._address}#/{fragment}")

    def findings(self) -> list[str]:
        """Return what axe finds in the view, once it is there: its code arrives after the frame."""
        expect(self.page.locator("h1").first).to_be_attached()
        session = self.page.context.new_cdp_session(self.page)
        # A <script> would need another Content-Security-Policy.
        session.send("Runtime.evaluate", {"expression": AXE.read_text()})
        answer = session.send(
            "Runtime.evaluate",
            {
                "expression": f"axe.run({{runOnly: {list(RULES)}}}).then(found => JSON.stringify("
                "found.violations.map(rule => [rule.id, rule.nodes.map(node => "
                "node.target + ': ' + node.failureSummary)])))",
                "awaitPromise": True,
                "returnByValue": True,
            },
        )
        session.detach()
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        found: list[tuple[str, list[str]]] = json.loads(answer["result"]["value"])
        return [f"{rule}: {each}" for rule, nodes in found for each in nodes]

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, without `eval` in the page."""
        session = self.page.context.new_cdp_session(self.page)
        words = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = session.send("Runtime.evaluate", words)
        session.detach()
        return answer["result"].get("value")

    def check(self) -> None:
        """Assert that nothing was refused, written to the console or sent elsewhere, and that axe
        finds nothing in the view as it is now, in either look."""
        problems = [*self._problems, *(self._findings_in_both_looks() if AXE.exists() else [])]
        assert not problems, "\n".join(problems)

    def _findings_in_both_looks(self) -> list[str]:
        found = self.findings()
        other: Look = "light" if self._look == "dark" else "dark"
        self.page.emulate_media(color_scheme=other)
        found += [f"{other}: {each}" for each in self.findings()]
        self.page.emulate_media(color_scheme=self._look)
        return found


@contextmanager
def visit(
    browser: Browser,
    address: str,
    *,
    look: Look = "dark",
    size: tuple[int, int] = (1280, 800),
    expected: Sequence[str] = (),
    **words: Any,
) -> Iterator[Visit]:
    """Open a page of its own in a browser, and `Visit.check` it at the end.

    Args:
        expected: parts of messages on the console that the test provokes.
        words: further options of the browser's context.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=look, **words
    )
    try:
        visited = Visit(context.new_page(), address, look, expected)
        yield visited
        visited.check()
    finally:
        context.close()
