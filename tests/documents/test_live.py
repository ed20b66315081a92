"""docs/live.md: its commands on a real server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.documents.snippets import asked, served
from tests.servers.cli.serving import Serving
from tests.support.markdown import block, commands
from tests.support.patience import PATIENCE

PAGE = "docs/live.md"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    (command,) = commands(PAGE, "graphrt serve examples/models/demo")
    with served(command) as server:
        yield server


def test_the_stream_begins_with_hello(server: Serving) -> None:
    (command,) = commands(PAGE, "curl -sN")
    event, data = asked(command, server).splitlines()
    assert event == "event: hello"
    assert "demo" in json.loads(data.removeprefix("data: "))["graphs"]


def test_a_request_is_followed(server: Serving, tmp_path: Path) -> None:
    (follow,) = commands(PAGE, "curl -s http://127.0.0.1:8000/v1/graphs/demo/follow")
    shown = block(PAGE, "console", "/follow").split("\n", 1)[1]
    assert asked(follow, server).strip() == shown.strip()
    chat, timeline, trace = commands(PAGE, "curl -s http://127.0.0.1:8000/v3/chat/completions")
    assert "choices" in json.loads(asked(chat, server))
    found = json.loads(asked(timeline, server))
    assert found["generations"][0]["out"] == 8
    asked(trace, server, tmp_path)
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_an_engine_shows_its_tokens_while_they_are_generated(server: Serving) -> None:
    """The page's count of tokens grows during an answer, not at its end."""
    address = f"http://127.0.0.1:{server.port}"
    asked = {"model": "demo", "max_tokens": 2000, "ignore_eos": True, "stream": True}
    asked |= {"messages": [{"role": "user", "content": "Hello"}]}
    with (
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
        client.stream("GET", "/v1/live") as live,
        client.stream("POST", "/v3/chat/completions", json=asked) as answer,
    ):
        assert answer.status_code == 200
        events = (json.loads(line[6:]) for line in live.iter_lines() if line.startswith("data: "))
        servables = next(each for each in events if "servables" in each)["servables"]
        assert servables[0]["memory_bytes"] > 1 << 20
        running = next(each for each in events if each.get("running") == 1)
        more = next(each for each in events if each.get("generated", 0) > running["generated"])
        assert more["running"] == 1
        assert more["up"] is True
