"""The views of the page on a real server, in Chromium: the shell, servables, requests, metrics."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from PIL import Image
from playwright.sync_api import Browser, expect

from tests.page.browsing import AXE, visit
from tests.page.reverse_proxy import behind_prefix
from tests.page.site import Site, serve

VIEWS: Final = (
    "servables",
    "graph/nested",
    "graph/nested?as=table",
    "graph/nested?node=last",
    "playground/demo",
    "requests",
    "metrics",
    "editor",
)
QUESTION: Final = [{"role": "user", "content": "What is graphrt?"}]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("site")) as served:
        yield served


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: run `npm ci` in page/")
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_without_a_finding(browser: Browser, site: Site, view: str) -> None:
    with visit(browser, site.address) as visited:
        visited.go(view)
        expect(visited.page.locator("main h1")).to_have_count(1)
        expect(visited.page.get_by_role("banner")).to_contain_text("ready")


def test_servables_have_states_reasons_and_places(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("")
        rows = visited.page.locator("main li")
        echo = rows.filter(has=visited.page.get_by_role("heading", name="echo", exact=True))
        expect(echo).to_contain_text("ready")
        broken = rows.filter(has=visited.page.get_by_role("heading", name="broken", exact=True))
        expect(broken).to_contain_text("failed")
        expect(broken).to_contain_text("graph.pbtxt:4:1")
        expect(broken).to_contain_text("NobodyHasThisCalculator")
        demo = rows.filter(has=visited.page.get_by_role("heading", name="demo", exact=True))
        expect(demo).to_contain_text("text generation")


def test_a_graph_is_unloaded_and_loaded_again(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("servables")
        row = visited.page.locator("main li").filter(
            has=visited.page.get_by_role("heading", name="echo", exact=True)
        )
        unload = row.get_by_role("button", name="Unload echo")
        unload.click()
        question = row.get_by_role("alertdialog", name="Unload echo?")
        expect(question.get_by_role("button", name="Keep it")).to_be_focused()
        visited.check()
        visited.page.keyboard.press("Escape")
        expect(question).to_have_count(0)
        expect(unload).to_be_focused()
        expect(row.locator(".state")).to_contain_text("ready")
        unload.click()
        question.get_by_role("button", name="Unload it").click()
        # It was loaded a while ago, which says nothing of how long it is unloaded.
        expect(row.locator(".state")).to_have_text("unloaded")
        visited.go("graph/echo")
        expect(visited.page.locator(".bar")).to_contain_text("unloaded")
        visited.go("playground/echo")
        expect(visited.page.get_by_role("combobox", name="Model")).to_contain_text(
            "echo (unloaded)"
        )
        visited.go("servables")
        row.get_by_role("button", name="Load echo", exact=True).click()
        expect(row.locator(".state")).to_contain_text("ready")
        assert b"echo" in site.ask("echo")


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("nowhere/echo", "“nowhere” is no view."),
        ("graph/nobody", 'There is no graph "nobody"'),
        ("playground/nobody", "Nothing is served as “nobody”."),
        ("playground/demo/painting", "“demo” cannot be asked for “painting”."),
        ("requests/nobody", "nobody"),
        ("editor/nobody", "nobody"),
    ],
)
def test_an_address_that_leads_nowhere_says_so(
    browser: Browser, site: Site, view: str, words: str
) -> None:
    with visit(browser, site.address, expected=["404 (Not Found)"]) as visited:
        visited.go(view)
        expect(visited.page.locator("main")).to_contain_text(words)
        expect(visited.page.locator("main h1")).to_have_count(1)


def test_views_are_a_bar_at_the_bottom_of_a_phone(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(390, 844)) as visited:
        visited.go("servables")
        page = visited.page
        views = page.get_by_role("navigation", name="Views").get_by_role("link")
        expect(views).to_have_text(
            ["Servables", "Graph", "Playground", "Requests", "Metrics", "Editor"]
        )
        boxes = [each.bounding_box() for each in views.all()]
        assert all(box is not None and box["y"] > 780 and box["height"] >= 44 for box in boxes)
        views.last.click()
        expect(page.locator("main h1")).to_have_text("Editor")
        # All of a view can be reached above the bar.
        visited.go("servables")
        last = page.locator("main li").last
        last.scroll_into_view_if_needed()
        box = last.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 788


def test_a_wide_table_shows_that_it_scrolls(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, size=(390, 844)) as visited:
        visited.go("graph/nested?as=table")
        table = visited.page.get_by_role("region", name="Nodes of the graph")
        expect(table).to_contain_text("twice")

        def darkest_at_the_sides() -> list[int]:
            picture = Image.open(io.BytesIO(table.screenshot())).convert("L")
            # Below the rows there is nothing but the background and its shadows.
            row = picture.height - 40
            ground = picture.getpixel((picture.width // 2, row))
            sides = (1, picture.width - 2)
            return [abs(int(picture.getpixel((x, row))) - int(ground)) for x in sides]  # type: ignore[arg-type]

        left, right = darkest_at_the_sides()
        assert left < 5 < right
        table.evaluate("each => each.scrollBy(10000, 0)")
        left, right = darkest_at_the_sides()
        assert right < 5 < left


def test_requests_are_listed_as_they_come(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("requests")
        expect(visited.page.get_by_role("banner")).to_contain_text("ready")
        site.ask("demo", messages=QUESTION, max_tokens=8)
        row = visited.page.locator("tbody tr").filter(has_text="demo").first
        expect(row).to_contain_text("chat/completions")
        expect(row).to_contain_text("200")
        expect(row).to_contain_text("→ 8")
        site.ask("failing")
        failed = visited.page.locator("tbody tr").filter(has_text="failing").first
        expect(failed).to_contain_text("500")
        visited.page.get_by_role("button", name="Only errors").click()
        expect(visited.page.locator("tbody tr").filter(has_text="demo")).to_have_count(0)
        expect(failed).to_be_visible()


def test_a_request_is_followed_to_its_timeline(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/demo")
        page = visited.page
        page.get_by_role("button", name="Follow the next request").click()
        expect(page.get_by_role("button", name="Waiting for a request")).to_be_disabled()
        site.ask("demo", messages=QUESTION, max_tokens=8)
        page.get_by_role("link", name="Show its timeline").click()
        expect(page.locator("main")).to_contain_text("status 200")
        times = page.get_by_role("region", name="Time per node").locator("tbody tr")
        expect(times.first).to_contain_text("LLMExecutor")
        expect(times.nth(1)).to_contain_text("generation")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save for Perfetto").click()
        events = json.loads(Path(download.value.path()).read_text())["traceEvents"]
        assert any(event["ph"] == "X" for event in events)


def test_the_way_of_a_request_leads_through_subgraphs(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("graph/nested")
        page = visited.page
        page.get_by_role("button", name="Follow the next request").click()
        expect(page.get_by_role("button", name="Waiting for a request")).to_be_disabled()
        site.ask("nested")
        page.get_by_role("link", name="Show its timeline").click()
        times = page.get_by_role("region", name="Time per node").locator("tbody th")
        expect(times).to_have_text(["twice, subgraph", "twice__one", "twice__two", "last"])
        way = page.get_by_role("region", name="Its way through the graph").locator("tbody tr")
        expect(way.last).to_contain_text("twice__two")
        expect(way.last).to_contain_text("last")


def test_metrics_come_without_prometheus(browser: Browser, site: Site) -> None:
    with visit(browser, site.address) as visited:
        visited.go("metrics")
        site.ask("demo", messages=QUESTION, max_tokens=8)
        page = visited.page
        chart = page.get_by_role("img", name=re.compile("Time to first token. median: now"))
        expect(chart).to_have_count(1)
        # One request: no line leads to its point, which is there all the same.
        expect(chart.locator("circle")).to_have_count(1)
        moment = page.get_by_label("Moment of Time to first token")
        moment.focus()
        expect(moment).to_have_attribute("aria-valuetext", re.compile(r"\d\d:\d\d:\d\d"))
        expect(page.locator("main .values")).to_have_count(1)
        visited.check()
        moment.blur()
        expect(page.locator("main .values")).to_have_count(0)
        chart.hover()
        expect(page.locator("main .values")).to_have_count(1)
        site.ask("failing")
        some = re.compile("Errors. failed requests: .*at most [1-9]")
        errors = page.get_by_role("img", name=some)
        expect(errors).to_have_count(1)
        expect(page.get_by_role("region", name="Log")).to_have_count(0)
        engines = page.get_by_role("region", name="Engines")
        expect(engines).to_contain_text("LLMExecutor")


def test_log_and_processes_are_shown_where_the_operator_allows_it(
    browser: Browser, tmp_path: Path
) -> None:
    """Without the prompts that the log has."""
    words = ("--page_operations", "--log_prompts")
    with serve(tmp_path, *words) as own, visit(browser, own.address, size=(390, 844)) as visited:
        visited.go("metrics")
        own.ask("demo", messages=QUESTION, max_tokens=8)
        own.ask("nobody", messages=QUESTION)
        page = visited.page
        engine = page.get_by_role("region", name="Processes").get_by_role("row", name="engine of")
        expect(engine).to_contain_text("demo")
        expect(engine).to_contain_text("MiB")
        expect(engine).to_contain_text("%")
        log = page.get_by_role("region", name="Log")
        expect(log).to_contain_text("POST /v3/chat/completions 404")
        own.serving.wait_for(QUESTION[0]["content"])
        expect(log).not_to_contain_text(QUESTION[0]["content"])
        page.get_by_label("Find in the log").fill("completions 200")
        expect(log).not_to_contain_text("404")
        expect(log).to_contain_text("model='demo'")
        page.get_by_label("Least level").select_option("ERROR")
        expect(log).to_have_text("No line is like this.")
        assert visited.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_look_is_chosen_and_kept(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, look="dark") as visited:
        visited.go("servables")
        page = visited.page
        background = "getComputedStyle(document.body).backgroundColor"
        expect(page.locator("main li").first).to_be_visible()
        assert visited.evaluate(background) == "rgb(13, 15, 20)"
        page.get_by_role("button", name="Theme: auto").click()
        assert visited.evaluate(background) == "rgb(244, 245, 247)"
        page.reload()
        expect(page.locator("main li").first).to_be_visible()
        assert visited.evaluate(background) == "rgb(244, 245, 247)"


@pytest.mark.parametrize("view", VIEWS)
def test_views_fit_a_narrow_window(browser: Browser, site: Site, view: str) -> None:
    with visit(browser, site.address, size=(390, 844)) as visited:
        visited.go(view)
        expect(visited.page.locator("main h1")).to_have_count(1)
        expect(visited.page.get_by_role("banner")).to_contain_text("ready")
        wide = "document.documentElement.scrollWidth"
        assert visited.evaluate(wide) <= 390


def test_all_works_behind_a_prefix_of_the_path(browser: Browser, site: Site) -> None:
    with (
        behind_prefix(site.address, "models/here") as address,
        visit(browser, address) as visited,
    ):
        visited.go("playground/demo")
        page = visited.page
        page.get_by_role("button", name="Who are you, demo?").click()
        expect(page.locator(".answer")).to_contain_text("demo model of graphrt")
        visited.go("graph/demo")
        expect(page.locator("[data-node]").first).to_be_visible()
        visited.go("editor")
        expect(page.get_by_role("banner")).to_contain_text("ready")


def test_a_lost_server_is_told_and_found_again(browser: Browser, site: Site) -> None:
    with visit(browser, site.address, expected=["ERR_INTERNET_DISCONNECTED"]) as visited:
        visited.go("graph/echo")
        expect(visited.page.get_by_role("banner")).to_contain_text("ready")
        visited.page.context.set_offline(True)
        # A stream that is open goes on; another graph wants another one.
        visited.page.get_by_role("combobox").select_option("nested")
        expect(visited.page.get_by_role("banner")).to_contain_text("no connection")
        visited.page.context.set_offline(False)
        expect(visited.page.get_by_role("banner")).to_contain_text("ready")


def test_a_server_with_keys_asks_for_one(browser: Browser, tmp_path: Path) -> None:
    with (
        serve(tmp_path, "--page=true", key="a-key-of-the-test") as site,
        visit(browser, site.address, expected=["status of 401"]) as visited,
    ):
        visited.go("servables")
        page = visited.page
        expect(page.get_by_role("heading", name="This server wants a key")).to_be_visible()
        page.get_by_label("Key").fill("another")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_text("The server does not know this key.")).to_be_visible()
        page.get_by_label("Key").fill("a-key-of-the-test")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_role("heading", name="echo", exact=True)).to_be_visible()
        kept = visited.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        assert "a-key-of-the-test" not in kept
        page.reload()
        expect(page.get_by_role("heading", name="This server wants a key")).to_be_visible()
