"""The table of the cheapest requests: its rows, and when one misses an aim."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import aiohttp.test_utils
from aiohttp import web

from bench.cheapest_requests import (
    GRPC_SERVICE,
    PATHS,
    ROWS,
    Ask,
    Measured,
    Row,
    Sent,
    all_at_once,
    post,
    table,
)
from calculators.kit.tasks import declared_path, installed_tasks
from protos.pool import pool
from servers.fronts.http.routes import Endpoint, find_route, kept_list

SMALL = post("/v3/x", model="m")
ROW = Row("a task", "a request", all_at_once(lambda: [SMALL]), SMALL)


def measured(**different: Any) -> Measured:
    values: dict[str, Any] = {
        "row": ROW, "sent": Sent({"200": 3}, 1500, 9, frozenset()), "seconds": 1.0, "cpu": 2.0,
        "grown": 30.0, "left": 3.0, "calm": 0.1, "wait": 0.9, "stall": 0.02,
        "statuses": {200: 9},
    }  # fmt: skip
    return Measured(**{**values, **different})


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_every_path_of_every_installed_task_is_in_the_table() -> None:
    assert {row.task for row in ROWS} == set(PATHS)
    tried = {
        (task, declared_path(path.partition("?")[0])[0])
        for task, paths in PATHS.values()
        for path in paths
    }
    for task in installed_tasks():
        for endpoint in task.endpoints:
            paths = {(task.name, path) for path in endpoint.paths()}
            assert paths & tried, f"no row of {task.name} requests {endpoint.path}"


def test_every_path_and_call_of_the_server_is_in_the_table() -> None:
    tried = {path for task, paths in PATHS.values() if not task for path in paths}
    routes = {route.endpoint for path in tried if (route := find_route(path)) is not None}
    routes |= {route.endpoint for path in tried if (route := kept_list(path, "GET")) is not None}
    assert routes == set(Endpoint)
    service = pool().FindServiceByName("inference.GRPCInferenceService")
    assert {f"{GRPC_SERVICE}{method.name}" for method in service.methods} <= tried


def test_a_row_misses_an_aim_by_its_wait_its_stall_its_memory_or_other_answers() -> None:
    assert measured().problems(1.0) == []
    assert measured(wait=1.2).problems(1.0) == ["wait"]
    assert measured(wait=1.2).problems(2.0) == []
    assert measured(stall=0.3, left=100.0).problems(1.0) == ["stall", "memory"]
    assert measured(statuses={200: 1, 503: 2}).problems(1.0) == ["answers 200 503"]


def test_the_table_has_a_line_for_each_row() -> None:
    *_, line = table([measured()], 1.0).splitlines()
    assert line == (
        "| a task | a request | 1.5 kB | 3 x 200 | 1.0 | 2.0 | +30 | +3 | 0.10 | 0.90 | 20 |  |"
    )


def test_requests_of_an_attack_are_sent_with_its_key_and_counted() -> None:
    seen: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        seen[f"{request.headers['Authorization']} {(await request.json())['model']}"] += 1
        return web.Response(status=400 if seen.total() == 1 else 200, text="ok")

    async def run() -> Sent:
        app = web.Application()
        app.router.add_post("/v3/x", answer)
        async with aiohttp.test_utils.TestServer(app) as server:
            return await all_at_once(lambda: [SMALL] * 3)()(str(server.make_url("")), "ann")

    sent = asyncio.run(run())
    size = 3 * (len(SMALL.body) + len(SMALL.path))
    assert sent == Sent({"200": 2, "400": 1}, size, 6, frozenset({"/v3/x"}))
    assert seen == {"Bearer ann m": 3}
    assert Ask("/v3/x", json.dumps({"model": "m"}).encode()) == SMALL
