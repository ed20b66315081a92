"""A request can be followed: its timeline, and a trace for Perfetto."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.servers.page.watching import Page, on_page, orders
from tests.support.patience import PATIENCE


async def follow(page: Page, graph: str, body: dict[str, Any]) -> Any:
    answer = await page.client.post(f"/v1/graphs/{graph}/follow", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def ended(page: Page, request_id: str) -> Any:
    """Return a timeline once its request has ended."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await page.client.get(f"/v1/requests/{request_id}")).json()
            if found["status"]:
                return found


def test_the_next_request_is_followed_and_no_other(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        await page.echo(**{"x-request-id": "before"})
        assert await follow(page, "echo", {"next": 1}) == {
            "graph": "echo",
            "next": 1,
            "request_ids": [],
        }
        for name in ("this-one", "after"):
            await page.echo(**{"x-request-id": name})
        timeline = await ended(page, "this-one")
        assert timeline["graph"] == "echo"
        assert timeline["status"] == 200
        (node,) = timeline["nodes"]
        assert node["name"] == "Echo"
        assert [phase for _, _, phase, _ in node["calls"]] == ["open", "process", "close"]
        assert all(0 <= began <= done for began, done, _, _ in node["calls"])
        packets = [[stream, *ends] for stream, _, _, *ends in timeline["packets"]]
        assert packets == [["input", "", "Echo"]]
        for name in ("before", "after"):
            answer = await page.client.get(f"/v1/requests/{name}")
            assert answer.status_code == 404
            assert "follow" in answer.json()["error"]["message"]

    on_page(tmp_path, scenario)


def test_a_request_is_followed_by_its_id_while_it_runs(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        await follow(page, "turns", {"request_id": "mine"})
        async with (
            page.watching("graphs=turns") as watched,
            page.turning("other", "another") as others,
            page.turning("one", "mine") as lines,
        ):
            assert await anext(lines) == "data: 0"
            await watched.until(lambda seen: len(seen.requests("begin")) == 2)
            begun = [each for each in watched.named("request") if each["at"] == "begin"]
            assert {each["id"]: each["followed"] for each in begun} == {
                "mine": True,
                "another": False,
            }
            running = (await page.client.get("/v1/requests/mine")).json()
            assert running["status"] == 0
            assert len(running["nodes"][0]["calls"]) == 2
            for name in ("one", "other"):
                orders[name].put_nowait("end")
            assert [line async for line in lines if line] == ["data: [DONE]"]
            assert [line async for line in others if line][-1] == "data: [DONE]"
            await watched.until(lambda seen: "mine" in seen.requests("end"))
        timeline = await ended(page, "mine")
        assert len(timeline["nodes"][0]["calls"]) == 3
        loop = [each for each in timeline["packets"] if each[0] == "loopback"]
        assert [(each[3], each[4]) for each in loop] == [("turns", "turns")]

    on_page(tmp_path, scenario)


def test_packets_that_leave_a_call_that_goes_on_have_their_producer(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        await follow(page, "pieces", {"request_id": "mine"})
        async with page.streaming("pieces", "mine") as lines:
            assert await anext(lines) == "data: 0"
            running = (await page.client.get("/v1/requests/mine")).json()
            assert [each[3:] for each in running["packets"] if each[0] == "piece"] == [
                ["pieces", "after"]
            ]
            async with page.watching("graphs=pieces&focus=pieces/pieces") as watched:
                await watched.until(lambda seen: "pieces" in seen.graphs)
                orders["pieces"].put_nowait("on")
                await watched.until(
                    lambda seen: any(each["last"] for each in seen.named("packets"))
                )
                (sent,) = watched.named("packets")[-1]["last"]
                assert (sent["s"], sent["ts"]) == ("piece", 1)
            orders["pieces"].put_nowait("on")
            assert [line async for line in lines if line][-1] == "data: [DONE]"
        timeline = await ended(page, "mine")
        way = [(each[0], each[3], each[4]) for each in timeline["packets"]]
        assert way == [("input", "", "pieces"), *[("piece", "pieces", "after")] * 3]
        calls = {node["name"]: node["calls"] for node in timeline["nodes"]}
        taken = [began for began, _, phase, _ in calls["after"] if phase == "process"]
        sent = [each[2] for each in timeline["packets"] if each[0] == "piece"]
        assert all(at <= began for at, began in zip(sent, taken, strict=True))
        trace = (await page.client.get("/v1/requests/mine?format=perfetto")).json()
        arrows = [each for each in trace["traceEvents"] if each["ph"] in "sf"]
        assert len(arrows) == 2 * 3
        assert all(
            start["ts"] <= end["ts"] for start, end in zip(arrows[::2], arrows[1::2], strict=True)
        )

    on_page(tmp_path, scenario, graphs=("pieces",))


def test_a_followed_request_is_a_file_for_perfetto(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        await follow(page, "echo", {"next": 2.0})
        await page.echo(**{"x-request-id": "traced"})
        answer = await page.client.get("/v1/requests/traced?format=perfetto")
        assert answer.headers["content-disposition"] == 'attachment; filename="traced.json"'
        events = answer.json()["traceEvents"]
        assert "Echo.process" in {each["name"] for each in events if each["ph"] == "X"}
        answer = await page.client.get("/v1/requests/traced?format=svg")
        assert answer.status_code == 400

    on_page(tmp_path, scenario)


def test_only_the_last_sixteen_are_kept(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        await follow(page, "echo", {"next": 16})
        for number in range(16):
            await page.echo(**{"x-request-id": f"request-{number}"})
        await follow(page, "echo", {"next": 1})
        await page.echo(**{"x-request-id": "request-16"})
        kept = [
            (await page.client.get(f"/v1/requests/request-{number}")).status_code
            for number in (0, 1, 16)
        ]
        assert kept == [404, 200, 200]

    on_page(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'either "next" or "request_id"'),
        ({"next": 1, "request_id": "a"}, 'either "next" or "request_id"'),
        ({"next": 17}, "1 to 16"),
        ({"next": "1"}, "Expected `int`"),
        ({"request_id": "no spaces please"}, "letters, digits"),
        ({"nxt": 1}, "unknown field"),
    ],
)
def test_a_wrong_order_is_an_error(tmp_path: Path, body: dict[str, Any], message: str) -> None:
    async def scenario(page: Page) -> None:
        answer = await page.client.post("/v1/graphs/echo/follow", json=body)
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]

    on_page(tmp_path, scenario, graphs=("echo",))


def test_graphs_that_are_not_loaded_cannot_be_followed(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        answer = await page.client.post("/v1/graphs/nothing/follow", json={"next": 1})
        assert answer.status_code == 404
        form = await page.client.post("/v1/graphs/echo/follow", data={"next": "1"})
        assert form.status_code == 415

    on_page(tmp_path, scenario, graphs=("echo",))
