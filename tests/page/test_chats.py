"""Chats and drafts that the browser keeps, against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, FilePayload, Locator, Page, Request, expect

from tests.page.browsing import Visit, visit
from tests.page.reverse_proxy import behind_prefix
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

#: A browser that has no place for anything.
_NO_STORE: Final = """
    indexedDB.open = () => { throw new DOMException("refused", "SecurityError"); };
"""
#: A browser that has place for small records only.
_NO_ROOM: Final = """
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function (value, id) {
        if (JSON.stringify(value).includes("a long story"))
            throw new DOMException("full", "QuotaExceededError");
        return put.call(this, value, id);
    };
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    with Serving(folder, ROOT / "examples" / "models" / "demo", calculators=()) as server:
        server.wait_until_serving()
        yield f"http://127.0.0.1:{server.port}/"


@pytest.fixture
def visited(address: str, browser: Browser) -> Iterator[Visit]:
    with visit(browser, address) as opened:
        yield opened


def message(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message to")


def say(page: Page, text: str) -> None:
    """Say something, and wait for the whole answer."""
    message(page).fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="has answered.")).to_have_count(1)


def begin(page: Page) -> None:
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".answer")).to_have_count(0)


def chats(page: Page) -> Locator:
    """The chats in the list, the newest first."""
    return page.get_by_role("list", name="Chats").get_by_role("link")


def act(page: Page, chat: str, what: str) -> None:
    page.get_by_role("button", name=f"What to do with {chat}").click()
    page.get_by_role("button", name=what, exact=True).click()


