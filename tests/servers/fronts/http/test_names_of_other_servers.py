"""Paths that clients of vLLM, llama.cpp, Kubernetes and SageMaker know."""

from __future__ import annotations

import pytest

from calculators.kit.tasks import find_task
from servers import version
from servers.access import Access, ApiKeys
from servers.contract.data_plane import ModelDescription
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, connected, request_bytes, serving

BODIES = {
    "/livez": {"live": True},
    "/readyz": {"ready": True},
    "/health": {"status": "ok"},
    "/ping": {"status": "ok"},
}


def test_health_has_the_names_of_other_servers(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front, connected(front) as client:
            for path, body in BODIES.items():
                reply = await client.ask(request_bytes("GET", path))
                assert (reply.status, reply.json) == (200, body), path
                client.send(request_bytes("HEAD", path))
                head = await client.reply(has_body=False)
                assert (head.status, head.headers["content-length"]) == (200, str(len(reply.body)))
                refused = await client.ask(request_bytes("POST", path, b"{}"))
                assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")

    run(scenario())


def test_a_server_that_is_not_ready_is_live(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.is_ready = False
        async with serving(plane) as front:
            assert (await ask(front, request_bytes("GET", "/livez"))).status == 200
            for path in ("/readyz", "/health", "/ping"):
                reply = await ask(front, request_bytes("GET", path))
                assert (reply.status, reply.error["message"]) == (503, "the server is not ready")

    run(scenario())


def test_health_needs_no_key_and_the_version_does(run: Run) -> None:
    async def scenario() -> None:
        access = Access(ApiKeys.of_text("secret", "here"))
        async with serving(FakeDataPlane(), access=access) as front:
            for path in BODIES:
                assert (await ask(front, request_bytes("GET", path))).status == 200
            assert (await ask(front, request_bytes("GET", "/version"))).status == 401
            key = {"Authorization": "Bearer secret"}
            told = await ask(front, request_bytes("GET", "/version", headers=key))
            assert (told.status, told.json) == (200, {"version": version()})

    run(scenario())


@pytest.mark.parametrize("prefix", ["/v3", "/v1"])
def test_models_show_what_their_task_says(run: Run, prefix: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        facts = {"max_model_len": 4096}
        plane.described = [
            ModelDescription("chat", 1_700_000_000, "", "text_generation", facts),
            ModelDescription("pirate", 1_700_000_000, "chat", "text_generation", facts),
            ModelDescription("own", 1_700_000_000),
        ]
        async with serving(plane) as front:
            listed = await ask(front, request_bytes("GET", f"{prefix}/models"))
            common = {"object": "model", "created": 1_700_000_000, "owned_by": "graphrt"}
            task = find_task("text_generation")
            assert task is not None
            endpoints = list(dict.fromkeys(endpoint.path for endpoint in task.endpoints))
            assert "/chat/completions" in endpoints
            chat = {"max_model_len": 4096, "task": "text_generation", "endpoints": endpoints}
            assert listed.json["data"] == [
                {"id": "chat", **common, **chat},
                {"id": "pirate", **common, **chat, "root": "chat", "parent": "chat"},
                {"id": "own", **common},
            ]
            one = await ask(front, request_bytes("GET", f"{prefix}/models/chat"))
            assert one.json == listed.json["data"][0]

    run(scenario())
