"""Changes of files while they are served: reloads, requests in flight, and reports of failures."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from pathlib import Path

import pytest

from graph_runtime import NotFoundError, UnavailableError
from servers.contract.data_plane import ReloadError
from servers.serving.graph_definition import GraphDefinition
from tests.servers.serving.reloading import (
    SAY,
    Site,
    all_retired,
    reloading,
    saying,
    write_config,
    write_saying,
)
from tests.servers.serving.served_graphs import (
    TELL_GRAPH,
    Initializer,
    Wait,
    http_graph,
    write_graph,
)

OK = ("AVAILABLE", "OK", "OK")


async def begin_waiting(site: Site) -> asyncio.Task[str]:
    """Start a request to the graph "wait", and wait until its node works on it."""
    Wait.began, Wait.go_on = asyncio.Event(), asyncio.Event()
    Wait.closed = 0
    request = asyncio.create_task(site.ask("wait"))
    await Wait.began.wait()
    return request


def test_changed_monitoring_needs_a_restart_and_the_reload_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo", monitoring={"metrics": {"enable": True}})

    async def scenario(site: Site) -> None:
        write_config(tmp_path, "echo", monitoring={"metrics": {"enable": False}})
        for _ in range(2):
            with pytest.raises(ReloadError, match="failed: monitoring: a change of it ") as caught:
                await site.reloader.reload()
            assert (caught.value.reloaded, list(caught.value.failed)) == ((), ["monitoring"])
        assert caplog.text.count("monitoring: a change of it takes effect when") == 1
        write_config(tmp_path, "echo", monitoring={"metrics": {"enable": True}})
        assert not await site.reloader.reload()

    reloading(tmp_path, scenario)


def test_an_unchanged_graph_stays_the_same_object(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        graph = site.graph("echo")
        assert graph is not None
        (tmp_path / "config.json").touch()
        (tmp_path / "echo" / "graph.pbtxt").touch()
        text = (tmp_path / "config.json").read_text()
        (tmp_path / "config.json").write_text(f"\n{text}\n")
        (tmp_path / "echo" / "other.pbtxt").write_text("node {")  # which the graph does not use
        assert not await site.step()
        assert not await site.reloader.reload()
        write_graph(tmp_path, "more", http_graph("Echo"))
        write_config(tmp_path, "more", {"name": "echo", "idle_unload_seconds": 60})
        assert await site.step()
        assert site.graph("echo") is graph

    reloading(tmp_path, scenario)


def test_a_changed_graph_is_served_and_no_other_is_touched(tmp_path: Path) -> None:
    write_graph(tmp_path, "one", http_graph("Echo"))
    write_graph(tmp_path, "two", http_graph("Echo"))
    write_config(tmp_path, "one", "two")

    async def scenario(site: Site) -> None:
        one, two = site.graph("one"), site.graph("two")
        (tmp_path / "one" / "graph.pbtxt").write_text(http_graph("Echo") + "# changed")
        assert await site.step()
        assert await site.ask("one", "hello") == "hello"
        assert site.graph("one") is not one
        assert site.graph("two") is two
        assert not await site.step()

    reloading(tmp_path, scenario)


def test_a_changed_subgraph_reloads_its_graph(tmp_path: Path) -> None:
    inner = http_graph("Echo").replace('name: "node"', "")
    entry = write_graph(tmp_path, "outer", http_graph("Inner").replace('name: "node"', ""))
    (entry.directory / "inner.pbtxt").write_text(f'type: "Inner"\n{inner}')
    write_config(tmp_path, "outer")

    async def scenario(site: Site) -> None:
        graph = site.graph("outer")
        assert await site.ask("outer", "hello") == "hello"
        (entry.directory / "inner.pbtxt").write_text(f'type: "Inner"\n{inner}\n# changed')
        assert await site.step()
        assert site.graph("outer") is not graph
        assert await site.ask("outer", "hello") == "hello"

    reloading(tmp_path, scenario)


def test_a_change_of_a_python_file_with_equal_time_and_length_is_found(tmp_path: Path) -> None:
    write_saying(tmp_path, "say", "one")
    write_saying(tmp_path, "other", "other")
    write_config(tmp_path, saying("say"), saying("other"))

    async def scenario(site: Site) -> None:
        other = site.graph("other")
        module = tmp_path / "say" / "say.py"
        before = module.stat()
        for word in ("two", "six", "ten"):
            module.write_text(SAY % word)
            os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
            assert await site.step()
            assert await site.ask("say") == word
        assert site.graph("other") is other

    reloading(tmp_path, scenario)


def test_a_module_of_the_whole_config_reloads_the_graphs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_graph(tmp_path, name, http_graph("Say"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "say.py").write_text("import word\n" + SAY.replace("%r", "word.WORD"))
    (tmp_path / "shared" / "word.py").write_text("WORD = 'old'")
    write_config(tmp_path, "one", "two", python_path="shared")

    async def scenario(site: Site) -> None:
        assert await site.ask("one") == "old"
        (tmp_path / "shared" / "word.py").write_text("WORD = 'new'")
        assert await site.step()
        assert [await site.ask("one"), await site.ask("two")] == ["new", "new"]
        (tmp_path / "shared" / "word.py").write_text("WORD = ")
        assert await site.step()
        assert [await site.ask("one"), await site.ask("two")] == ["new", "new"]
        assert "the changed version could not be loaded" in site.status("one")[2]

    reloading(tmp_path, scenario)


OPTIONS = """\
from graph_runtime import options

