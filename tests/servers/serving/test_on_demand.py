"""Loading on demand, unloading of idle models, and pinning."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, UnavailableError
from servers.contract.data_plane import IndexEntry
from servers.serving import served_entry as slot
from tests.servers.serving.reloading import SAY, Site, all_retired, reloading, write_config
from tests.servers.serving.served_graphs import (
    TELL_GRAPH,
    Initializer,
    Wait,
    http_graph,
    write_graph,
)

ON_DEMAND = "available on demand: not loaded now, the next request loads it"


class Clock:
    """A replacement for `time.monotonic` in the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def idle_step(site: Site) -> None:
    """Unload idle models, and wait until they are unloaded."""
    site.repository.unload_idle()
    jobs = [each for each in asyncio.all_tasks() if each.get_name().startswith("unload ")]
    await asyncio.gather(*jobs)


def test_the_first_request_loads_the_graph(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "load": "on_demand"})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        repository = site.repository
        assert initializer.made == []
        assert site.status("tell") == ("AVAILABLE", "OK", ON_DEMAND)
        assert repository.is_ready
        assert repository.is_model_ready("tell")
        assert repository.index() == [IndexEntry("tell", "1", "READY", ON_DEMAND)]
        (model,) = repository.models()
        assert (model.name, model.created > 0) == ("tell", True)
        assert await site.ask("tell") == "tell"
        assert len(initializer.made) == 1
        assert site.status("tell") == ("AVAILABLE", "OK", "OK")

    reloading(tmp_path, scenario, [initializer])


def test_a_request_for_metadata_loads_the_graph(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, {"name": "echo", "load": "on_demand"})

    async def scenario(site: Site) -> None:
        assert (await site.repository.metadata("echo")).name == "echo"
        assert site.graph("echo") is not None

    reloading(tmp_path, scenario)


def test_concurrent_requests_share_a_load_that_survives_departures(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "load": "on_demand"})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        requests = [asyncio.create_task(site.ask("tell")) for _ in range(3)]
        await initializer.began.wait()
        with pytest.raises(RequestError, match="3 requests in flight") as caught:
            await site.ask("tell")
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        requests[0].cancel()
        assert site.status("tell")[0] == "LOADING"
        initializer.gate.set()
        assert await asyncio.gather(*requests[1:]) == ["tell", "tell"]
        assert len(initializer.made) == 1

    reloading(tmp_path, scenario, [initializer], request_limit=3)


def test_the_wait_for_a_load_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "load": "on_demand"})
    initializer = Initializer()
    monkeypatch.setattr(slot, "LOAD_WAIT_SECONDS", 0.0)

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        with pytest.raises(UnavailableError, match='"tell" is still loading, after 0 s; try'):
            await site.ask("tell")
        await initializer.began.wait()
        initializer.gate.set()
        await site.repository.load("tell")  # the same load continues
        assert await site.ask("tell") == "tell"
        assert len(initializer.made) == 1

    reloading(tmp_path, scenario, [initializer])


def test_a_failed_load_is_reported_and_retried_after_a_while(tmp_path: Path, clock: Clock) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "load": "on_demand"})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.failure = "no memory is left"
        for _ in range(2):
            with pytest.raises(UnavailableError, match="could not be loaded: no memory is left"):
                await site.ask("tell")
            initializer.failure = ""  # it is not retried at once
        assert site.status("tell") == ("LOADING", "FAILED_PRECONDITION", "no memory is left")
        clock.now += slot.RETRY_SECONDS
        assert await site.ask("tell") == "tell"

    reloading(tmp_path, scenario, [initializer])


