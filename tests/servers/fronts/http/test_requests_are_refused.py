"""Refused requests: status and form of the answer, and no other effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servers.fronts.http import HttpSettings
from servers.fronts.http.browser_guard import BrowserGuard
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, request_bytes, serving

JSON_TYPE = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/chat/completions", "/v1/chat/completions"),
        ("POST", "/v1/v1/chat/completions", "/v1/chat/completions"),
        ("POST", "/openai/v1/embeddings/", "/v1/embeddings"),
        ("POST", "/messages", "/v1/messages"),
        ("POST", "/messages/count_tokens", "/v1/messages/count_tokens"),
        ("GET", "/models", "/v1/models"),
    ],
)
def test_a_path_of_another_base_is_answered_with_the_right_one(
    run: Run, method: str, path: str, meant: str
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes(method, path))
        assert reply.status == 404
        assert f"Did you mean {meant}?" in reply.error["message"]

    run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nope", 404, None),
        ("PUT", "/", 405, "GET, HEAD, POST, OPTIONS"),
        ("POST", "/v3/", 404, None),
        ("GET", "/v3/models/../../etc/passwd", 404, None),
        ("POST", "/v3/./chat/completions", 404, None),
        ("GET", "/v3/completions", 405, "POST, OPTIONS"),
        ("PUT", "/v3/chat/completions", 405, "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/v1/completions", 405, "POST, OPTIONS"),
        ("POST", "/v3/models", 405, "GET, HEAD, OPTIONS"),
        ("POST", "/metrics", 405, "GET, HEAD, OPTIONS"),
        ("GET", "/v3/batches", 404, None),
        ("DELETE", "/v1/files/file-1", 404, None),
        ("PATCH", "/v3/v1/assistants", 404, None),
        ("POST", "/v3/batches", 404, None),
        ("OPTIONS", "/v3/chat/completions", 204, "GET, HEAD, POST, OPTIONS"),
    ],
)
def test_unknown_paths_and_wrong_methods_are_refused(
    run: Run, method: str, path: str, status: int, allow: str | None
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes(method, path))
        assert (reply.status, reply.headers.get("allow")) == (status, allow)
        if status == 204:
            return
        assert reply.error["type"] == "invalid_request_error"
        assert reply.headers["content-type"] == "application/json"

    run(scenario())


@pytest.mark.parametrize(
    ("method", "content_type", "body"),
    [
        ("GET", "", b""),
        ("POST", "application/json", b"{}"),
        ("POST", "application/json", b'{"input_file_id": "file-1", "endpoint": "/v1/responses"}'),
        ("POST", "multipart/form-data; boundary=x", b"--x--"),
        ("POST", "application/json", b""),
    ],
)
def test_an_unknown_path_is_not_found_with_any_method(
    run: Run, method: str, content_type: str, body: bytes
) -> None:
    async def scenario() -> None:
        headers = {"Content-Type": content_type} if content_type else {}
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes(method, "/v3/nothing", body, headers))
        assert reply.status == 404
        assert "/v3/chat/completions, /v3/completions" in reply.error["message"]

    run(scenario())


def test_a_graph_answers_at_any_path_that_names_it(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            assert (await ask(front, chat_bytes(path="/v3/mine"))).status == 200
            broken = request_bytes("POST", "/v3/mine", b'{"model": ', JSON_TYPE)
            reply = await ask(front, broken)
        assert reply.status == 400
        assert "not valid JSON: line 1, byte 11" in reply.error["message"]

    run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/v3/chat/completions",
        "/v3/mine",
        "/v2/models/echo/infer",
        "/v2/models/echo/generate",
        "/v2/repository/index",
        "/v2/repository/models/echo/load",
    ],
)
@pytest.mark.parametrize("after", [b"\0", b"\0x", b"\0{:}", b"\n\0"])
def test_a_nul_after_the_json_is_refused_everywhere(run: Run, path: str, after: bytes) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            body = b'{"model": "echo"}' + after
            reply = await ask(front, request_bytes("POST", path, body, JSON_TYPE))
        assert reply.status in (400, 403)  # a missing permission to load is reported first
        if reply.status == 400:
            assert b"not valid JSON" in reply.body

    run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v2/health/live", 405),
        ("POST", "/v1/config", 405),
        ("GET", "/v2/models/other/ready", 404),
        ("POST", "/v2/models/other/infer", 400),
        ("GET", "/v2/models/echo/infer", 405),
        ("POST", "/v2/models/echo", 405),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models//ready", 404),
        ("POST", "/v2/repository/models/echo/reload", 404),
    ],
)
def test_kserves_paths_have_kserves_errors(run: Run, method: str, path: str, status: int) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes(method, path, b"{}", JSON_TYPE))
        assert reply.status == status
        assert isinstance(reply.json["error"], str)

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"model": None}, 400, "model", None),
        ({"model": 7}, 400, "model", None),
        ({"model": ["echo"]}, 400, "model", None),
        ({"model": ""}, 400, "model", None),
        ({"model": "Echo"}, 404, "model", "model_not_found"),
        ({"model": " echo "}, 404, "model", "model_not_found"),
        ({"model": "\x1b[2J/etc/passwd"}, 404, "model", "model_not_found"),
        ({"model": "m" * 100_000}, 404, "model", "model_not_found"),
        ({"stream": "true"}, 400, "stream", None),
        ({"stream": 1}, 400, "stream", None),
    ],
)
def test_model_and_stream_must_have_the_right_types(
    run: Run, fields: dict[str, Any], status: int, param: str, code: str | None
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(**{"model": "echo", **fields}))
        assert reply.status == status
        assert (reply.error["param"], reply.error["code"]) == (param, code)
        assert len(reply.body) < 1000
        assert "\x1b" not in reply.error["message"]

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Type": "application/json; charset=utf-16"}, 415),
        ({"Content-Type": 'application/json; charset="UTF-8"'}, 200),
        ({"Content-Type": "Application/JSON"}, 200),
        ({"Content-Encoding": "gzip"}, 400),
        ({"Content-Encoding": "wat"}, 400),
        ({"Content-Encoding": "identity"}, 200),
        ({"Expect": "tea"}, 417),
        ({"Host": "a/b?c"}, 400),
    ],
)
def test_contradicting_headers_of_a_body_are_refused(
    run: Run, headers: dict[str, str], status: int
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes(headers=headers))
        assert reply.status == status
        if status != 200:
            assert reply.error["message"]

    run(scenario())


@pytest.mark.parametrize("body", [b"null", b"[1]", b'"hi"', b"true", b"{", b""])
def test_a_body_must_be_a_json_object(run: Run, body: bytes) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            data = request_bytes("POST", "/v3/chat/completions", body, JSON_TYPE)
            assert (await client.ask(data)).status == 400
            assert (await client.ask(chat_bytes())).status == 200  # the connection stays open

    run(scenario())


def test_a_declared_body_over_the_limit_is_refused_before_it_is_sent(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), max_body_bytes=100) as front,
            connected(front) as client,
        ):
            headers = {**JSON_TYPE, "Content-Length": "101", "Expect": "100-continue"}
            reply = await client.ask(request_bytes("POST", "/v3/completions", b"", headers))
            assert (reply.status, reply.headers["connection"]) == (413, "close")
            assert reply.error["message"] == "the body is larger than 100 bytes"

    run(scenario())


def test_a_chunked_body_over_the_limit_is_refused_while_it_arrives(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, max_body_bytes=100) as front, connected(front) as client:
            client.send(
                b"POST /v3/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"65\r\n" + b" " * 101 + b"\r\n"
            )
            assert (await client.reply()).status == 413
        assert plane.payloads == []

    run(scenario())


def test_a_transfer_coding_besides_chunked_is_refused(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front, connected(front) as client:
            client.send(
                b"POST /v3/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
                b'10\r\n{"model":"echo"}\r\n0\r\n\r\n'
            )
            reply = await client.reply()
            assert reply.status == 400
            assert "the only Transfer-Encoding of a body here is chunked" in reply.error["message"]
        assert plane.payloads == []

    run(scenario())


def test_a_body_of_exactly_the_limit_is_accepted(run: Run) -> None:
    async def scenario() -> None:
        body = b'{"model":"echo"}'
        async with serving(FakeDataPlane(), max_body_bytes=len(body)) as front:
            data = request_bytes("POST", "/v3/completions", body, JSON_TYPE)
            assert (await ask(front, data)).status == 200

    run(scenario())


@pytest.mark.parametrize(
    "wire",
    [
        b"FOO /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v3/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_bytes_that_are_not_http_get_one_clean_text(
    run: Run, wire: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, wire)
        assert reply.status == 400
        assert reply.headers["server"] == "graphrt"
        assert reply.headers["connection"] == "close"
        assert len(reply.error["message"]) < 80

    run(scenario())
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_server_is_not_a_proxy(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            assert (await ask(front, request_bytes("GET", "http://localhost/v2"))).status == 400

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8000"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "app.localhost"}, 200),
        ({"Host": "console.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "192.168.0.7:8000"}, 200),
        ({"Host": "0.0.0.0:8000"}, 403),
        ({"Host": "0.0.0.0.:8000"}, 403),
        ({"Host": "[::]:8000"}, 403),
        ({"Host": "[::ffff:0.0.0.0]"}, 403),
        ({"Host": "0"}, 403),
        ({"Host": "0.0.0.0:8000", "Origin": "http://0.0.0.0:8000"}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "https://page.example"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
    ],
)
def test_a_local_server_answers_local_host_names_and_listed_pages(
    run: Run, headers: dict[str, str], status: int
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(
            plane, allowed_hosts=("console.example",), allowed_origins=("https://page.example",)
        ) as front:
            for data in (chat_bytes(headers=headers), request_bytes("GET", "/v2", b"", headers)):
                reply = await ask(front, data)
                assert reply.status == status
                listed = headers.get("Origin") == "https://page.example"
                assert ("access-control-allow-origin" in reply.headers) is listed
        assert len(plane.payloads) == (status == 200)

    run(scenario())


@pytest.mark.parametrize("hosts", [("0.0.0.0",), ("127.0.0.1", "192.168.0.7"), ("example.com",)])
def test_a_server_on_another_address_answers_any_host_name(hosts: tuple[str, ...]) -> None:
    guard = BrowserGuard(HttpSettings(hosts=hosts))
    guard.check({"Host": "any.example", "Origin": "https://other.example"})


def test_a_listed_page_may_send_a_preflight_request(run: Run) -> None:
    async def scenario() -> None:
        page = "https://page.example"
        async with serving(FakeDataPlane(), allowed_origins=(page,)) as front:
            asked = request_bytes("OPTIONS", "/v3/chat/completions", b"", {"Origin": page})
            reply = await ask(front, asked)
        assert reply.status == 204
        assert reply.headers["access-control-allow-origin"] == page
        allowed = reply.headers["access-control-allow-methods"]
        assert allowed == "GET, HEAD, POST, OPTIONS"

    run(scenario())


def test_secrets_reach_neither_answers_nor_logs(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def scenario() -> None:
        headers = {"Authorization": "Bearer CANARY-1"}
        path = "/v3/chat/completions?api_key=CANARY-2"
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, chat_bytes("CANARY-3" * 200, path=path, headers=headers))
        assert b"CANARY" not in reply.body
        assert "CANARY" not in json.dumps(dict(reply.headers))

    run(scenario())
    assert "CANARY" not in caplog.text
    assert "POST /v3/chat/completions 404" in caplog.text
