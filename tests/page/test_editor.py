"""The editor of graphs against a real server: offers, findings, the drawing, and a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.browsing import Visit, visit
from tests.servers.cli.serving import Serving, make_site
from tests.support.patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder: Path = tmp_path_factory.mktemp("site")
    make_site(folder)
    with Serving(folder, "config.json", "--page_contents", "true") as server:
        yield server.wait_until_serving()


@pytest.fixture
def visited(serving: Serving, browser: Browser) -> Iterator[Visit]:
    with visit(browser, f"http://127.0.0.1:{serving.port}/") as opened:
        yield opened


def text_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Text of the graph")


def write(page: Page, text: str) -> None:
    """Type at the end of the text."""
    text_of(page).click()
    page.keyboard.press("Control+End")
    page.keyboard.type(text)


def replace(page: Page, text: str) -> None:
    """Replace the whole text."""
    text_of(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_the_first_graph_is_valid_drawn_and_runs(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    state = page.get_by_role("status").filter(has_text="2 nodes")
    expect(state).to_contain_text("valid")
    expect(page.get_by_role("button", name=re.compile("^FlowLimiter"))).to_be_visible()
    page.get_by_role("tab", name="Try").click()
    field = page.get_by_role("textbox", name=re.compile("^frames"))
    expect(field).to_have_value('"first"\n"second"\n"third"')
    page.get_by_role("button", name="Run").click()
    rows = page.get_by_role("table").locator("tbody tr")
    expect(rows.first).to_contain_text("first")
    expect(page.get_by_role("list", name=re.compile("^Calls over"))).to_contain_text("FlowLimiter")
    expect(page.get_by_role("link", name="Trace")).to_be_visible()


def test_a_misspelt_calculator_is_underlined_and_the_offer_mends_it(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    replace(page, 'input_stream: "in"\nnode {\n  calculator: "PassThrou"\n  input_stream: "in"\n}')
    expect(page.locator(".finding.error")).to_have_text('"PassThrou"')
    finding = page.get_by_role("button", name=re.compile("error · 3:"))
    expect(finding).to_contain_text("Did you mean")
    visited.check()
    finding.click()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+ ")
    offers = page.get_by_role("listbox", name="Completions")
    offers.get_by_role("option").filter(has_text="PassThroughCalculator").first.click()
    expect(text_of(page)).to_contain_text('calculator: "PassThroughCalculator"')
    expect(page.locator(".finding.error")).not_to_have_text('"PassThrou"')


def test_streams_and_options_are_offered_as_one_types(visited: Visit) -> None:
    page = visited.page
    page.clock.install()
    visited.go("editor")
    write(page, "node {")
    page.keyboard.press("Enter")
    page.keyboard.type('calculator: "FlowLimiterCalculator')
    page.keyboard.press("Escape")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.type('input_stream: "')
    offers = page.get_by_role("listbox", name="Completions").get_by_role("option")
    expect(offers).to_have_text([re.compile(name) for name in ("frames", "limited", "seen")])
    # Keys that come in the first 75 ms of a list were meant for the text.
    page.clock.fast_forward(100)
    page.keyboard.press("ArrowDown")
    expect(offers.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(text_of(page)).to_contain_text('input_stream: "limited"')


def test_a_failed_run_says_why(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    replace(
        page,
        'input_stream: "in"\noutput_stream: "out"\n'
        'node { calculator: "Echo" input_stream: "HTTP_REQUEST_PAYLOAD:in"'
        ' output_stream: "HTTP_RESPONSE_PAYLOAD:out" }\n',
    )
    expect(page.get_by_role("status").filter(has_text="1 node")).to_contain_text("valid")
    page.get_by_role("tab", name="Try").click()
    field = page.get_by_role("textbox", name=re.compile("^in "))
    field.fill("{")
    expect(page.get_by_text("Line 1: ")).to_be_visible()
    expect(page.get_by_role("button", name="Run")).to_be_disabled()
    field.fill('"no payload"')
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("status").filter(has_text=re.compile("invalid|failed"))).to_be_visible()
    expect(page.locator(".result .notice")).to_be_visible()


def test_a_served_graph_is_opened_by_its_address_and_stays_as_it_is(
    visited: Visit, serving: Serving
) -> None:
    page = visited.page
    visited.go("editor/echo")
    expect(text_of(page)).to_contain_text('calculator: "Echo"')
    replace(page, 'input_stream: "in"')
    expect(page.get_by_role("status").filter(has_text=re.compile("error|0 nodes"))).to_be_visible()
    with serving.request("POST", "/v3/anything", {"model": "echo"}) as response:
        assert response.status == 200
