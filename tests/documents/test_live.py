"""docs/live.md: its commands on a real server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.snippets import asked, served
from tests.markdown import block, commands
from tests.servers.cli.serving import Serving

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
