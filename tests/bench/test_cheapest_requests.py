"""The table of the cheapest requests: its rows, and when one misses an aim."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp
import aiohttp.test_utils
from aiohttp import web

from bench.cheapest_requests import ROWS, Ask, Measured, Row, all_at_once, post, table

SMALL = post("/v3/x", model="m")
ROW = Row("a task", "a request", all_at_once(lambda: [SMALL]), SMALL)


def measured(**different: Any) -> Measured:
    values: dict[str, Any] = {
        "row": ROW, "answers": {"200": 3}, "sent": 1500, "received": 9, "seconds": 1.0,
        "cpu": 2.0, "grown": 30.0, "left": 3.0, "calm": 0.1, "wait": 0.9, "stall": 0.02,
        "statuses": {200: 9},
    }  # fmt: skip
    return Measured(**{**values, **different})


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def test_every_task_that_a_server_has_is_in_the_table() -> None:
    assert {row.task for row in ROWS} >= {
        "chat", "completions", "responses", "messages", "embeddings", "rerank", "score",
        "moderations", "classify", "speech to text", "translations", "text to speech", "images",
        "KServe REST", "KServe gRPC", "tokenize", "batches", "files", "plain models",
        "python nodes", "retrieval", "guided grammars", "templates", "pictures in chats",
    }  # fmt: skip


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

    async def run() -> tuple[Counter[str], int, int]:
        app = web.Application()
        app.router.add_post("/v3/x", answer)
        async with aiohttp.test_utils.TestServer(app) as server:
            return await all_at_once(lambda: [SMALL] * 3)()(str(server.make_url("")), "ann")

    answers, sent, received = asyncio.run(run())
    assert (answers, received) == ({"200": 2, "400": 1}, 6)
    assert sent == 3 * (len(SMALL.body) + len(SMALL.path))
    assert seen == {"Bearer ann m": 3}
    assert Ask("/v3/x", json.dumps({"model": "m"}).encode()) == SMALL