@options("reloaded.SayOptions")
class SayOptions:
    %s: int = 1

"""


def test_options_of_an_author_keep_their_fields_until_a_restart(tmp_path: Path) -> None:
    write_saying(tmp_path, "say", "one")
    module = tmp_path / "say" / "say.py"
    module.write_text(OPTIONS % "times" + SAY % "one")
    write_config(tmp_path, saying("say"))

    async def scenario(site: Site) -> None:
        module.write_text(OPTIONS % "times" + SAY % "two")
        assert await site.step()
        assert await site.ask("say") == "two"
        module.write_text(OPTIONS % "number" + SAY % "six")
        assert await site.step()
        assert await site.ask("say") == "two"
        assert "is registered already, with other content" in site.status("say")[2]

    reloading(tmp_path, scenario)


def test_reloads_leave_nothing_behind(tmp_path: Path) -> None:
    write_saying(tmp_path, "say", "one")
    write_config(tmp_path, saying("say"))

    def left() -> tuple[int, int]:
        """Return graphs of this test, and modules of authors."""
        gc.collect()
        graphs = [
            each
            for each in gc.get_objects()
            if isinstance(each, GraphDefinition) and each.entry.directory == tmp_path / "say"
        ]
        modules = [name for name in sys.modules if name.startswith("graphrt_isolated_")]
        return len(graphs), len(modules)

    async def scenario(site: Site) -> None:
        before = left()
        for number in range(20):
            (tmp_path / "say" / "say.py").write_text(SAY % f"{number}")
            assert await site.step()
        await all_retired()
        assert left() == before

    reloading(tmp_path, scenario)


# Requests in flight -------------------------------------------------------------------------------


def test_a_request_in_flight_ends_on_the_old_graph(tmp_path: Path) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_config(tmp_path, "wait")

    async def scenario(site: Site) -> None:
        request = await begin_waiting(site)
        (tmp_path / "wait" / "graph.pbtxt").write_text(http_graph("Echo"))
        assert await site.step()
        assert await site.ask("wait", "new") == "new"
        assert not request.done()
        Wait.go_on.set()
        assert await request == "ended"

    reloading(tmp_path, scenario)


class OfWait(Initializer):
    """Makes the resource of `Wait`."""

    def matches(self, calculator: str) -> bool:
        return calculator == "Wait"


def test_the_old_resources_are_closed_after_the_last_request_to_them(tmp_path: Path) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_config(tmp_path, "wait")
    initializer = OfWait()

    async def scenario(site: Site) -> None:
        request = await begin_waiting(site)
        (tmp_path / "wait" / "graph.pbtxt").write_text(http_graph("Wait") + "# changed")
        assert await site.step()
        assert [each.closed for each in initializer.made] == [0, 0]
        Wait.go_on.set()
        assert await request == "ended"
        await all_retired()
        assert [each.closed for each in initializer.made] == [1, 0]

    reloading(tmp_path, scenario, [initializer])


def test_the_old_one_answers_while_the_new_one_loads(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, "tell")
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH + "# changed")
        step = asyncio.create_task(site.step())
        await initializer.began.wait()
        assert await site.ask("tell") == "tell"
        assert site.repository.is_ready
        assert site.status("tell") == (
            "AVAILABLE",
            "OK",
            "a changed version is being loaded; the previous one answers meanwhile",
        )
        with pytest.raises(UnavailableError, match="still loading; unload it when"):
            await site.repository.unload("tell")
        initializer.gate.set()
        assert await step
        assert site.status("tell") == OK
        assert len(initializer.made) == 2

    reloading(tmp_path, scenario, [initializer])


def test_a_long_load_delays_no_other_change(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "tell", "echo")
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH + "# changed")
        assert await site.reloader.look() == ["tell"]
        await initializer.began.wait()
        write_graph(tmp_path, "more", http_graph("Echo"))
        write_config(tmp_path, "more", "tell", "echo")
        assert await site.reloader.look() == ["more"]
        await site.repository.load("more")
        assert await site.ask("more", "hello") == "hello"
        write_config(tmp_path, "more", "echo")  # which ends its loading
        assert await site.step()
        assert await site.reloader.look() == []
        await all_retired()
        assert list(site.repository.statuses()) == ["more", "echo"]
        assert [each.closed for each in initializer.made] == [1]

    reloading(tmp_path, scenario, [initializer])


def test_a_graph_that_changes_during_its_load_is_loaded_again(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, "echo")
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        write_config(tmp_path, "echo", {"name": "say", "base_path": "tell"})
        assert await site.reloader.look() == ["say"]
        await initializer.began.wait()
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH + "# while it loads")
        assert await site.reloader.look() == []
        initializer.gate.set()
        await site.repository.load("say")
        assert await site.reloader.look() == ["say"]
        write_config(tmp_path, "echo", {"name": "say", "base_path": "echo"})
        assert await site.reloader.look() == ["say"]
        assert await site.reloader.look() == []
        assert not await site.step()
        assert await site.ask("say", "hello") == "hello"
        assert len(initializer.made) == 2

    reloading(tmp_path, scenario, [initializer])


# Failures -----------------------------------------------------------------------------------------


def test_a_graph_that_fails_leaves_the_old_one_serving_and_is_reported(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        graph = site.graph("echo")
        path = tmp_path / "echo" / "graph.pbtxt"
        path.write_text(http_graph("Ecko"))
        assert await site.step()
        assert await site.ask("echo", "hello") == "hello"
        state, code, message = site.status("echo")
        assert (state, code) == ("AVAILABLE", "OK")
        assert message.startswith(
            "the changed version could not be loaded, so the previous one answers: "
        )
        assert 'Did you mean "Echo"?' in message
        assert str(tmp_path) not in message
        assert not await site.step()  # not again and again
        with pytest.raises(ReloadError, match=r'failed: echo: .*Did you mean "Echo"'):
            await site.reloader.reload()
        path.unlink()
        assert await site.step()
        assert "no such file" in site.status("echo")[2]
        path.write_text(http_graph("Echo"))
        assert await site.step()
        assert site.status("echo") == OK
        assert site.graph("echo") is graph, "as it was before the change"

    reloading(tmp_path, scenario)


def test_a_failed_graph_is_retried_when_a_file_beside_it_changes(
    tmp_path: Path,
) -> None:
    outer = http_graph("Inner").replace('name: "node"', "")
    inner = http_graph("Echo").replace('name: "node"', "")
    entry = write_graph(tmp_path, "outer", outer)
    write_config(tmp_path, "outer")

    async def scenario(site: Site) -> None:
        assert site.status("outer")[1] == "FAILED_PRECONDITION"
        (entry.directory / "inner.pbtxt").write_text(f'type: "Inner"\n{inner}')
        assert await site.step()
        assert await site.ask("outer", "hello") == "hello"

    reloading(tmp_path, scenario)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"mediapipe_config_list": [{"name": "ec', "config.json:1:"),
        ("", "config.json:1:1: error: this is not JSON"),
        ('{"mediapipe_config_list": [{"nam": "echo"}]}', 'hint: did you mean "name"?'),
        (None, "config.json: error: no such file"),
    ],
)
def test_an_invalid_config_changes_nothing_and_is_reported(
    tmp_path: Path, text: str | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        graph = site.graph("echo")
        good = site.config_path.read_text()
        if text is None:
            site.config_path.unlink()
        else:
            site.config_path.write_text(text)
        for _ in range(3):
            assert not await site.step()
        assert caplog.text.count("the changed configuration is not in use") == 1
        assert site.graph("echo") is graph
        state, code, message = site.status("echo")
        assert (state, code) == ("AVAILABLE", "OK")
        assert message.startswith("the changed configuration is not in use: ")
        assert problem in message
        assert str(tmp_path) not in message
        with pytest.raises(ReloadError, match="Reloading config file failed: ") as caught:
            await site.reloader.reload()
        assert problem in str(caught.value)
        # The files that it named are still watched.
        (tmp_path / "echo" / "graph.pbtxt").write_text(http_graph("Echo") + "# changed")
        assert await site.step()
        site.config_path.write_text(good)
        assert not await site.step()
        assert site.status("echo") == OK

    reloading(tmp_path, scenario)


def test_warnings_of_a_changed_config_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo", "echo")

    async def scenario(site: Site) -> None:
        assert "is taken" not in caplog.text, "that was told at the start"
        write_config(tmp_path, "echo", "echo", {"name": "echo", "base_path": "other"})
        assert not await site.step()
        assert not await site.step()
        assert caplog.text.count('the name "echo" is taken') == 1

    reloading(tmp_path, scenario)


def test_a_broken_subconfig_removes_no_model(tmp_path: Path) -> None:
    entry = write_graph(tmp_path, "echo", http_graph("Echo"))
    (tmp_path / "m").mkdir()
    listed = {"model_config_list": [{"config": {"name": "m", "base_path": "../m"}}]}
    (entry.directory / "subconfig.json").write_text(json.dumps(listed))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        (entry.directory / "subconfig.json").write_text("{")
        assert not await site.step()
        assert list(site.repository.statuses()) == ["echo", "m"]
        assert "subconfig.json:1:" in site.status("echo")[2]
        (entry.directory / "subconfig.json").unlink()
        assert await site.step()
        await all_retired()
        assert list(site.repository.statuses()) == ["echo"]

    reloading(tmp_path, scenario)


# Names --------------------------------------------------------------------------------------------


def test_graphs_are_added_and_removed_in_the_order_of_the_config(tmp_path: Path) -> None:
    for name in ("one", "two", "wait"):
        write_graph(tmp_path, name, http_graph("Wait" if name == "wait" else "Echo"))
    write_config(tmp_path, "one", "wait")

    async def scenario(site: Site) -> None:
        request = await begin_waiting(site)
        write_config(tmp_path, "two", "one")
        assert await site.step()
        assert [each.name for each in site.repository.models()] == ["two", "one"]
        assert await site.ask("two", "hello") == "hello"
        # Listed until its last request has ended, but closed to new ones.
        assert list(site.repository.statuses()) == ["two", "one", "wait"]
        assert site.status("wait")[0] == "UNLOADING"
        with pytest.raises(NotFoundError):
            await site.ask("wait")
        Wait.go_on.set()
        assert await request == "ended"
        await all_retired()
        write_config(tmp_path, "wait")
        assert await site.step()
        assert await site.ask("wait") == "ended"
        assert list(site.repository.statuses()) == ["wait"]

    reloading(tmp_path, scenario)


def test_another_entry_of_the_same_name_takes_over(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_graph(tmp_path, "count", http_graph("Number"))
    write_config(tmp_path, {"name": "say", "base_path": "echo"})

    async def scenario(site: Site) -> None:
        graph = site.graph("say")
        write_config(tmp_path, {"name": "say", "base_path": "nowhere"})
        assert await site.step()
        assert site.graph("say") is graph
        write_saying(tmp_path, "count", "count")
        write_config(tmp_path, {**saying("count"), "name": "say", "base_path": "count"})
        assert await site.step()
        assert await site.ask("say") == "count"
        assert site.status("say") == OK

    reloading(tmp_path, scenario)


def test_nothing_is_reloaded_during_the_shutdown(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        site.repository.begin_draining()
        with pytest.raises(UnavailableError, match="shutting down"):
            await site.repository.reload()

    reloading(tmp_path, scenario)


def test_a_client_that_requests_a_reload_and_leaves_does_not_end_it(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", TELL_GRAPH)
    write_config(tmp_path, "tell")
    initializer = Initializer()

    async def scenario(site: Site) -> None:
        initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
        (tmp_path / "tell" / "graph.pbtxt").write_text(TELL_GRAPH + "# changed")
        asked = asyncio.create_task(site.repository.reload())
        await initializer.began.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        initializer.gate.set()
        assert not await site.reloader.reload()  # behind the one that is running
        assert len(initializer.made) == 2

    reloading(tmp_path, scenario, [initializer])


def test_a_partial_reload_reports_changes_and_failures(tmp_path: Path) -> None:
    for name in ("echo", "other"):
        write_graph(tmp_path, name, http_graph("Echo"))
    write_config(tmp_path, "echo", "other")

    async def scenario(site: Site) -> None:
        (tmp_path / "other" / "graph.pbtxt").write_text(http_graph("Ecko"))
        write_config(tmp_path, "echo", "other", {"name": "new", "base_path": "echo"})
        with pytest.raises(ReloadError, match="took effect in part: reloaded new; fail") as caught:
            await site.reloader.reload()
        assert caught.value.reloaded == ("new",)
        assert list(caught.value.failed) == ["other"]
        assert "Ecko" in caught.value.failed["other"]
        assert await site.ask("new", "hello") == "hello"
        # Nothing further takes effect: only the failure is left.
        with pytest.raises(ReloadError, match="Reloading config file failed: other: ") as caught:
            await site.reloader.reload()
        assert caught.value.reloaded == ()

    reloading(tmp_path, scenario)


@pytest.mark.unmeasured
def test_the_loop_is_not_blocked_by_thousands_of_entries(tmp_path: Path) -> None:
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "echo")

    async def scenario(site: Site) -> None:
        many = [{"name": f"g{number}", "base_path": "echo"} for number in range(2000)]
        for each in many:
            each["load"] = "on_demand"
        write_config(tmp_path, "echo", *many)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        names = await site.reloader.look()
        counting.cancel()
        assert len(names) == 2000
        assert turns > 40  # two passes, a hundred at a time
        assert await site.ask("g1999", "hello") == "hello"
        write_config(tmp_path, "echo")
        assert len(await site.reloader.look()) == 2000

    reloading(tmp_path, scenario)
