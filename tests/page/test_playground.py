"""The playground against a real server: chats with everything that belongs to them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Final

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.page.browsing import Visit, visit
from tests.page.playing import serving_models, shapes
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

EXAMPLES: Final = 3

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving_models(tmp_path_factory.mktemp("site")) as server:
        yield server


@pytest.fixture
def visited(serving: Serving, browser: Browser) -> Iterator[Visit]:
    permissions = ["clipboard-read", "clipboard-write"]
    address = f"http://127.0.0.1:{serving.port}/"
    with visit(browser, address, permissions=permissions) as opened:
        yield opened


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message to").fill(text)
    page.keyboard.press("Enter")


def answered(page: Page, times: int = 1) -> None:
    """Wait until so many answers are complete."""
    expect(page.get_by_role("status").filter(has_text="has answered.")).to_have_count(times)


def set_parameter(page: Page, name: str, value: str) -> None:
    page.get_by_label(name, exact=True).fill(value)


def test_an_example_is_answered_with_its_speed(serving: Serving, browser: Browser) -> None:
    with visit(browser, f"http://127.0.0.1:{serving.port}/") as visited:
        page = visited.page
        visited.go("playground/demo")
        expect(page.locator(".example")).to_have_count(EXAMPLES)
        expect(page.get_by_text("text_generation · 2,048 tokens")).to_be_visible()
        visited.check()
        page.get_by_role("button", name="Who are you, demo?").click()
        answered(page)
        expect(page.locator(".answer")).to_contain_text("demo model of graphrt")
        expect(page.locator(".foot")).to_contain_text(r"tokens · first after")


def test_a_stopped_answer_stays_and_may_be_asked_for_again(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_text("33 more").or_(page.get_by_text(" more")).first.click()
    set_parameter(page, "max_tokens", "1900")
    page.get_by_label("ignore_eos").select_option("true")
    set_parameter(page, "temperature", "0")
    say(page, "Count to a hundred.")
    expect(page.locator(".answer")).to_contain_text(" ")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".foot")).to_contain_text("stopped by you")
    set_parameter(page, "max_tokens", "4")
    page.get_by_role("button", name="Regenerate").click()
    expect(page.locator(".foot")).to_contain_text("cut: the most tokens are reached")


def test_an_edited_question_forgets_what_came_after_it(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    say(page, "Hello")
    answered(page)
    say(page, "How are you?")
    answered(page, 2)
    page.get_by_role("button", name="Edit").first.click()
    page.get_by_role("textbox", name="Edit your message").fill("Who are you?")
    page.get_by_role("button", name="Send again").click()
    answered(page)
    expect(page.get_by_text("How are you?")).to_have_count(0)
    expect(page.locator(".answer")).to_contain_text("demo model")


def test_parameters_keep_to_the_bounds_of_the_servers_own_document(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    field = page.get_by_label("temperature", exact=True)
    expect(field).to_have_attribute("placeholder", "0 to 2")
    field.fill("3")
    expect(page.get_by_text("Wanted: 0 to 2.")).to_be_visible()
    page.get_by_role("textbox", name="Message to").fill("Hello")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    field.fill("0.5")
    page.get_by_role("button", name="Code", exact=True).click()
    expect(page.get_by_label("curl code")).to_contain_text('"temperature": 0.5')
    page.get_by_role("button", name="Close").click()


def test_pictures_are_chosen_pasted_and_dropped(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/shapes_vlm/chat")
    picture: FilePayload = {"name": "shapes.png", "mimeType": "image/png", "buffer": shapes()}
    page.get_by_label("Files of the message").set_input_files(picture)
    expect(page.get_by_role("img", name=re.compile("Attached"))).to_have_count(1)
    # Chromium lets scripts make both events, with what they carry.
    encoded = b64encode(shapes()).decode()
    made = f"""
        const bytes = Uint8Array.from(atob("{encoded}"), (letter) => letter.charCodeAt(0));
        const data = new DataTransfer();
        data.items.add(new File([bytes], "shapes.png", {{ type: "image/png" }}));
        const field = document.querySelector("textarea[aria-label^='Message to']");
    """
    paste = "new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })"
    visited.evaluate(f"{{ {made} field.dispatchEvent({paste}); }}")
    expect(page.get_by_role("img", name=re.compile("Attached"))).to_have_count(2)
    drop = "new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })"
    visited.evaluate(f"{{ {made} field.dispatchEvent({drop}); }}")
    expect(page.get_by_role("img", name=re.compile("Attached"))).to_have_count(3)


def drop(visited: Visit, name: str, kind: str, data: bytes) -> None:
    """Drop a file on the message. Chromium lets scripts make the event, with what it carries."""
    encoded = b64encode(data).decode()
    visited.evaluate(f"""{{
        const bytes = Uint8Array.from(atob("{encoded}"), (letter) => letter.charCodeAt(0));
        const data = new DataTransfer();
        data.items.add(new File([bytes], "{name}", {{ type: "{kind}" }}));
        const init = {{ dataTransfer: data, bubbles: true, cancelable: true }};
        const drop = new DragEvent("drop", init);
        document.querySelector("textarea[aria-label^='Message to']").dispatchEvent(drop);
    }}""")


def test_a_dropped_document_goes_with_the_question(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    message = page.get_by_role("group", name="Your message")
    expect(message.get_by_role("button", name="Add file")).to_be_visible()
    drop(visited, "Notes ä.md", "", b"# The printer\n\nIt stands next to the lift.\n")
    expect(message).to_contain_text("Notes ä.md")
    drop(visited, "data.bin", "application/octet-stream", b"\xff\xfe\x00")
    expect(message.get_by_role("status")).to_have_text("data.bin is neither text nor PDF.")
    with page.expect_request("**/v3/chat/completions") as sent:
        say(page, "Where is the printer?")
    answered(page)
    file, text = json.loads(sent.value.post_data or "")["messages"][-1]["content"]
    assert file["file"]["filename"] == "Notes ä.md"
    assert b64decode(file["file"]["file_data"].partition(",")[2]).startswith(b"# The printer")
    assert text["text"] == "Where is the printer?"
    expect(page.get_by_label("Turns")).to_contain_text("Notes ä.md")
    page.reload()
    expect(page.get_by_label("Turns")).to_contain_text("Notes ä.md")


def test_pictures_are_offered_where_they_are_read(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    message = page.get_by_role("group", name="Your message")
    expect(message.get_by_role("button", name="Add file", exact=True)).to_be_visible()
    drop(visited, "shapes.png", "image/png", shapes())
    expect(message.get_by_role("status")).to_have_text("No pictures are read here.")
    expect(message.get_by_role("img")).to_have_count(0)
    visited.go("playground/shapes_vlm/chat")
    expect(message.get_by_role("button", name=re.compile("^Add picture"))).to_be_visible()
    drop(visited, "shapes.png", "image/png", shapes())
    expect(message.get_by_role("img")).to_have_count(1)


def test_an_answer_and_its_code_are_copied(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/hostile/chat")
    say(page, "Hello")
    answered(page)
    page.get_by_role("button", name="Copy").last.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert visited.evaluate("navigator.clipboard.readText()") == "first\n  second\n"
    expect(page.get_by_role("button", name="Copied")).to_have_count(0)
    page.get_by_role("button", name="Copy").nth(1).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert visited.evaluate("navigator.clipboard.readText()").startswith("# Title\n\n<script>")


def test_a_picture_is_described(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/shapes_vlm/chat")
    picture: FilePayload = {"name": "shapes.png", "mimeType": "image/png", "buffer": shapes()}
    page.get_by_label("Files of the message").set_input_files(picture)
    expect(page.get_by_role("img", name="Attached, number 1")).to_be_visible()
    say(page, "What shapes are there?")
    answered(page)
    expect(page.locator(".answer")).to_contain_text("circle")


def test_a_persons_answer_to_a_call_goes_back_to_the_model(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_text("Tools", exact=True).click()
    page.get_by_role("button", name="Example").first.click()
    page.get_by_label("Choice of tool").select_option("required")
    set_parameter(page, "temperature", "0")
    say(page, "What is the weather in Paris?")
    expect(page.locator(".call")).to_contain_text("get_weather")
    page.get_by_label("Choice of tool").select_option("auto")
    page.get_by_placeholder("text, or JSON").fill('{"weather": "sunny", "temperature": 22}')
    page.get_by_role("button", name="Return to the model").click()
    answered(page, 2)
    expect(page.locator(".result")).to_contain_text("sunny")


def test_an_answer_that_has_to_be_json_is_held_against_its_schema(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_text("Answer as JSON").click()
    schema = page.get_by_label("JSON schema of the answer")
    schema.fill('{"type": "objekt"}')
    expect(page.get_by_text('"type" is "objekt"')).to_be_visible()
    schema.fill('{\n "type":\n}')
    expect(page.get_by_text("Line 3, column 1")).to_be_visible()
    schema.fill(
        '{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}},'
        ' "required": ["n"], "additionalProperties": false}'
    )
    say(page, "A number, please.")
    answered(page)
    expect(page.get_by_text("fits the schema")).to_be_visible()


def test_tokens_show_their_probabilities(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_label("Colour tokens by their probability").check()
    say(page, "Who are you?")
    answered(page)
    tokens = page.get_by_role("toolbar", name="Tokens of the answer").get_by_role("button")
    tokens.first.focus()
    page.keyboard.press("ArrowRight")
    expect(tokens.nth(1)).to_be_focused()
    expect(page.locator(".told")).to_contain_text("%")


def test_two_models_answer_side_by_side(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    page.get_by_role("button", name="Compare").click()
    page.get_by_label("Model 2").select_option("shapes_vlm")
    say(page, "How are you?")
    answered(page, 2)
    for name in ("demo", "shapes_vlm"):
        thread = page.get_by_role("region", name=f"Conversation with {name}")
        expect(thread.locator(".answer")).not_to_be_empty()


def test_the_request_runs_as_it_is_copied(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/chat")
    set_parameter(page, "temperature", "0")
    set_parameter(page, "seed", "7")
    say(page, "Who are you?")
    answered(page)
    page.get_by_role("button", name="Code", exact=True).click()
    code = {}
    for language in ("curl", "Python", "JavaScript"):
        page.get_by_role("button", name=language, exact=True).click()
        dialog = page.get_by_role("dialog", name="The request as code")
        dialog.get_by_role("button", name="Copy").click()
        expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
        code[language] = visited.evaluate("navigator.clipboard.readText()")
    page.get_by_role("button", name="Close").click()
    assert not any("KEY" in each for each in code.values())
    assert "demo model" in run([sys.executable, "-c", code["Python"]])
    if shutil.which("curl"):
        assert "data: [DONE]" in run(["sh", "-c", code["curl"]])
    if shutil.which("node"):
        words = ["node", "--input-type=module", "-e", code["JavaScript"]]
        assert "data: [DONE]" in run(words)


def run(words: list[str]) -> str:
    """Return what a program prints."""
    environment = {**os.environ, "NO_PROXY": "*"}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_hostile_answer_is_only_text(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/hostile/chat")
    say(page, "Hello")
    answered(page)
    answer = page.locator(".answer")
    expect(answer.get_by_role("heading", name="Title")).to_be_visible()
    expect(answer.locator("strong")).to_have_text("one")
    expect(answer).to_contain_text("<script>alert(1)</script>")
    expect(answer).to_contain_text("<b>bold</b>")
    expect(answer.locator("script, img, form, input, b, i, iframe")).to_have_count(0)
    expect(answer.get_by_role("link")).to_have_count(2)  # the picture, and the link
    answer.get_by_role("link", name="a link").click()
    asked = page.get_by_role("dialog", name="A model wrote this link")
    expect(asked).to_contain_text("https://evil.example/page")
    visited.check()
    asked.get_by_role("button", name="Stay here").click()
    expect(asked).to_be_hidden()
    answer.get_by_text("Reasoning").click()
    expect(answer).to_contain_text("<i>Let me see</i>")


def test_an_error_is_told_in_the_servers_words(serving: Serving, browser: Browser) -> None:
    address = f"http://127.0.0.1:{serving.port}/"
    expected = ["400 (Bad Request)"]
    with visit(browser, address, expected=expected) as visited:
        page = visited.page
        visited.go("playground/demo/chat")
        page.get_by_text("Tools", exact=True).click()
        page.get_by_label("Tools", exact=True).fill('[{"name": "not a name!"}]')
        say(page, "Hello")
        expect(page.get_by_role("alert")).to_contain_text("name")


def test_a_narrow_screen_shows_a_chat_and_its_settings(serving: Serving, browser: Browser) -> None:
    address = f"http://127.0.0.1:{serving.port}/"
    with visit(browser, address, size=(390, 780)) as visited:
        page = visited.page
        visited.go("playground/demo/chat")
        say(page, "Hello")
        answered(page)
        width = visited.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        page.get_by_role("button", name="Settings").click()
        expect(page.get_by_label("System message")).to_be_visible()