def test_after_a_change_a_failed_graph_is_loaded_on_demand_again(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", "node {")
    write_config(tmp_path, {"name": "echo", "load": "on_demand"})

    async def scenario(site: Site) -> None:
        with pytest.raises(UnavailableError, match="could not be loaded"):
            await site.ask("echo")
        (tmp_path / "echo" / "graph.pbtxt").write_text(http_graph("Echo"))
        assert await site.step()
        assert site.status("echo") == ("AVAILABLE", "OK", ON_DEMAND)
        assert site.graph("echo") is None
        assert await site.ask("echo", "hello") == "hello"

    reloading(tmp_path, scenario)


# Idle ---------------------------------------------------------------------------------------------


def test_an_idle_graph_is_unloaded_until_the_next_request(tmp_path: Path, clock: Clock) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "idle_unload_seconds": 60})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        clock.now += 59.9
        await idle_step(site)
        assert [each.closed for each in initializer.made] == [0]
        assert await site.ask("tell") == "tell"
        clock.now += 59.9
        await idle_step(site)
        assert [each.closed for each in initializer.made] == [0]
        clock.now += 0.1
        await idle_step(site)
        assert [each.closed for each in initializer.made] == [1]
        assert site.status("tell") == ("AVAILABLE", "OK", ON_DEMAND)
        assert [each.name for each in site.repository.models()] == ["tell"]
        assert site.repository.is_ready
        assert await site.ask("tell") == "tell"
        assert [each.closed for each in initializer.made] == [1, 0]

    reloading(tmp_path, scenario, [initializer])


@pytest.mark.parametrize("asks", ["a request", "a load"])
def test_a_request_during_the_unload_loads_the_graph_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "idle_unload_seconds": 1})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        closing, go_on = asyncio.Event(), asyncio.Event()

        async def close() -> None:
            closing.set()
            await go_on.wait()

        monkeypatch.setattr(initializer.made[0], "close", close)
        clock.now += 1
        site.repository.unload_idle()
        await closing.wait()
        assert site.status("tell")[0] == "UNLOADING"
        asked = asyncio.ensure_future(
            site.ask("tell") if asks == "a request" else site.repository.load("tell")
        )
        await asyncio.sleep(0)
        go_on.set()
        await asked
        assert site.graph("tell") is not None
        assert len(initializer.made) == 2

    reloading(tmp_path, scenario, [initializer])


def test_a_graph_with_a_request_in_flight_is_not_idle(tmp_path: Path, clock: Clock) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_config(tmp_path, {"name": "wait", "idle_unload_seconds": 1})

    async def scenario(site: Site) -> None:
        Wait.began, Wait.go_on = asyncio.Event(), asyncio.Event()
        Wait.closed = 0
        request = asyncio.create_task(site.ask("wait"))
        await Wait.began.wait()
        clock.now += 1000
        await idle_step(site)
        assert site.status("wait") == ("AVAILABLE", "OK", "OK")
        Wait.go_on.set()
        assert await request == "ended"

    reloading(tmp_path, scenario)


def test_idle_time_does_not_depend_on_the_wall_clock(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, {"name": "echo", "idle_unload_seconds": 60})

    async def scenario(site: Site) -> None:
        monkeypatch.setattr(time, "time", lambda: 0.0)
        (tmp_path / "echo" / "graph.pbtxt").write_text(http_graph("Echo") + "# changed")
        assert await site.step()
        await idle_step(site)
        assert site.status("echo") == ("AVAILABLE", "OK", "OK")
        clock.now += 60
        await idle_step(site)
        assert site.status("echo")[2] == ON_DEMAND

    reloading(tmp_path, scenario)


@pytest.mark.parametrize(
    ("keys", "is_unloaded"),
    [
        ({}, True),
        ({"pinned": True}, False),
        ({"idle_unload_seconds": 0}, False),
        ({"idle_unload_seconds": 100}, False),
        ({"idle_unload_seconds": 9}, True),
    ],
)
def test_an_entrys_time_overrides_the_servers_and_a_pin_overrides_both(
    tmp_path: Path, clock: Clock, keys: dict[str, object], is_unloaded: bool
) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, {"name": "echo", **keys})

    async def scenario(site: Site) -> None:
        clock.now += 10
        await idle_step(site)
        assert (site.graph("echo") is None) == is_unloaded

    reloading(tmp_path, scenario, idle_unload_seconds=10)


