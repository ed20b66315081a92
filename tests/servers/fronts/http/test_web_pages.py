"""Pages of other sites may do nothing unless the operator allows it (CORS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from servers.access import Access, ApiKeys
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, request_bytes, serving

PAGE = "https://page.example"
CHAT = "/v3/chat/completions"
ACCESS = Access(ApiKeys.of_text("key", "here"))


def preflight(run: Run, path: str = CHAT, *, origin: str = PAGE, **settings: Any) -> dict[str, str]:
    """Return the CORS headers of the answer to a preflight request, without their prefix."""
    found: dict[str, str] = {}

    async def scenario() -> None:
        headers = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-mine",
        }
        async with serving(FakeDataPlane(), hosts=("0.0.0.0",), **settings) as front:
            reply = await ask(front, request_bytes("OPTIONS", path, b"", headers))
            assert reply.status == 204
            found.update(_cors(reply.headers))

    run(scenario())
    return found


def _cors(headers: Mapping[str, str]) -> dict[str, str]:
    prefix = "access-control-"
    return {
        name.removeprefix(prefix): value
        for name, value in headers.items()
        if name.startswith(prefix)
    }


def test_by_default_pages_are_allowed_nothing(run: Run) -> None:
    assert preflight(run) == {}


def test_a_listed_page_may_use_the_methods_of_a_path(run: Run) -> None:
    found = preflight(run, allowed_origins=(PAGE,))
    assert found["allow-origin"] == PAGE
    assert found["allow-methods"] == "GET, HEAD, POST, OPTIONS"
    assert "authorization" in found["allow-headers"]
    assert "x-mine" not in found["allow-headers"]
    assert "allow-credentials" not in found
    assert preflight(run, allowed_origins=(PAGE,), origin="https://evil.example") == {}
    assert preflight(run, allowed_origins=(PAGE,), origin=f"{PAGE}.evil.example") == {}
    assert preflight(run, allowed_origins=(PAGE,), origin="null") == {}


def test_methods_headers_and_credentials_are_configurable(run: Run) -> None:
    settings: dict[str, Any] = {
        "allowed_origins": (PAGE,),
        "allowed_methods": ("get", "POST"),
        "allowed_headers": ("X-Mine", "authorization"),
        "allow_credentials": True,
    }
    found = preflight(run, **settings)
    assert found["allow-methods"] == "GET, POST"
    assert found["allow-headers"] == "X-Mine, authorization"
    assert found["allow-credentials"] == "true"
    assert preflight(run, "/v3/models", **settings)["allow-methods"] == "GET"


def test_a_star_allows_everything(run: Run) -> None:
    everything: dict[str, Any] = {
        "allowed_methods": ("*",),
        "allowed_headers": ("*",),
        "access": ACCESS,
    }
    found = preflight(run, allowed_origins=("*",), **everything)
    assert found["allow-origin"] == "*"
    assert found["allow-methods"] == "GET, HEAD, POST, OPTIONS"
    # By name, because in browsers a star does not include the header with the key.
    assert found["allow-headers"] == "authorization,x-mine"


def test_every_page_is_never_given_credentials(run: Run) -> None:
    found = preflight(run, allowed_origins=("*",), allow_credentials=True, access=ACCESS)
    assert found["allow-origin"] == "*"
    assert "allow-credentials" not in found


def test_answers_and_errors_can_be_read_by_listed_pages_only(run: Run) -> None:
    async def scenario() -> None:
        settings: dict[str, Any] = {"allowed_origins": (PAGE,), "hosts": ("0.0.0.0",)}
        async with serving(FakeDataPlane(), **settings) as front:
            for asked, status in (
                (chat_bytes(headers={"Origin": PAGE}), 200),
                (chat_bytes(headers={"Origin": PAGE}, stream=True), 200),
                (chat_bytes("no", headers={"Origin": PAGE}), 404),
            ):
                reply = await ask(front, asked)
                assert (reply.status, reply.headers["vary"]) == (status, "Origin")
                assert _cors(reply.headers) == {
                    "allow-origin": PAGE,
                    "expose-headers": "x-request-id, retry-after, warning",
                }
            other = await ask(front, chat_bytes(headers={"Origin": "https://evil.example"}))
            assert _cors(other.headers) == {}

    run(scenario())


@pytest.mark.parametrize("names", ["x\r\ny: z", "a" * 2000, "<script>"])
def test_invalid_preflight_values_are_not_repeated(run: Run, names: str) -> None:
    async def scenario() -> None:
        headers = {"Origin": PAGE, "Access-Control-Request-Headers": names}
        settings: dict[str, Any] = {"allowed_origins": (PAGE,), "allowed_headers": ("*",)}
        async with serving(FakeDataPlane(), **settings) as front:
            reply = await ask(front, request_bytes("OPTIONS", CHAT, b"", headers))
            repeated = _cors(reply.headers)["allow-headers"]
            assert repeated == "x" or repeated.startswith("authorization, content-type")

    run(scenario())