def test_a_chat_and_a_draft_survive_another_view_and_a_reload(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_label("temperature", exact=True).fill("0")
    page.get_by_label("System message").fill("You are terse.")
    say(page, "Who are you?")
    told = page.locator(".answer").inner_text()
    message(page).fill("A question that is not sent yet")
    page.get_by_role("link", name="Requests").click()
    expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    page.get_by_role("link", name="Playground", exact=True).click()
    for _ in range(2):
        expect(page.locator(".answer")).to_have_text(told)
        expect(message(page)).to_have_value("A question that is not sent yet")
        expect(page.get_by_label("System message")).to_have_value("You are terse.")
        expect(page.get_by_label("temperature", exact=True)).to_have_value("0")
        page.reload()
    # An address without a chat leads to the last one.
    visited.go("playground/demo")
    expect(page.locator(".answer")).to_have_text(told)


def test_an_answer_comes_while_another_view_is_shown(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_text(" more").first.click()
    page.get_by_label("max_tokens", exact=True).fill("600")
    page.get_by_label("ignore_eos").select_option("true")
    message(page).fill("Count to a hundred.")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text(" ")
    page.get_by_role("link", name="Metrics").click()
    expect(page.get_by_role("heading", name="Metrics")).to_be_visible()
    page.get_by_role("link", name="Playground", exact=True).click()
    expect(page.locator(".foot")).to_contain_text("600 tokens")


def test_an_answer_that_a_reload_cut_says_so(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_text(" more").first.click()
    page.get_by_label("max_tokens", exact=True).fill("1900")
    page.get_by_label("ignore_eos").select_option("true")
    message(page).fill("Count to a thousand.")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text(" ")
    expect(chats(page)).to_have_count(1)
    page.reload()
    expect(page.locator(".foot")).to_contain_text("cut: the page was left")
    page.get_by_role("button", name="Regenerate").click()
    page.get_by_role("button", name="Stop").click()


def test_chats_are_found_renamed_deleted_and_brought_back(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    say(page, "Who are you?")
    begin(page)
    say(page, "Count to three.")
    expect(chats(page)).to_have_text([re.compile("Count to three"), re.compile("Who are you")])
    act(page, "Who are you?", "Rename")
    page.get_by_label("Name of the chat").fill("About the model")
    page.keyboard.press("Enter")
    expect(chats(page).last).to_contain_text("About the model")
    # Found by the words of the answer, which is not the title.
    page.get_by_label("Find in chats").fill("DEMO MODEL")
    expect(chats(page)).to_have_text([re.compile("About the model")])
    page.get_by_label("Find in chats").fill("nobody said this")
    expect(page.get_by_text("No chat has these words.")).to_be_visible()
    page.get_by_label("Find in chats").fill("")
    visited.check()
    act(page, "Count to three.", "Delete")
    expect(chats(page)).to_have_text([re.compile("About the model")])
    expect(page.locator(".answer")).to_have_count(0)
    page.get_by_role("button", name="Bring it back").click()
    expect(chats(page)).to_have_count(2)
    page.reload()
    chats(page).filter(has_text="About the model").click()
    expect(page.locator(".answer")).to_contain_text("demo model")


def test_chats_move_to_another_browser_by_a_file(
    visited: Visit, address: str, browser: Browser
) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    say(page, "Who are you?")
    begin(page)
    message(page).fill("A draft")
    expect(chats(page)).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    file = Path(download.value.path()).read_bytes()
    with visit(browser, address) as other:
        other.go("playground/demo/chat")
        chooser = other.page.get_by_label("Files of chats")
        chooser.set_input_files(FilePayload(name="a.json", mimeType="", buffer=file))
        expect(other.page.get_by_text("2 imported.")).to_be_visible()
        chats(other.page).filter(has_text="Who are you?").click()
        expect(other.page.locator(".answer")).to_contain_text("demo model")
        chooser.set_input_files(FilePayload(name="a.json", mimeType="", buffer=file))
        expect(other.page.get_by_text("0 imported, 2 here already.")).to_be_visible()
        # A file may come from anywhere: what it has no right to is left out, or told.
        made = json.loads(file)
        turns = next(one for one in made["chats"] if one["title"] != "A draft")
        turns["id"] = "made-by-hand"
        question = turns["conversations"][0]["turns"][0]
        question["pictures"] = ["/v2/repository/models/demo/unload", "https://evil.example/a.png"]
        question["text"] = "<img src=https://evil.example/b.png>"
        data = json.dumps(made).encode()
        chooser.set_input_files(FilePayload(name="b.json", mimeType="", buffer=data))
        expect(other.page.get_by_text("1 imported, 1 here already.")).to_be_visible()
        chats(other.page).filter(has_text="Who are you?").first.click()
        question["role"] = "judge"
        for broken, words in (
            (b"{", "b.json: This file is not JSON"),
            (b"{}", 'b.json: This file has no chats; "format" would be'),
            (json.dumps(made).encode(), 'conversation 1, turn 1: "role" is "judge"'),
        ):
            chooser.set_input_files(FilePayload(name="b.json", mimeType="", buffer=broken))
            expect(other.page.get_by_role("alert")).to_contain_text(words)


def test_nothing_of_a_draft_or_a_list_reaches_the_server(visited: Visit) -> None:
    page = visited.page
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))
    visited.go("playground/demo/chat")
    message(page).fill("a secret draft")
    expect(chats(page)).to_contain_text(["a secret draft"])
    page.get_by_label("System message").fill("a secret system")
    act(page, "a secret draft", "Rename")
    page.get_by_label("Name of the chat").fill("a secret name")
    page.keyboard.press("Enter")
    expect(chats(page)).to_contain_text(["a secret name"])
    page.get_by_label("Find in chats").fill("secret")
    expect(chats(page)).to_have_count(1)
    page.reload()
    expect(message(page)).to_have_value("a secret draft")
    assert len(sent) > 1
    assert {request.method for request in sent} == {"GET"}
    assert not [request.url for request in sent if "secret" in request.url]
    kept = visited.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert "secret" not in kept


def test_a_browser_that_keeps_nothing_says_so_and_chats(browser: Browser, address: str) -> None:
    with visit(browser, address) as visited:
        page = visited.page
        page.add_init_script(_NO_STORE)
        visited.go("playground/demo/chat")
        say(page, "Who are you?")
        notice = page.get_by_role("status").filter(has_text="keeps no chats and drafts")
        expect(notice).to_be_visible()
        visited.check()
        page.get_by_role("link", name="Requests").click()
        page.get_by_role("link", name="Playground", exact=True).click()
        expect(page.locator(".answer")).to_contain_text("demo model")
        begin(page)
        chats(page).filter(has_text="Who are you?").click()
        expect(page.locator(".answer")).to_contain_text("demo model")
        notice.get_by_role("button", name="Understood").click()
        expect(notice).to_have_count(0)


def test_a_full_browser_says_so_until_there_is_room(browser: Browser, address: str) -> None:
    with visit(browser, address) as visited:
        page = visited.page
        page.add_init_script(_NO_ROOM)
        visited.go("playground/demo/chat")
        message(page).fill("a long story")
        notice = page.get_by_role("status").filter(has_text="no room left")
        expect(notice).to_be_visible()
        message(page).fill("short")
        expect(notice).to_have_count(0)
        expect(chats(page)).to_contain_text(["short"])
        page.reload()
        expect(message(page)).to_have_value("short")


def test_two_tabs_have_the_same_chats(visited: Visit, address: str) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    say(page, "Who are you?")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".answer")).to_contain_text("demo model")
    other.get_by_role("button", name="Edit").click()
    other.get_by_role("textbox", name="Edit your message").fill("Count to three.")
    other.get_by_role("button", name="Send again").click()
    expect(other.get_by_role("status").filter(has_text="has answered.")).to_have_count(1)
    expect(page.get_by_text("Count to three.").first).to_be_visible()
    expect(page.get_by_text("Who are you?")).to_have_count(0)
    act(other, "Count to three.", "Delete")
    expect(chats(page)).to_have_count(0)