def test_an_unloaded_graph_is_loaded_from_its_current_files(tmp_path: Path, clock: Clock) -> None:
    write_graph(tmp_path, "say", http_graph("Fail"))
    write_config(tmp_path, {"name": "say", "idle_unload_seconds": 1})

    async def scenario(site: Site) -> None:
        clock.now += 1
        await idle_step(site)
        (tmp_path / "say" / "graph.pbtxt").write_text(http_graph("Echo"))
        assert not await site.step()  # nothing is loaded, so nothing is reloaded
        assert await site.ask("say", "hello") == "hello"

    reloading(tmp_path, scenario)


def test_a_config_may_change_when_a_graph_is_loaded(tmp_path: Path, clock: Clock) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, {"name": "echo", "load": "on_demand", "idle_unload_seconds": 5})

    async def scenario(site: Site) -> None:
        write_config(tmp_path, {"name": "echo"})
        await site.step()
        assert site.graph("echo") is not None
        write_config(tmp_path, {"name": "echo", "idle_unload_seconds": 5})
        await site.step()
        clock.now += 5
        await idle_step(site)
        assert site.graph("echo") is None

    reloading(tmp_path, scenario)


def test_a_graph_that_a_client_unloaded_stays_unloaded(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, {"name": "echo", "load": "on_demand"})

    async def scenario(site: Site) -> None:
        await site.repository.unload("echo")
        with pytest.raises(UnavailableError, match="not served any more"):
            await site.ask("echo")
        assert site.status("echo")[0] == "END"
        assert not await site.reloader.reload()
        await site.repository.load("echo")
        assert await site.ask("echo", "again") == "again"

    reloading(tmp_path, scenario)


def test_changed_modules_load_no_unloaded_graph(tmp_path: Path) -> None:
    for name in ("unloaded", "deferred"):
        write_graph(tmp_path, name, http_graph("Say"))
    (tmp_path / "say.py").write_text(SAY % "old")
    deferred = {"name": "deferred", "load": "on_demand"}
    write_config(tmp_path, "unloaded", deferred, python_path="say.py")

    async def scenario(site: Site) -> None:
        await site.repository.unload("unloaded")
        (tmp_path / "say.py").write_text(SAY % "new")
        await site.step()
        assert site.graph("unloaded") is None
        assert site.status("unloaded")[0] == "END"
        assert site.graph("deferred") is None
        assert await site.ask("deferred") == "new"
        await site.repository.load("unloaded")
        assert await site.ask("unloaded") == "new"

    reloading(tmp_path, scenario)


# Memory for one only ------------------------------------------------------------------------------


def test_a_changed_graph_may_be_loaded_after_the_old_one_is_gone(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "reload": "after_unload"})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH + "# changed")
        step = asyncio.create_task(site.step())
        await initializer.began.wait()
        assert [each.closed for each in initializer.made] == [1]
        request = asyncio.create_task(site.ask("tell"))
        await asyncio.sleep(0)
        assert not request.done()
        initializer.gate.set()
        assert await step
        assert await request == "tell"
        assert [each.closed for each in initializer.made] == [1, 0]
        initializer.failure = "no memory is left"
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH)
        assert await site.step()
        with pytest.raises(UnavailableError, match="could not be loaded: no memory is left"):
            await site.ask("tell")

    reloading(tmp_path, scenario, [initializer])


def test_closing_ends_a_load_that_requests_wait_for(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, {"name": "tell", "load": "on_demand"})
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        request = asyncio.create_task(site.ask("tell"))
        await initializer.began.wait()
        await site.repository.close()
        with pytest.raises(UnavailableError, match="shutting down"):
            await request
        await all_retired()

    reloading(tmp_path, scenario, [initializer])
