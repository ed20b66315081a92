"""API keys over HTTP: requests without one are refused everywhere, in the form of their API."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import pytest

from servers.access import Access, ApiKeys
from tests.corpora import corpora
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane, echo
from tests.servers.fronts.http.fake_models import pass_through
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, request_bytes, serving

KEY = "sk-CANARY-0b5e"
ACCESS = Access(ApiKeys.of_text(f"{KEY}\nsecond", "here"))
BEARER = {"Authorization": f"Bearer {KEY}"}
JSON = {"Content-Type": "application/json"}
CASES = corpora()


@pytest.mark.parametrize(
    "header", [BEARER, {"x-api-key": "second"}, {"X-API-Key": KEY}, {"x-goog-api-key": KEY}]
)
def test_a_key_opens_every_api(run: Run, header: dict[str, str]) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), access=ACCESS) as front:
            assert (await ask(front, chat_bytes(headers=header))).status == 200
            for path in ("/v2", "/v1/config", "/v3/models", "/v2/models/echo"):
                assert (await ask(front, request_bytes("GET", path, b"", header))).status == 200

    run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("POST", "/v3/chat/completions", "openai"),
        ("POST", "/v1/completions", "openai"),
        ("GET", "/v1/models", "openai"),
        ("GET", "/v3/models/echo", "openai"),
        ("GET", "/metrics", "openai"),
        ("GET", "/no/such/path", "openai"),
        ("PATCH", "/v3/chat/completions", "openai"),
        ("POST", "/v1/messages", "anthropic"),
        ("POST", "/v3/messages/count_tokens", "anthropic"),
        ("GET", "/v1beta/models", "google"),
        ("POST", "/v1beta/models/echo:generateContent", "google"),
        ("POST", "/v1/models/echo:countTokens", "google"),
        ("POST", "/infill", "llama_cpp"),
        ("POST", "/", "hugging_face"),
        ("POST", "/generate", "hugging_face"),
        ("GET", "/v1/config", "kserve"),
        ("POST", "/v1/config/reload", "kserve"),
        ("GET", "/v2", "kserve"),
        ("GET", "/v2/models/echo/ready", "kserve"),
        ("POST", "/v2/models/echo/infer", "kserve"),
        ("POST", "/v2/repository/index", "kserve"),
        ("POST", "/v2/repository/models/echo/unload", "kserve"),
    ],
)
def test_without_a_key_every_route_but_health_is_refused(
    run: Run, method: str, path: str, form: str
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, access=ACCESS) as front:
            for header, text in (({}, "no API key: "), ({"x-api-key": "no"}, "is not valid")):
                reply = await ask(front, request_bytes(method, path, b"{}", {**JSON, **header}))
                assert reply.status == 401
                assert reply.headers["www-authenticate"] == 'Bearer realm="graphrt"'
                assert text in _told(reply.json, form)
        assert (plane.payloads, plane.requests, plane.unloaded) == ([], [], [])

    run(scenario())


def _told(body: Any, form: str) -> str:
    """Return the text of an error in this form, after checking that it has no other."""
    if form == "kserve":
        assert body.keys() == {"error"}
        return str(body["error"])
    if form == "anthropic":
        assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
        return str(body["error"]["message"])
    if form == "google":
        assert (body["error"]["code"], body["error"]["status"]) == (401, "UNAUTHENTICATED")
        return str(body["error"]["message"])
    if form == "llama_cpp":
        assert (body["error"]["code"], body["error"]["type"]) == (401, "authentication_error")
        return str(body["error"]["message"])
    if form == "hugging_face":
        assert body.keys() == {"error", "error_type"}
        return str(body["error"])
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "authentication_error"
    assert body["error"]["code"] == "invalid_api_key"
    return str(body["error"]["message"])


def test_health_and_named_routes_are_open(run: Run) -> None:
    async def scenario() -> None:
        access = Access(ACCESS.keys, open_routes=("/v3/models",))
        async with serving(FakeDataPlane(), access=access) as front:
            for path in ("/v2/health/live", "/v2/health/ready", "/v3/models", "/v3/models?a=b"):
                assert (await ask(front, request_bytes("GET", path))).status == 200
            for path in ("/v3/models/echo", "/V3/models", "/v3/models/", "/v2/health/%6Cive"):
                assert (await ask(front, request_bytes("GET", path))).status == 401

    run(scenario())


@pytest.mark.parametrize(
    "start",
    [
        "GET /v1/config HTTP/1.1\r\nHost: localhost/v2/health/live?x=\r\n",
        "GET http://localhost/v2/health/live/../../../v1/config HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v2/health/live/../../../v1/config HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v2/health/live/%2e%2e/%2e%2e/%2e%2e/v1/config HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v1/config;/v2/health/live HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v1/config?/v2/health/live HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v1/config HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: /v2/health/live\r\n",
        "HEAD /v1/config HTTP/1.1\r\nHost: localhost\r\n",
        "GET /v1/config HTTP/1.0\r\n",
        "GET /v1/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n",
        "GET /v1/config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\n"
        f"Authorization: Bearer b, Bearer {KEY}\r\n",
    ],
)
def test_no_spelling_of_a_request_evades_the_check(run: Run, start: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), access=ACCESS) as front, connected(front) as client:
            client.send(f"{start}\r\n".encode("latin-1"))
            assert (await client.head())[0] in (400, 401, 404)

    run(scenario())


def test_a_refused_body_is_not_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), access=ACCESS) as front, connected(front) as client:
            fields = {**JSON, "Content-Length": "8000000", "Expect": "100-continue"}
            client.send(request_bytes("POST", "/v3/chat/completions", b"", fields))
            assert (await client.head())[0] == 401  # and no "100 Continue" before the refusal

    run(scenario())


def test_many_requests_of_one_connection_are_each_checked(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), access=ACCESS) as front, connected(front) as client:
            statuses = [
                (await client.ask(request_bytes("GET", "/v2", b"", header))).status
                for header in (BEARER, {}, BEARER, {"x-api-key": "no"})
            ]
            assert statuses == [200, 401, 200, 401]

    run(scenario())


def test_preflight_requests_need_no_key(run: Run) -> None:
    async def scenario() -> None:
        page = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
        settings = {"access": ACCESS, "allowed_origins": ("https://page.example",)}
        async with serving(FakeDataPlane(), **settings) as front:
            reply = await ask(front, request_bytes("OPTIONS", "/v3/chat/completions", b"", page))
            assert reply.status == 204
            assert "authorization" in reply.headers["access-control-allow-headers"]
            refused = await ask(front, chat_bytes(headers=page))
            # A page must be able to read the reason.
            assert refused.status == 401
            assert refused.headers["access-control-allow-origin"] == "https://page.example"

    run(scenario())


def test_keys_reach_neither_graphs_nor_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, access=ACCESS) as front:
            with caplog.at_level(logging.DEBUG):
                both = {**BEARER, "X-Api-Key": KEY, "X-Mine": "1"}
                assert (await ask(front, chat_bytes(headers=both))).status == 200
                wrong = {"Authorization": f"Bearer {KEY}x"}
                refused = await ask(front, chat_bytes(headers=wrong))
        assert "CANARY" not in caplog.text + str(refused)
        (payload,) = plane.payloads
        assert "CANARY" not in str(payload.headers)
        assert payload.headers["x-mine"] == "1"

    run(scenario())


def test_google_clients_may_send_the_key_in_the_query(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, access=ACCESS) as front:
            with caplog.at_level(logging.DEBUG):
                for path in ("/v1beta/models/echo:generateContent", "/v1/models/echo:countTokens"):
                    asked = request_bytes("POST", f"{path}?a=b&key={KEY}&c=d", b"{}", JSON)
                    assert (await ask(front, asked)).status == 200
                listed = await ask(front, request_bytes("GET", f"/v1beta/models?key={KEY}"))
                assert listed.status == 200
                # Other APIs have no such key: it would be in the logs of every proxy.
                chat = request_bytes("POST", f"/v3/chat/completions?key={KEY}", b"{}", JSON)
                assert (await ask(front, chat)).status == 401
        assert "CANARY" not in caplog.text
        assert [payload.uri.partition("?")[2] for payload in plane.payloads] == ["a=b&c=d"] * 2

    run(scenario())


def test_a_graph_without_a_guard_before_it_gets_all_headers(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            await ask(front, chat_bytes(headers=BEARER))
        assert plane.payloads[0].headers["authorization"] == f"Bearer {KEY}"

    run(scenario())


# Control ------------------------------------------------------------------------------------------

LOAD = "/v2/repository/models/echo/load"


def test_models_are_not_loaded_or_unloaded_without_permission(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, access=Access(allows_control=False)) as front:
            for path in (LOAD, LOAD.replace("load", "unload"), "/v1/config/reload"):
                reply = await ask(front, request_bytes("POST", path, b"{}", JSON))
                assert reply.status == 403
                assert "cannot be changed over the network" in json.dumps(reply.json)
            index = await ask(front, request_bytes("POST", "/v2/repository/index", b"", JSON))
            assert index.status == 200
        assert (plane.loaded, plane.unloaded) == ([], [])

    run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_page_of_another_site_cannot_load_or_unload_models(run: Run, host: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane, hosts=(host,)) as front:
            for origin, status in (
                ("https://evil.example", 403),
                ("null", 403),
                ("http://localhost", 200),
            ):
                asked = request_bytes("POST", LOAD, b"", {**JSON, "Origin": origin})
                assert (await ask(front, asked)).status == status
        assert plane.loaded == ["echo"]

    run(scenario())


def test_the_corpus_of_hostile_requests_is_refused_without_a_key(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(tiny=echo)
        plane.inferences["tiny"] = pass_through
        async with serving(plane, access=ACCESS) as front:
            runner = await asyncio.create_subprocess_exec(
                sys.executable,
                str(CASES / "run_bad_inputs.py"),
                *("--url", f"http://127.0.0.1:{front.addresses[0][1]}"),
                *("--model", "tiny", "--api-key", KEY),
                *("--group", "auth", "--have", "api_key,auth_all_routes"),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await runner.communicate()
        assert runner.returncode == 0, output.decode()
        assert b" 0 skipped" in output

    run(scenario())
