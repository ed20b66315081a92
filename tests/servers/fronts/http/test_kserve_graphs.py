"""Graphs that answer KServe's clients over HTTP, with real parts from socket to graph."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from graph_runtime import REGISTRY
from servers.fronts.http import HttpFront
from servers.serving.model_repository import ModelRepository
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.http_client import ask, request_bytes, serving
from tests.servers.fronts.http.kserve_requests import (
    binary_infer,
    floats_of,
    numbers,
    post,
    tail_of,
)
from tests.servers.serving.graph_inference.graphs import passing
from tests.servers.serving.served_graphs import write_graph


@asynccontextmanager
async def serving_echo(folder: Path) -> AsyncIterator[HttpFront]:
    """Serve a graph "echo" that passes ``x`` on to ``y``."""
    entry = write_graph(folder, "echo", passing("x", "y"))
    repository = ModelRepository([entry], REGISTRY)
    await repository.load_all()
    try:
        async with serving(repository) as front:
            yield front
    finally:
        await repository.close()


def test_a_graph_answers_an_inference(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving_echo(tmp_path) as front:
            body = {"id": "7", "inputs": [numbers(1, 2.5)]}
            reply = await ask(front, post("/v2/models/echo/versions/1/infer", body))
            assert reply.json == {
                "model_name": "echo",
                "model_version": "1",
                "id": "7",
                "outputs": [{"name": "y", "shape": [2], "datatype": "FP32", "data": [1.0, 2.5]}],
            }
            large = np.arange(2_500_000, dtype="<f4")
            reply = await ask(front, binary_infer(large, "FP32"))
            assert (reply.status, tail_of(reply)) == (200, large.tobytes())
            many = await asyncio.gather(
                *(ask(front, binary_infer(np.array([at], "<f4"), "FP32")) for at in range(20))
            )
            assert [floats_of(each) for each in many] == [[at] for at in range(20)]

    run(scenario())


def test_a_graph_answers_generate(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving_echo(tmp_path) as front:
            one = await ask(front, post("/v2/models/echo/generate", {"x": 5}))
            stream = await ask(front, post("/v2/models/echo/generate_stream", {"x": [5, 6]}))
        assert (one.status, one.json["y"]) == (200, 5)
        (event,) = stream.body.decode().rstrip("\n").split("\n\n")
        assert json.loads(event.removeprefix("data: "))["y"] == [5, 6]

    run(scenario())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/models/echo/infer", {"inputs": []}, 400),
        ("/v2/models/echo/infer", {"inputs": [{**numbers(1), "name": "z"}]}, 400),
        ("/v2/models/echo/versions/2/infer", {"inputs": [numbers(1)]}, 404),
        ("/v2/models/other/infer", {"inputs": [numbers(1)]}, 404),
        ("/v2/models/echo/generate", {}, 400),
        ("/v2/models/echo/generate_stream", {}, 400),
    ],
)
def test_requests_that_do_not_fit_the_graph_are_refused(
    run: Run, tmp_path: Path, path: str, body: object, status: int
) -> None:
    async def scenario() -> None:
        async with serving_echo(tmp_path) as front:
            reply = await ask(front, post(path, body))
        assert reply.status == status
        assert isinstance(reply.json["error"], str)

    run(scenario())


def test_a_graph_can_be_described_unloaded_and_loaded(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving_echo(tmp_path) as front:
            described = await ask(front, request_bytes("GET", "/v2/models/echo"))
            assert [each["name"] for each in described.json["inputs"]] == ["x"]
            assert [each["name"] for each in described.json["outputs"]] == ["y"]
            for action, state, status in (("unload", "UNAVAILABLE", 503), ("load", "READY", 200)):
                path = f"/v2/repository/models/echo/{action}"
                assert (await ask(front, post(path))).status == 200
                (line,) = (await ask(front, post("/v2/repository/index"))).json
                assert (line["name"], line["version"], line["state"]) == ("echo", "1", state)
                ready = await ask(front, request_bytes("GET", "/v2/models/echo/ready"))
                assert ready.status == status
                inferred = await ask(front, binary_infer(np.array([1], "<f4"), "FP32"))
                assert inferred.status == status

    run(scenario())
