"""Groups of servables, of which one at a time is loaded: `group_name` of a config."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import GraphError, UnavailableError
from servers.serving import served_entry
from tests.servers.serving.reloading import Site, reloading, saying, write_config, write_saying
from tests.servers.serving.served_graphs import Wait, http_graph, write_graph
from tests.servers.serving.test_on_demand import Clock, idle_step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_entry, "LEAST_SECONDS", 0.05)


def write_group(folder: Path, group: str, *names: str) -> list[dict[str, Any]]:
    """Write graphs that answer with their name; return their entries."""
    for name in names:
        write_saying(folder, name, name)
    return [saying(name) | ({"group_name": group} if group else {}) for name in names]


def loaded(site: Site) -> set[str]:
    return {each.servable.name for each in site.repository.holdings() if each.is_loaded}


def test_one_group_at_a_time_is_loaded_besides_the_permanent_one(tmp_path: Path) -> None:
    write_config(
        tmp_path,
        *write_group(tmp_path, "permanent", "always"),
        *write_group(tmp_path, "", "alone"),
        *write_group(tmp_path, "rag", "embed", "rank"),
        *write_group(tmp_path, "draw", "paint"),
    )

    async def scenario(site: Site) -> None:
        assert loaded(site) == {"always", "alone", "embed", "rank"}
        assert site.status("paint")[0] == "AVAILABLE"
        assert await site.ask("paint") == "paint"
        assert loaded(site) == {"always", "alone", "paint"}
        assert site.repository.is_ready
        assert await site.ask("rank") == "rank"
        assert await site.ask("embed") == "embed"
        assert loaded(site) == {"always", "alone", "embed", "rank"}

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_without_idle_management_all_groups_are_loaded(tmp_path: Path) -> None:
    write_config(tmp_path, *write_group(tmp_path, "a", "one"), *write_group(tmp_path, "b", "two"))

    async def scenario(site: Site) -> None:
        assert loaded(site) == {"one", "two"}
        assert await site.ask("two") == "two"
        assert loaded(site) == {"one", "two"}

    reloading(tmp_path, scenario)


def test_a_group_is_loaded_after_the_requests_of_the_other(tmp_path: Path) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_config(
        tmp_path,
        {"name": "wait", "group_name": "slow"},
        *write_group(tmp_path, "quick", "say"),
    )

    async def scenario(site: Site) -> None:
        Wait.began, Wait.go_on = asyncio.Event(), asyncio.Event()
        Wait.closed = 0
        running = asyncio.create_task(site.ask("wait"))
        await Wait.began.wait()
        other = asyncio.create_task(site.ask("say"))
        done, _ = await asyncio.wait({other}, timeout=0.2)
        assert not done
        # It came later, so it does not go before: the other group is next.
        late = asyncio.create_task(site.ask("wait"))
        Wait.go_on.set()
        assert await running == "ended"
        assert await other == "say"
        assert await late == "ended"
        assert loaded(site) == {"wait"}

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_many_clients_of_many_groups_are_all_answered(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    write_config(
        tmp_path, *(entry for name in names for entry in write_group(tmp_path, f"of {name}", name))
    )

    async def scenario(site: Site) -> None:
        asked = [name for _ in range(10) for name in names]
        assert await asyncio.gather(*map(site.ask, asked)) == asked
        assert len(loaded(site)) == 1

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_a_group_is_idle_when_all_its_members_are(tmp_path: Path, clock: Clock) -> None:
    write_config(tmp_path, *write_group(tmp_path, "rag", "embed", "rank"))

    async def scenario(site: Site) -> None:
        clock.now += 6
        assert await site.ask("rank") == "rank"
        clock.now += 6
        await idle_step(site)
        assert loaded(site) == {"embed", "rank"}
        clock.now += 6
        await idle_step(site)
        assert loaded(site) == set()
        assert await site.ask("rank") == "rank"
        assert await site.ask("embed") == "embed"
        assert loaded(site) == {"embed", "rank"}

    reloading(tmp_path, scenario, idle_unload_seconds=10)


def test_a_client_that_loads_a_member_unloads_the_other_group(tmp_path: Path) -> None:
    write_config(tmp_path, *write_group(tmp_path, "a", "one"), *write_group(tmp_path, "b", "two"))

    async def scenario(site: Site) -> None:
        await site.repository.load("two")
        assert loaded(site) == {"two"}

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_a_changed_config_moves_a_graph_into_a_group_that_is_not_loaded(tmp_path: Path) -> None:
    one = write_group(tmp_path, "a", "one")
    write_config(tmp_path, *one, *write_group(tmp_path, "", "two"))

    async def scenario(site: Site) -> None:
        assert loaded(site) == {"one", "two"}
        write_config(tmp_path, *one, *write_group(tmp_path, "b", "two"))
        await site.step()
        await asyncio.gather(
            *(each for each in asyncio.all_tasks() if each.get_name() == "unload two")
        )
        assert loaded(site) == {"one"}
        assert await site.ask("two") == "two"
        assert loaded(site) == {"two"}

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_a_group_that_does_not_come_to_its_turn_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_entry, "LOAD_WAIT_SECONDS", 0.1)
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_config(
        tmp_path, {"name": "wait", "group_name": "slow"}, *write_group(tmp_path, "quick", "say")
    )

    async def scenario(site: Site) -> None:
        Wait.began, Wait.go_on = asyncio.Event(), asyncio.Event()
        Wait.closed = 0
        running = asyncio.create_task(site.ask("wait"))
        await Wait.began.wait()
        with pytest.raises(UnavailableError, match='waits for requests of the group "slow"'):
            await site.ask("say")
        Wait.go_on.set()
        assert await running == "ended"

    reloading(tmp_path, scenario, idle_unload_seconds=60)


def test_a_member_that_cannot_be_loaded_does_not_stop_the_others(tmp_path: Path) -> None:
    write_graph(tmp_path, "broken", http_graph("NoSuchCalculator"))
    write_config(
        tmp_path,
        *write_group(tmp_path, "a", "one"),
        {"name": "broken", "group_name": "b"},
        *write_group(tmp_path, "b", "two"),
    )

    async def scenario(site: Site) -> None:
        with pytest.raises(GraphError, match="could not be loaded"):
            await site.ask("broken")
        assert await site.ask("two") == "two"
        assert await site.ask("one") == "one"
        assert loaded(site) == {"one"}

    reloading(tmp_path, scenario, idle_unload_seconds=60)
