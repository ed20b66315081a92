"""The playground's views of models that are not chats, against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, FilePayload, expect

from tests.page.browsing import Visit, visit
from tests.page.playing import serving_models, shapes, tone
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

#: A microphone that hears a tone.
_MICROPHONE: Final = """
    navigator.mediaDevices.getUserMedia = async () => {
        const context = new AudioContext();
        const tone = context.createOscillator();
        const heard = context.createMediaStreamDestination();
        tone.connect(heard);
        tone.start();
        return heard.stream;
    };
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving_models(tmp_path_factory.mktemp("site")) as server:
        yield server


@pytest.fixture
def visited(serving: Serving, browser: Browser) -> Iterator[Visit]:
    with visit(browser, f"http://127.0.0.1:{serving.port}/") as opened:
        yield opened


def test_a_prompt_is_completed(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/demo/completion")
    page.get_by_label("temperature", exact=True).fill("0")
    page.get_by_role("button", name="Complete").click()
    expect(page.get_by_text(re.compile(r"\d+ tokens · first after"))).to_be_visible()
    expect(page.locator(".text")).to_contain_text("A dataflow graph is ")


def test_lines_are_compared_as_a_matrix(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/docs_embedder")
    page.get_by_label("Texts, one a line").fill("packets\nthe same\nthe same")
    page.get_by_role("button", name="Compare").click()
    cells = page.get_by_role("table").locator("tbody td")
    expect(cells).to_have_count(9)
    expect(cells).to_contain_text(["1.00", "", "", "", "1.00", "1.00", "", "1.00", "1.00"])
    expect(page.get_by_text("128 dimensions")).to_be_visible()


def test_documents_are_ranked(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/docs_ranker")
    first = page.locator("ol li").first
    expect(first).to_contain_text("Packets move along streams")
    expect(first).to_contain_text("was 2")


def test_texts_are_moderated_and_classified(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/guard/classify")
    insult = page.get_by_role("list", name="Classes of You stupid fool!")
    expect(insult.locator("li").filter(has_text="insult")).to_contain_text("1.000")
    page.get_by_role("link", name="Moderation").click()
    expect(page.get_by_text("passes").first).to_be_visible()
    expect(page.get_by_role("list", name="Scores of Have a good day.")).to_contain_text("violence")


def test_sound_of_a_file_and_of_the_microphone_becomes_text(visited: Visit) -> None:
    page = visited.page
    page.add_init_script(_MICROPHONE)
    visited.go("playground/counter")
    sound: FilePayload = {"name": "tone.wav", "mimeType": "audio/wav", "buffer": tone()}
    page.locator("input[type=file]").set_input_files(sound)
    page.get_by_role("button", name="Transcribe").click()
    expect(page.locator(".text")).to_contain_text("one two three")
    page.get_by_label("With times").check()
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.get_by_text(re.compile(r"End the recording \([1-9]"))).to_be_visible()
    page.get_by_role("button", name="End the recording").click()
    expect(page.get_by_text("s of sound")).to_be_visible()
    expect(page.locator("ol li").first).to_contain_text("one two three")


def test_a_text_is_spoken_while_it_is_made(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/tones")
    expect(page.get_by_text("2 voices")).to_be_visible()
    page.get_by_label("Voice").select_option("alloy")
    page.get_by_role("button", name="Speak").click()
    expect(page.get_by_text(re.compile(r"first sound after .* s of sound"))).to_be_visible()
    expect(page.get_by_label("The spoken text")).to_be_visible()


def test_a_picture_becomes_a_tensor_and_boxes_are_drawn(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/object_detection")
    picture: FilePayload = {"name": "shapes.png", "mimeType": "image/png", "buffer": shapes()}
    page.locator("input[type=file]").set_input_files(picture)
    page.get_by_role("button", name="Infer").click()
    expect(page.get_by_role("img", name=re.compile("boxes as boxes, circle"))).to_be_visible()
    expect(page.get_by_role("img", name="annotated as picture")).to_be_visible()
    page.get_by_label("Draw boxes as").select_option("figures")
    expect(page.get_by_label("First values")).to_be_visible()


def test_a_graph_of_ones_own_gets_any_json(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/hostile")
    expect(page.get_by_label("Path")).to_have_value("/v3/graph")
    page.get_by_label("Body").fill('{"model": "hostile"')
    expect(page.get_by_text('"," or "}" is missing')).to_be_visible()
    page.get_by_label("Body").fill('{"model": "hostile", "stream": true}')
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_label("Answer")).to_contain_text("data: [DONE]")


def test_a_picture_is_drawn_and_another_one_changed(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/painter")
    page.get_by_label("The picture in words").fill("a lighthouse")
    page.get_by_label("size", exact=True).fill("64x64")
    page.get_by_role("button", name="Draw").click()
    drawn = page.get_by_role("img", name="a lighthouse, number 1")
    expect(drawn).to_have_js_property("naturalWidth", 64)
    before = drawn.get_attribute("src")
    picture: FilePayload = {"name": "shapes.png", "mimeType": "image/png", "buffer": shapes()}
    page.get_by_label("Begin with a picture").set_input_files(picture)
    page.get_by_role("button", name="Draw").click()
    expect(drawn).not_to_have_attribute("src", before or "")
    expect(drawn).to_have_js_property("naturalWidth", 64)
