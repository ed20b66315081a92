"""Descriptions of the server and its models over KServe, and loading and unloading."""

from __future__ import annotations

import pytest

from graph_runtime import Code, UnavailableError
from graph_runtime.errors import GraphError
from servers.contract.data_plane import IndexEntry, TensorMetadata
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, connected, request_bytes, serving
from tests.servers.fronts.http.kserve_requests import post


@pytest.mark.parametrize(
    ("is_ready", "status", "body"),
    [(True, 200, {"ready": True}), (False, 503, {"error": "the server is not ready"})],
)
def test_health_is_answered(run: Run, is_ready: bool, status: int, body: object) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.is_ready = is_ready
        async with serving(plane) as front:
            live = await ask(front, request_bytes("GET", "/v2/health/live"))
            ready = await ask(front, request_bytes("GET", "/v2/health/ready"))
        assert (live.status, live.json) == (200, {"live": True})
        assert (ready.status, ready.json) == (status, body)

    run(scenario())


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_the_server_names_its_extensions(run: Run, path: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes("GET", path))
        assert reply.json["name"] == "graphrt"
        assert reply.json["extensions"] == [
            "binary_tensor_data",
            "generate",
            "model_repository",
            "parameters",
        ]

    run(scenario())


@pytest.mark.parametrize(
    "path",
    ["/v2/models/echo", "/v2/models/echo/", "/v2/models/echo/versions/2", "/v2/models/ech%6F"],
)
def test_metadata_of_a_model_are_answered(run: Run, path: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inputs = (
            TensorMetadata("image", "FP32", (-1, 3, 8, 8)),
            TensorMetadata("mask", is_optional=True),
        )
        plane.outputs = (TensorMetadata("label", "BYTES", (1,)),)
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("GET", path))
            async with connected(front) as client:
                client.send(request_bytes("HEAD", path))
                head = await client.reply(has_body=False)
        assert reply.json == {
            "name": "echo",
            "versions": ["1", "2"],
            "platform": "graphrt",
            "inputs": [
                {"name": "image", "datatype": "FP32", "shape": [-1, 3, 8, 8]},
                {"name": "mask", "datatype": "INVALID", "shape": [], "optional": True},
            ],
            "outputs": [{"name": "label", "datatype": "BYTES", "shape": [1]}],
        }
        assert (head.status, head.headers["content-length"]) == (200, str(len(reply.body)))

    run(scenario())


def test_the_description_in_a_models_file_is_passed_on(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.rt_info = {"model_info": {"labels": "cat dog"}}
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("GET", "/v2/models/echo"))
        assert reply.json["rt_info"] == {"model_info": {"labels": "cat dog"}}

    run(scenario())


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/v2/models/echo/ready", 200, b""),
        ("/v2/models/echo/versions/1/ready", 200, b""),
        ("/v2/models/slow/ready", 503, b'{"error": "the model is not ready"}'),
        ("/v2/models/other/ready", 404, b'{"error": "no model \\"other\\" is served"}'),
        (
            "/v2/models/echo/versions/5/ready",
            404,
            b'{"error": "the model \\"echo\\" has no version 5"}',
        ),
    ],
)
def test_readiness_of_a_model_is_answered(run: Run, path: str, status: int, body: bytes) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["slow"] = plane.inferences["echo"]
        plane.not_ready.add("slow")
        async with serving(plane) as front:
            reply = await ask(front, request_bytes("GET", path))
        assert (reply.status, reply.body) == (status, body)

    run(scenario())


def test_no_model_is_ready_while_the_server_drains(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            data = request_bytes("GET", "/v2/models/echo/ready")
            client.send(data[:-2])
            assert (await ask(front, request_bytes("GET", "/v2"))).status == 200  # arrived later
            await front.stop_accepting()
            client.send(data[-2:])
            reply = await client.reply()
            assert (reply.status, reply.json) == (503, {"error": "the model is not ready"})

    run(scenario())


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (None, "ab"),
        ({}, "ab"),
        ({"ready": False}, "ab"),
        ({"ready": None}, "ab"),
        ({"ready": True}, "a"),
    ],
)
def test_the_index_of_the_repository_is_answered(run: Run, body: object, lines: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.lines = [
            IndexEntry("a", "1", "READY"),
            IndexEntry("b", "2", "UNAVAILABLE", "it has no graph"),
        ]
        async with serving(plane) as front:
            reply = await ask(front, post("/v2/repository/index", body))
        expected = [
            {"name": "a", "version": "1", "state": "READY", "reason": ""},
            {"name": "b", "version": "2", "state": "UNAVAILABLE", "reason": "it has no graph"},
        ]
        assert reply.status == 200
        assert reply.json == [line for line in expected if line["name"] in lines]

    run(scenario())


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("load", None),
        ("load", {}),
        ("load", {"parameters": {}}),
        ("unload", None),
        ("unload", {"parameters": {"unload_dependents": False}}),
        ("unload", {"parameters": {"unload_dependents": True}}),
    ],
)
def test_models_are_loaded_and_unloaded(run: Run, action: str, body: object) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["a/b"] = plane.inferences["echo"]
        async with serving(plane) as front:
            for name in ("echo", "a/b", "a%2Fb"):
                reply = await ask(front, post(f"/v2/repository/models/{name}/{action}", body))
                assert (reply.status, reply.body) == (200, b"")
        names = ["echo", "a/b", "a/b"]
        expected = (names, []) if action == "load" else ([], names)
        assert (plane.loaded, plane.unloaded) == expected

    run(scenario())


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("index", [], 400, "the body must be a JSON object, not an array"),
        ("index", {"ready": 1}, 400, "the request: ready must be true or false, not an integer"),
        ("models/other/load", None, 404, 'no model "other" is served'),
        ("models/other/unload", None, 404, 'no model "other" is served'),
        (
            "models/echo/load",
            {"parameters": {"config": "{}"}},
            400,
            'the request: the parameter "config" is not supported; a model is loaded as the'
            " server's configuration says",
        ),
        ("models/echo/unload", {"parameters": []}, 400, "parameters must be an object"),
        ("models/echo/unload", {"parameters": {"x": 1}}, 400, 'the parameter "x" is not supported'),
    ],
)
def test_requests_to_the_repository_are_checked(
    run: Run, path: str, body: object, status: int, text: str
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            reply = await ask(front, post(f"/v2/repository/{path}", body))
        assert reply.status == status
        assert text in reply.json["error"]
        assert (plane.loaded, plane.unloaded) == ([], [])

    run(scenario())


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            GraphError("/srv/models/a/graph.pbtxt: no Foo", code=Code.FAILED_PRECONDITION),
            412,
            "<path>: no Foo",
        ),
        (UnavailableError("the server is shutting down"), 503, "the server is shutting down"),
        (ZeroDivisionError("by"), 500, "internal error (request r)"),
    ],
)
def test_a_failed_load_has_its_reason(run: Run, error: Exception, status: int, text: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.load_error = error
        async with serving(plane) as front:
            path = "/v2/repository/models/echo/load"
            reply = await ask(front, post(path, headers={"X-Request-Id": "r"}))
        assert (reply.status, reply.json) == (status, {"error": text})

    run(scenario())
