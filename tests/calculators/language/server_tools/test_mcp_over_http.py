"""Tools of MCP servers that are reached by HTTP, and answers without end."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import ResourceError
from tests.calculators.language.server_tools.hostile_server import answer
from tests.calculators.language.server_tools.toolboxes import OpenToolbox
from tests.support.patience import PATIENCE

# Only a child process imports it.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

PIECE = b"x" * 1024 * 1024


class Handler(BaseHTTPRequestHandler):
    """Answers with JSON; tools named after a fault have it."""

    def do_POST(self) -> None:
        self.server.tokens.append(self.headers.get("authorization"))  # type: ignore[attr-defined]
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.send_response(202)
            self.end_headers()
            return
        params = message.get("params") or {}
        match params.get("name"):
            case "gigabyte":
                self.endless("application/json", b'{"jsonrpc":"2.0","id":0,"result":"')
            case "long":
                self.endless("text/event-stream", b"data: ")
            case "garbage":
                self.reply({}, {"content-encoding": "gzip"})
            case "die":
                self.send_error(500)
            case _:
                self.reply(self.result(message, params))

    def result(self, message: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(message["method"], params)
        except LookupError:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        return reply

    def reply(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def endless(self, kind: str, start: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        with contextlib.suppress(OSError):  # until the client has had enough
            self.wfile.write(start)
            for _ in range(1024):
                self.wfile.write(PIECE)

    def log_message(self, format: str, *args: object) -> None:
        return


class Server(ThreadingHTTPServer):
    tokens: list[str | None]
    daemon_threads = True


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as serving:
        serving.tokens = []
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def tools(
    server: Server, tmp_path_factory: pytest.TempPathFactory, child_program: None
) -> Iterator[OpenToolbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHRT_TEST_TOKEN", "secret")
        patch.setenv("NO_PROXY", "127.0.0.1")
        opened = OpenToolbox(
            f'server {{ label: "far" url: "http://127.0.0.1:{server.server_port}/mcp" allow: "*" '
            f'bearer_token_env: "GRAPHRT_TEST_TOKEN" }} call_seconds: {PATIENCE}',
            tmp_path_factory.mktemp("graph"),
        )
        yield opened
        opened.close()


def test_a_call_gets_its_result_with_the_token(tools: OpenToolbox, server: Server) -> None:
    assert tools.call("echo", '{"a": 1}') == ('{"a": 1}', None)
    assert tools.call("raise") == ("", "it did not work")
    assert set(server.tokens) == {"Bearer secret"}


def test_the_url_is_known_by_the_label(tools: OpenToolbox, server: Server) -> None:
    assert tools.toolbox.urls == {"far": f"http://127.0.0.1:{server.server_port}/mcp"}


@pytest.mark.parametrize("name", ["gigabyte", "long", "garbage", "die"])
def test_an_answer_that_is_too_long_or_none_fails_the_call(tools: OpenToolbox, name: str) -> None:
    result = tools.call(name)
    assert result.output == ""
    assert result.error is not None
    if name == "gigabyte":
        assert "1 MiB" in result.error
    # The server may have been connected to again.
    assert tools.call("pid").output == str(os.getpid())


def test_a_server_that_is_not_there_is_refused(
    server: Server, tmp_path: Path, child_program: None
) -> None:
    with pytest.raises(ResourceError, match='server "far": '):
        OpenToolbox('server { label: "far" url: "http://127.0.0.1:9/" allow: "*" }', tmp_path)