def test_servers_behind_one_origin_have_chats_of_their_own(browser: Browser, address: str) -> None:
    with behind_prefix(address.rstrip("/") + "/", "here") as prefixed:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        try:
            page = context.new_page()
            page.goto(f"{prefixed}#/playground/demo/chat")
            message(page).fill("of the one server")
            expect(chats(page)).to_have_count(1)
            names = "indexedDB.databases().then((all) => all.map((each) => each.name))"
            assert page.evaluate(names) == ["graphrt /here/"]
        finally:
            context.close()


def test_ones_own_request_travels_beside_its_chat(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_role("button", name="Graph", exact=True).click()
    graph = page.get_by_role("region", name="Graph of demo")
    node = graph.locator('[data-node="LLMExecutor"]')
    expect(node).to_be_visible()
    say(page, "Who are you?")
    expect(node).to_have_accessible_name(re.compile("calls per second"))
    visited.check()
    page.get_by_role("link", name="Its way through the graph").click()
    times = page.get_by_role("region", name="Time per node").locator("tbody tr")
    expect(times.first).to_contain_text("LLMExecutor")
    page.get_by_role("link", name="Playground", exact=True).click()
    expect(page.locator(".answer")).to_contain_text("demo model")


def test_texts_of_other_views_survive_a_reload(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/completion")
    page.get_by_label("Prompt", exact=True).fill("Once upon a time")
    visited.go("playground/demo/request")
    page.get_by_label("Body").fill('{"model": "demo", "mine": 1}')
    visited.go("editor")
    text = page.get_by_role("textbox", name="Text of the graph")
    expect(text).to_contain_text("FlowLimiter")
    text.click()
    page.keyboard.press("Control+Home")
    page.keyboard.type("# mine")
    page.keyboard.press("Enter")
    page.reload()
    expect(text).to_contain_text("# mine")
    page.get_by_role("button", name="As at first").click()
    expect(text).not_to_contain_text("# mine")
    visited.go("playground/demo/request")
    expect(page.get_by_label("Body")).to_have_value('{"model": "demo", "mine": 1}')
    visited.go("playground/demo/completion")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("Once upon a time")


def test_chats_and_the_graph_fit_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, address, size=(390, 844)) as visited:
        page = visited.page
        visited.go("playground/demo/chat")
        page.get_by_role("button", name="Graph", exact=True).click()
        say(page, "Who are you?")
        expect(page.get_by_role("region", name="Graph of demo")).to_be_visible()
        page.get_by_role("button", name="Chats", exact=True).click()
        expect(chats(page)).to_have_count(1)
        assert visited.evaluate("document.documentElement.scrollWidth") <= 390
