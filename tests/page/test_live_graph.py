"""The live graph on a real server, in Chromium: drawing, keys, states, subgraphs, speed."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from typing import Final

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Locator, Page, expect

from tests.page.browsing import Visit, visit
from tests.page.site import Site, serve
from tests.support.conditions import wait_until

#: Of a frame at 60 per second a script may take this part, in milliseconds.
SCRIPT_PER_FRAME: Final = 4.0
#: Drawn while the page was moved forty times: a frame rate is the machine's too.
LEAST_FRAMES: Final = 40


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("site")) as served:
        yield served


def node(page: Page, name: str) -> Locator:
    """Return the button of a node in the drawing, by its id."""
    return page.locator(f'[data-node="{name}"]')


def test_nodes_are_buttons_that_say_how_they_are(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/echo")
        echo = node(visited.page, "Echo")
        expect(echo).to_have_accessible_name(re.compile("^Echo, idle"))
        with site.asked_again("echo"):
            expect(echo).to_have_accessible_name(
                re.compile("^Echo, busy, .* calls per second, median .* microseconds")
            )
            expect(visited.page.get_by_test_id("totals")).to_contain_text("ended")
        # Without events, rates go down to zero.
        expect(echo).to_have_accessible_name(re.compile("^Echo, idle"))


def test_arrow_keys_follow_streams(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/nested")
        page = visited.page
        node(page, "input:input").focus()
        for key, there in (
            ("ArrowRight", "twice"),
            ("ArrowRight", "last"),
            ("ArrowRight", "output:output"),
            ("ArrowLeft", "last"),
        ):
            page.keyboard.press(key)
            expect(node(page, there)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name="Node last")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_have_count(0)
        before = node(page, "last").bounding_box()
        page.keyboard.press("+")
        page.keyboard.press("+")
        after = node(page, "last").bounding_box()
        assert before is not None
        assert after is not None
        assert after["width"] > before["width"]


def test_a_node_shows_docs_options_ports_and_last_packets(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/echo")
        page = visited.page
        node(page, "Echo").click()
        panel = page.get_by_role("complementary", name="Node Echo")
        expect(panel).to_contain_text("Answers with the body.")
        expect(panel).to_contain_text("graph.pbtxt:3:1")
        expect(panel).to_contain_text("HTTP_REQUEST_PAYLOAD")
        with site.asked_again("echo"):
            expect(panel.get_by_role("table")).to_contain_text("HttpPayload")
            expect(panel.get_by_role("table")).to_contain_text("bytes 17 B")
        panel.get_by_role("button", name="Close").click()
        expect(panel).to_have_count(0)
        expect(node(page, "Echo")).to_be_focused()


def test_the_table_says_what_the_drawing_does(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/nested")
        page = visited.page
        page.get_by_role("link", name="As a table").click()
        names = page.locator("tbody th button:first-child")
        expect(names).to_have_text(["twice", "last"])
        page.get_by_role("button", name="Node", exact=True).click()
        expect(names).to_have_text(["last", "twice"])
        page.get_by_role("button", name="open").click()
        expect(names).to_contain_text(["one", "two"])


def test_subgraphs_open_and_close(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/nested")
        page = visited.page
        node(page, "twice").click()
        page.get_by_role("button", name="Open it").click()
        expect(node(page, "twice__one")).to_be_visible()
        expect(node(page, "twice")).to_have_count(0)
        page.reload()
        expect(node(page, "twice__two")).to_be_visible()
        page.get_by_role("button", name="Close subgraph").click()
        expect(node(page, "twice")).to_be_visible()
        page.go_back()
        expect(node(page, "twice__one")).to_be_visible()


def test_a_small_graph_fills_its_canvas(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(1440, 900)) as visited:
        visited.go("graph/echo")
        expect(node(visited.page, "Echo")).to_be_visible()
        ends = [
            node(visited.page, name).bounding_box() for name in ("input:input", "output:output")
        ]
        assert ends[0] is not None
        assert ends[1] is not None
        assert ends[1]["x"] + ends[1]["width"] - ends[0]["x"] > 0.7 * 1440


def test_nodes_are_found_by_a_part_of_their_names(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/large")
        page = visited.page
        expect(node(page, "n150")).to_be_attached()
        field = page.get_by_role("searchbox", name="Find a node")
        field.fill("N15")
        expect(page.get_by_text("1 of 11", exact=True)).to_be_visible()
        visited.check()
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name="Node n15", exact=True)).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name="Node n150")).to_be_visible()
        in_the_middle(page, "n150")
        page.get_by_role("link", name="As a table").click()
        expect(page.locator("tbody tr")).to_have_count(11)
        field.fill("nobody")
        expect(page.get_by_text("none", exact=True)).to_be_visible()
        field.press("Escape")
        expect(page.locator("tbody tr")).to_have_count(200)
        visited.go("graph/nested")
        # A node of a closed subgraph is found as its subgraph.
        field.fill("twice__two")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name="Node twice")).to_be_visible()


def in_the_middle(page: Page, name: str) -> None:
    """Wait until a node is in the middle of the drawing, and large enough to be read."""
    host = page.get_by_role("group", name="Graph.").bounding_box()
    assert host is not None

    def is_there() -> bool:
        box = node(page, name).bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        wide, high = host["x"] + host["width"] / 2, host["y"] + host["height"] / 2
        return abs(middle[0] - wide) < 200 and abs(middle[1] - high) < 60 and box["width"] > 60

    wait_until(is_there, f"{name} in the middle")


def test_a_large_graph_begins_readable_on_a_phone(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(390, 844)) as visited:
        visited.go("graph/large")
        page = visited.page
        expect(node(page, "n0")).to_be_in_viewport()
        box = node(page, "n0").bounding_box()
        assert box is not None
        assert box["width"] > 60
        assert box["height"] > 30
        page.get_by_role("searchbox", name="Find a node").fill("last")
        in_the_middle(page, "last")


def test_a_full_queue_throttles_its_source(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited, site.open_request("pressed"):
        visited.go("graph/pressed")
        numbers = node(visited.page, "numbers")
        expect(numbers).to_have_accessible_name(re.compile("throttled, .*a full queue at slow"))
        expect(node(visited.page, "slow")).to_have_accessible_name(re.compile("busy, .*wait"))


def test_a_node_says_which_input_it_waits_for(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited, site.open_request("waiting"):
        visited.go("graph/waiting?node=both")
        both = node(visited.page, "both")
        expect(both).to_have_accessible_name(re.compile("waiting, .*waits for ANSWER"))
        panel = visited.page.get_by_role("complementary", name="Node both")
        expect(panel).to_contain_text("waits for ANSWER")
        expect(panel.get_by_role("heading", name="Waits")).to_be_visible()


def test_a_failed_node_shows_its_error(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/failing?node=audit")
        site.ask("failing")
        audit = node(visited.page, "audit")
        expect(audit).to_have_accessible_name(re.compile("^audit, Refusing, failed"))
        panel = visited.page.get_by_role("complementary", name="Node audit")
        expect(panel.get_by_role("heading", name="Errors")).to_be_visible()
        expect(visited.page.get_by_test_id("totals")).to_contain_text("failed")


def test_a_graph_that_is_not_loaded_is_drawn_with_its_reason(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/broken")
        name = node(visited.page, "NobodyHasThisCalculator")
        expect(name).to_have_accessible_name(re.compile("unknown"))


def moving_pixels(visited: Visit) -> int:
    """Return how many pixels the canvas of packets has that are not empty."""
    found = visited.evaluate(
        """(() => {
            const canvas = document.querySelectorAll(".host canvas")[1];
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            let count = 0;
            for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
            return count;
        })()"""
    )
    assert isinstance(found, int)
    return found


def wait_for_traffic(visited: Visit, name: str) -> None:
    expect(node(visited.page, name)).to_have_accessible_name(re.compile("calls per second"))


def test_packets_travel_unless_motion_is_not_wanted(browser: Browser, site: Site) -> None:
    with site.asked_again("echo"):
        with visit(browser, site.address) as visited:
            visited.go("graph/echo")
            wait_for_traffic(visited, "Echo")
            # Packets of a slow stream are far from one another: at times none is on a short wire.
            wait_until(lambda: moving_pixels(visited) > 0, "a packet on its way")
        with visit(browser, site.address, reduced_motion="reduce") as visited:
            visited.go("graph/echo")
            wait_for_traffic(visited, "Echo")
            assert moving_pixels(visited) == 0


def test_colors_of_ones_own_choice_show_the_table(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, forced_colors="active") as visited:
        visited.go("graph/echo")
        expect(visited.page.get_by_role("region", name="Nodes of the graph")).to_be_visible()
        expect(visited.page.locator("canvas")).to_have_count(0)


def test_a_narrow_window_draws_downwards(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(390, 844)) as visited:
        visited.go("graph/nested")
        first = node(visited.page, "input:input")
        last = node(visited.page, "output:output")
        expect(first).to_be_visible()
        upper, lower = first.bounding_box(), last.bounding_box()
        assert upper is not None
        assert lower is not None
        assert upper["y"] + upper["height"] < lower["y"]


def test_two_hundred_nodes_move_smoothly(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(1440, 900)) as visited, site.asked_again("large"):
        visited.go("graph/large")
        page = visited.page
        wait_for_traffic(visited, "last")
        expect(page.locator("[data-node]")).to_have_count(202)
        expect(page.locator("canvas.minimap")).to_be_visible()
        visited.evaluate("frames_.length = 0")
        page.mouse.move(720, 450)
        for step in range(40):
            page.mouse.wheel(0, -60 if step < 20 else 60)
            page.mouse.move(720 + step, 450)
        # Frames come while the page moves and while packets travel.
        visited.evaluate("new Promise(done => setTimeout(done, 1500))")
        frames = visited.evaluate("frames_")
        script = [taken for _, taken in frames]
        assert statistics.median(script) < SCRIPT_PER_FRAME
        assert len(frames) > LEAST_FRAMES
