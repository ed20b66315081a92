"""The playground's talk: the microphone in, answers aloud, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, WebSocket, expect

from tests.examples.voice_graph import CONVERSATION, HEARD, MODELS, put_graph
from tests.page.browsing import Visit, visit
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)

#: A microphone that is silent until ``say()``, which speaks for a second and a half.
_MICROPHONE: Final = """
    navigator.mediaDevices.getUserMedia = async () => {
        const context = new AudioContext();
        const tone = context.createOscillator();
        const mouth = context.createGain();
        const heard = context.createMediaStreamDestination();
        mouth.gain.value = 0;
        tone.connect(mouth).connect(heard);
        tone.start();
        window.say = () => {
            mouth.gain.setValueAtTime(0.5, context.currentTime);
            mouth.gain.setValueAtTime(0, context.currentTime + 1.5);
        };
        return heard.stream;
    };
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("site")
    words = [str(put_graph(folder, CONVERSATION)), str(MODELS / "counter")]
    with Serving(folder, *words, calculators=()) as server:
        yield server.wait_until_serving()


@pytest.fixture
def visited(serving: Serving, browser: Browser) -> Iterator[Visit]:
    with visit(browser, f"http://127.0.0.1:{serving.port}/") as opened:
        opened.page.add_init_script(_MICROPHONE)
        yield opened


def test_one_talks_is_answered_aloud_and_interrupts(visited: Visit) -> None:
    page = visited.page
    sent: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.append(json.loads(frame)["type"]))

    page.on("websocket", listen)
    visited.go("playground/voice_conversation/talk")
    page.get_by_role("button", name="Talk").click()
    status = page.get_by_role("status")
    expect(status).to_have_text("Listening")
    page.evaluate("say()")
    turns = page.get_by_role("list", name="What was said").get_by_role("listitem")
    expect(turns.first).to_contain_text(HEARD)
    expect(turns.nth(1)).to_contain_text("voice_conversation")
    # The sound of the answer is longer than what follows takes.
    page.evaluate("say()")
    expect(turns.nth(2)).to_contain_text(HEARD)
    expect(turns.nth(3)).to_contain_text("voice_conversation")
    assert "conversation.item.truncate" in sent
    page.get_by_role("button", name="Hang up").click()
    expect(page.get_by_role("button", name="Talk")).to_be_visible()
    expect(status).to_have_text("")


def test_a_model_that_only_listens_writes_down_what_is_said(visited: Visit) -> None:
    page = visited.page
    visited.go("playground/counter/talk")
    page.get_by_role("button", name="Talk").click()
    expect(page.get_by_role("status")).to_have_text("Listening")
    page.evaluate("say()")
    turns = page.get_by_role("list", name="What was said").get_by_role("listitem")
    expect(turns).to_have_count(1)
    expect(turns.first).to_contain_text(HEARD)


def test_without_a_microphone_the_page_says_why(visited: Visit) -> None:
    page = visited.page
    page.add_init_script("""
        navigator.mediaDevices.getUserMedia = async () => {
            throw new DOMException("no", "NotAllowedError");
        };
    """)
    visited.go("playground/counter/talk")
    page.get_by_role("button", name="Talk").click()
    expect(page.get_by_role("alert")).to_contain_text("does not let this page use the microphone")
    expect(page.get_by_role("button", name="Talk")).to_be_visible()
