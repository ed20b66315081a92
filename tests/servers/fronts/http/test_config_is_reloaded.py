"""``POST /v1/config/reload``: the states after it, or why the config did not take effect."""

from __future__ import annotations

import pytest

from graph_runtime import UnavailableError
from servers.contract.data_plane import ReloadError
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, request_bytes, serving

pytestmark = pytest.mark.both_loops

RELOAD = "/v1/config/reload"


@pytest.mark.parametrize(("has_changed", "status"), [(True, 201), (False, 200)])
def test_the_status_says_whether_anything_has_changed(
    run: Run, has_changed: bool, status: int
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.has_changed = has_changed
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("POST", RELOAD))
            states = await ask(front, request_bytes("GET", "/v1/config"))
        assert (reply.status, reply.json) == (status, states.json)

    run(scenario())


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ReloadError("Reloading config file failed: config.json:1:2: it is not JSON"), 412, "JSON"),
        (ReloadError("Reloading config file failed: no /secret/place/model"), 412, "<path>"),
        (UnavailableError("The server is shutting down"), 503, "shutting down"),
    ],
)
def test_a_config_that_cannot_take_effect_is_reported(
    run: Run, error: Exception, status: int, text: str
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.reload_error = error
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("POST", RELOAD))
        assert reply.status == status
        assert text in reply.json["error"]

    run(scenario())


def test_a_partial_reload_reports_changes_and_failures(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.reload_error = ReloadError("in part", ["a"], {"b": "no /secret/place/model"})
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("POST", RELOAD))
        assert reply.status == 422
        assert reply.json == {
            "error": "in part",
            "reloaded": ["a"],
            "failed": {"b": "no <path>"},
        }

    run(scenario())


def test_only_a_post_reloads(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes("GET", RELOAD))
        assert reply.status == 405
        assert reply.headers["allow"] == "POST, OPTIONS"
        assert reply.json == {"error": "the method must be POST here"}

    run(scenario())
