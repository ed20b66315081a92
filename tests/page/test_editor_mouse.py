"""Graphs edited by mouse and keys in the drawing, against a real server: the text follows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.browsing import Visit, visit
from tests.servers.cli.serving import Serving, make_site

#: `Count` takes texts, and `Half` numbers; an int will do for a float.
_TYPED: Final = '''

@calculator
class Count(Calculator):
    """Counts letters."""

    text = In[str]("TEXT")
    number = Out[int]("NUMBER")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.number, len(cc.get(self.text)))


@calculator
class Half(Calculator):
    """Halves numbers."""

    number = In[float]("NUMBER")
    half = Out[float]("HALF")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.half, cc.get(self.number) / 2)
'''
START: Final = '# Mine.\ninput_stream: "words"  # texts\noutput_stream:   "halves"\n'


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("site")
    make_site(folder)
    with (folder / "calcs.py").open("a") as file:
        file.write(_TYPED)
    with Serving(folder, "config.json") as server:
        server.wait_until_serving()
        yield f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def visited(address: str, browser: Browser) -> Iterator[Visit]:
    with visit(browser, address) as opened:
        yield opened


def text_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Text of the graph")


def write(page: Page, text: str) -> None:
    """Replace the whole text."""
    text_of(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def add(page: Page, calculator: str) -> None:
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Find a calculator").fill(calculator)
    page.get_by_role("list", name="Calculators").get_by_role("button").first.click()
    expect(node(page, calculator)).to_be_visible()


def node(page: Page, name: str) -> Locator:
    return page.locator(f'[data-node="{name}"]')


def port(page: Page, name: str) -> Locator:
    """A port of the drawing, such as ``Count in 0``."""
    return page.locator(f'[data-port="{name}"]')


def said(page: Page, words: str) -> Locator:
    return page.get_by_role("status").filter(has_text=words)


def test_a_graph_is_made_by_mouse_and_its_text_keeps_its_comments(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    write(page, START)
    add(page, "Count")
    add(page, "Half")
    port(page, "input:words out 0").drag_to(port(page, "Count in 0"))
    expect(text_of(page)).to_contain_text('input_stream: "TEXT:words"')
    # The drawing has followed the text.
    expect(said(page, "1 error")).to_be_visible()
    # By two clicks. The server tells what fits: an int where a float is wanted, as validation does.
    port(page, "Half in 0").click()
    expect(page.locator('[data-port="Count out 0"].fits')).to_have_count(1)
    port(page, "Count out 0").click()
    expect(said(page, "Half NUMBER and Count NUMBER are connected.")).to_be_visible()
    expect(said(page, "2 nodes")).to_contain_text("valid")
    # The output of the graph keeps its name.
    port(page, "Half out 0").drag_to(port(page, "output:halves in 0"))
    expect(text_of(page)).to_contain_text('output_stream: "HALF:halves"')
    expect(said(page, "2 nodes")).to_contain_text("valid")
    for kept in ("# Mine.", '"words"  # texts', 'output_stream:   "halves"'):
        expect(text_of(page)).to_contain_text(kept)


def test_the_same_graph_is_made_by_keys(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    write(page, START)
    for name in ("Count", "Half"):
        page.get_by_role("button", name="Add", exact=True).focus()
        page.keyboard.press("Enter")
        page.keyboard.type(name)
        page.get_by_role("list", name="Calculators").get_by_role("button").first.focus()
        page.keyboard.press("Enter")
        # The form of the new node is where one goes on.
        expect(page.get_by_role("heading", name=name)).to_be_visible()
        expect(page.get_by_role("tabpanel")).to_be_focused()
    connect(page, "Half", "input NUMBER", "Count NUMBER")
    connect(page, "Half", "output HALF", "halves")
    connect(page, "Count", "input TEXT", "words")
    expect(said(page, "2 nodes")).to_contain_text("valid")
    # Nothing but what fits is offered, and the rest says why.
    page.get_by_role("button", name="Connect input TEXT").press("Enter")
    fits = page.get_by_role("group", name="What fits TEXT")
    fits.get_by_text("do not fit").click()
    expect(fits).to_contain_text("cycle")
    expect(fits.get_by_role("button")).to_have_count(0)
    visited.check()
    node(page, "Half").press("Delete")
    expect(node(page, "Half")).to_have_count(0)
    node(page, "Count").press("Control+z")
    expect(node(page, "Half")).to_be_visible()


def connect(page: Page, name: str, port: str, other: str) -> None:
    """Connect a port in the form of its node, by keys."""
    node(page, name).focus()
    # Only keys move the focus into the form.
    page.keyboard.press("Shift")
    if page.get_by_role("heading", name=name).count() == 0:
        page.keyboard.press("Enter")
    page.get_by_role("button", name=f"Connect {port}").press("Enter")
    page.get_by_role("group", name="What fits").get_by_role("button", name=other, exact=True).press(
        "Enter"
    )
    expect(said(page, "are connected.").filter(has_text=other)).to_be_visible()


def test_ports_that_do_not_fit_say_why(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    write(page, 'input_stream: "words"\n')
    add(page, "Count")
    add(page, "Half")
    port(page, "Half out 0").drag_to(port(page, "Count in 0"))
    refused = said(page, "Not connected: ")
    expect(refused).to_contain_text('expects packets of type "string"')
    port(page, "Half out 0").drag_to(port(page, "Half in 0"))
    expect(refused).to_contain_text("cycle")
    port(page, "Half out 0").drag_to(port(page, "Count out 0"))
    expect(refused).to_contain_text("both are outputs")
    port(page, "Count out 0").click()
    expect(page.get_by_text("choose a port that fits")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("choose a port that fits")).to_have_count(0)


def test_a_calculator_is_dragged_into_the_drawing_and_undone(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    expect(node(page, "PassThroughCalculator")).to_be_visible()
    before = text_of(page).inner_text()
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("Find a calculator").fill("Half")
    visited.check()
    one = page.get_by_role("list", name="Calculators").get_by_role("button").first
    one.drag_to(page.locator(".drawing .host"), target_position={"x": 500, "y": 200})
    expect(node(page, "Half")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(node(page, "Half")).to_have_count(0)
    assert text_of(page).inner_text() == before
    page.get_by_role("button", name="Redo").click()
    expect(node(page, "Half")).to_be_visible()


def test_options_are_set_in_a_form_of_their_schema(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    node(page, "FlowLimiterCalculator").click()
    field = page.get_by_label("max_in_flight", exact=True)
    expect(field).to_have_value("1")
    field.fill("two")
    field.press("Enter")
    expect(page.get_by_text("Wanted: a whole number.")).to_be_visible()
    field.fill("99999999999")
    field.press("Enter")
    # What only validation knows stands in the form too, in its words.
    expect(page.get_by_role("tabpanel").locator("p.bad")).to_contain_text("max_in_flight")
    field.fill("2")
    field.press("Enter")
    expect(text_of(page)).to_contain_text("max_in_flight: 2")
    expect(text_of(page)).to_contain_text('# Packets of "frames" go through')
    page.get_by_label("in_flight_timeout", exact=True).fill("500")
    page.keyboard.press("Tab")
    expect(text_of(page)).to_contain_text("in_flight_timeout: 500")
    visited.check()
    page.get_by_label("max_in_queue", exact=True).fill("")
    page.keyboard.press("Tab")
    expect(text_of(page)).not_to_contain_text("max_in_queue")
    page.get_by_role("button", name="Undo").click()
    expect(text_of(page)).to_contain_text("max_in_queue: 1")


def test_streams_are_cut_and_named_ports_added_and_nodes_removed(visited: Visit) -> None:
    page = visited.page
    visited.go("editor")
    node(page, "PassThroughCalculator").click()
    name = page.get_by_label("name", exact=True)
    name.fill("last")
    name.press("Enter")
    expect(node(page, "last")).to_be_visible()
    page.get_by_role("button", name="+ in input").click()
    expect(text_of(page)).to_contain_text(re.compile('"limited" *input_stream: "input"'))
    # It is not connected, which validation says here too.
    expect(page.get_by_role("tabpanel")).to_contain_text("does not have a corresponding")
    page.get_by_role("button", name="Cut input").click()
    expect(text_of(page)).not_to_contain_text('"input"')
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(node(page, "last")).to_have_count(0)
    node(page, "input:frames").click()
    name.fill("pictures")
    name.press("Enter")
    expect(node(page, "input:pictures")).to_be_visible()
    expect(text_of(page)).not_to_contain_text('"frames" input')


def test_a_graph_is_edited_on_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, address, size=(390, 844), has_touch=True) as visited:
        page = visited.page
        visited.go("editor")
        add(page, "Half")
        port(page, "FlowLimiterCalculator out 0").tap()
        port(page, "Half in 0").tap()
        expect(said(page, "are connected.")).to_be_visible()
        assert visited.evaluate("document.documentElement.scrollWidth") <= 390
