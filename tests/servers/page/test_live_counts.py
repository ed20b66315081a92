"""A live stream shows runs while they go on: calls, queues, failures, exact after missed events."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from graph_runtime.observe.live_calls import LiveCalls
from tests.servers.page.watching import Page, Watched, on_page, orders
from tests.support.patience import PATIENCE


def test_a_long_stream_is_counted_while_it_runs(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("graphs=turns") as watched, page.turning("one") as lines:
            for turn in range(3):
                orders["one"].put_nowait("turn")
                assert await anext(lines) == f"data: {turn}"
                assert await anext(lines) == ""
            # Its open, its first call and those of the loop that have returned.
            await watched.until(lambda seen: seen.streams["turns", "output"]["p"] >= 3)
            assert watched.graphs["turns"]["runs"] == 1
            assert watched.graphs["turns"]["ended"] == 0
            assert watched.nodes["turns", "turns"]["c"] >= 4
            await watched.until(lambda seen: seen.nodes["turns", "turns"]["f"] == 1)
            text = (await page.client.get("/metrics")).text
            line = 'graphrt_node_calls_total{graph="turns",node="turns"} '
            assert float(text.partition(line)[2].split()[0]) >= 4
            orders["one"].put_nowait("end")
            await watched.until(lambda seen: seen.graphs["turns"]["ended"] == 1)
            node = watched.nodes["turns", "turns"]
            assert (node["f"], watched.graphs["turns"]["runs"]) == (0, 0)
            # Every call is in one bucket, but that of open.
            assert sum(node["h"].values()) == node["c"] - 1

    on_page(tmp_path, scenario)


def test_a_run_that_went_on_before_anybody_looked_is_seen(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.turning("one", "early-bird") as lines:
            assert await anext(lines) == "data: 0"
            async with page.watching("graphs=turns") as watched:
                await watched.until(lambda seen: "turns" in seen.graphs)
                assert watched.graphs["turns"]["runs"] == 1
                calls = watched.nodes["turns", "turns"]["c"]
                assert not watched.nodes["turns", "turns"]["h"]
                await watched.until(lambda seen: seen.requests("begin") == ["early-bird"])
                orders["one"].put_nowait("turn")
                await watched.until(lambda seen: seen.nodes["turns", "turns"]["c"] > calls)
                # Calls of the run are observed from now on.
                assert sum(watched.nodes["turns", "turns"]["h"].values()) == 1
            orders["one"].put_nowait("end")
            assert [line async for line in lines if line][-1] == "data: [DONE]"

    on_page(tmp_path, scenario)


def test_a_full_queue_and_the_source_that_it_holds_back_are_seen(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        asked = {"model": "pressed"}
        async with page.watching("graphs=pressed") as watched:
            answer = asyncio.create_task(page.client.post("/v3/chat/completions", json=asked))
            await watched.until(lambda seen: seen.graphs["pressed"]["throttled"] == ["numbers"])
            assert watched.streams["pressed", "number"]["full"] == 1
            assert watched.streams["pressed", "number"]["q"] == 2
            assert watched.nodes["pressed", "slow"]["q"] == 2
            node = (await page.client.get("/v1/graphs/pressed/nodes/numbers")).json()
            assert [each["reasons"] for each in node["waits"]] == [
                ["room in a full queue downstream"]
            ]
            for _ in range(10):
                orders["slow"].put_nowait("go on")
            assert (await answer).text == "done"
            await watched.until(lambda seen: seen.graphs["pressed"]["ended"] == 1)
            assert watched.graphs["pressed"]["throttled"] == []
            number = watched.streams["pressed", "number"]
            assert number == {"p": 10, "q": 0, "full": 0}

    on_page(tmp_path, scenario)


def test_counters_are_exact_for_who_reads_seldom(tmp_path: Path) -> None:
    """The stream at 0.5 Hz misses nearly all states, and yet ends with the same numbers."""

    async def scenario(page: Page) -> None:
        fast, slow = "graphs=echo", "graphs=echo&hz=0.5"
        async with page.watching(fast) as often, page.watching(slow) as seldom:
            for watched in (often, seldom):
                await watched.until(lambda seen: "echo" in seen.graphs)
            for _ in range(50):
                assert (await page.echo()).status_code == 200
            for watched in (often, seldom):
                await watched.until(lambda seen: seen.graphs["echo"]["ended"] == 50)
                assert sum(watched.nodes["echo", "Echo"]["h"].values()) == 50
                assert watched.streams["echo", "output"]["p"] == 50
            assert often.nodes == seldom.nodes

    on_page(tmp_path, scenario)


def test_failed_runs_count_at_the_node_that_failed(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("graphs=turns") as watched:
            async with page.turning("one") as lines:
                assert await anext(lines) == "data: 0"
                orders["one"].put_nowait("fail")
                assert "error" in "".join([line async for line in lines])
            await watched.until(lambda seen: seen.graphs["turns"]["failed"] == 1)
            assert watched.nodes["turns", "turns"]["e"] == 1
            # A client that leaves cancels its run, which is not a failure.
            async with page.turning("two") as lines:
                assert await anext(lines) == "data: 0"
            await watched.until(lambda seen: seen.graphs["turns"]["ended"] == 2)
            assert watched.graphs["turns"]["failed"] == 1
            (error,) = (await page.client.get("/v1/graphs/turns/nodes/turns")).json()["errors"]
            assert error["code"] == "UNKNOWN"
            assert error["text"] == "", "texts of errors are contents"

    on_page(tmp_path, scenario)


def test_nothing_is_observed_and_no_task_runs_when_nobody_looks(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        assert page.server.views is not None
        feed = page.server.views.feed
        totals = feed.graphs["echo"].totals

        def is_looking() -> bool:
            names = {task.get_name() for task in asyncio.all_tasks()}
            return "live feed" in names or totals.observer is not None

        assert not is_looking()
        async with page.watching("graphs=echo") as watched:
            await watched.until(lambda seen: "echo" in seen.graphs)
            assert is_looking()
            assert "graphrt_live_readers 1" in (await page.client.get("/metrics")).text
        async with asyncio.timeout(PATIENCE):
            while is_looking():
                await page.echo()
        assert feed.readers == 0
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, LiveCalls)]

    on_page(tmp_path, scenario)


def test_last_packets_of_a_node_in_focus_have_types_and_sizes_only(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("graphs=turns&focus=turns/turns") as watched:
            async with page.turning("one") as lines:
                assert await anext(lines) == "data: 0"
                orders["one"].put_nowait("end")
                assert [line async for line in lines if line] == ["data: [DONE]"]
            await watched.until(lambda seen: any(each["last"] for each in seen.named("packets")))
            last = next(each["last"] for each in watched.named("packets") if each["last"])
            text = next(each for each in last if each["s"] == "output")
            assert (text["type"], text["bytes"], text["value"]) == ("str", 9, None)

    on_page(tmp_path, scenario)


def test_a_graph_that_is_loaded_anew_begins_at_zero_under_a_new_revision(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        def ended(seen: Watched) -> int:
            found = seen.graphs.get("echo")
            return -1 if found is None else int(found["ended"])

        async with page.watching("graphs=echo") as watched:
            await page.echo()
            await watched.until(lambda seen: ended(seen) == 1)
            before = watched.hello["graphs"]["echo"]["revision"]
            path = "/v2/repository/models/echo"
            assert (await page.client.post(f"{path}/unload", json={})).status_code == 200
            await watched.until(lambda seen: "echo" not in seen.hello["graphs"])
            assert (await page.client.post(f"{path}/load", json={})).status_code == 200
            await watched.until(lambda seen: "echo" in seen.hello["graphs"])
            assert watched.hello["graphs"]["echo"]["revision"] != before
            await watched.until(lambda seen: ended(seen) == 0)
            states = [each["servables"] for each in watched.named("servables")]
            assert {each["state"] for line in states for each in line} >= {"AVAILABLE"}

    on_page(tmp_path, scenario)
