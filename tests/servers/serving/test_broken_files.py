"""A broken file is read again: whatever was wrong, whenever it was mended, and however."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from calculators.kit import seen_files
from graph_runtime import NodeResource, ResourceError, ResourceSettings
from graph_runtime.plan.plan import NodePlan
from servers.config import read_config
from servers.contract.data_plane import ReloadError
from servers.serving import reloader
from servers.serving.loaded_graph import GraphSettings
from servers.serving.python_path import SharedModules
from servers.serving.reloader import Reloader
from tests.servers.serving.reloading import (
    SAY,
    Site,
    reloading,
    saying,
    write_config,
    write_saying,
)
from tests.servers.serving.served_graphs import (
    TELL_GRAPH,
    Initializer,
    http_graph,
    make_registry,
    write_graph,
)
from tests.support.unprivileged import forbidden, modes_count

GOOD = '{"mediapipe_config_list": [{"name": "echo"}]}'
OTHER = '{"mediapipe_config_list": [{"name": "echo"}, {"name": "two"}]}'


def begun(folder: Path, scenario: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a server that is loaded and has not looked at its files yet."""

    async def run() -> None:
        site = Site(folder, make_registry(), GraphSettings())
        await site.repository.load_all()
        try:
            await scenario(site)
        finally:
            await site.reloader.close()
            await site.repository.close()

    asyncio.run(run())


def write_two(folder: Path) -> Path:
    write_graph(folder, "echo", http_graph("Echo"))
    write_graph(folder, "two", http_graph("Echo"))
    (folder / "config.json").write_text(GOOD)
    return folder / "config.json"


def nothing(path: Path) -> None:
    path.unlink()


def half(path: Path) -> None:
    path.write_text(GOOD[:20])


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def deep(path: Path) -> None:
    path.write_text('{"a": ' + "[" * 100_000)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def too_large(path: Path) -> None:
    path.write_text(" " * (8 * 1024 * 1024 + 1))


def impossible_name(path: Path) -> None:
    path.write_text(json.dumps({"mediapipe_config_list": [{"name": "a", "base_path": "x" * 300}]}))


def renamed_over(path: Path, text: str) -> None:
    path.with_name("new").write_text(text)
    if path.is_dir():
        path.rmdir()
    path.with_name("new").rename(path)


BREAKS = [nothing, half, no_text, deep, directory, pipe, link_to_itself, too_large]


@pytest.mark.parametrize("breaks", BREAKS)
def test_a_config_that_the_first_look_finds_broken_is_read_when_it_is_mended(
    tmp_path: Path, breaks: Callable[[Path], None]
) -> None:
    path = write_two(tmp_path)

    async def scenario(site: Site) -> None:
        breaks(path)
        assert not await site.step()
        assert site.repository.problem.startswith("config.json")
        renamed_over(path, GOOD)  # the bytes with which the server was started
        assert not await site.step()
        assert not site.repository.problem
        breaks(path)
        assert not await site.step()
        renamed_over(path, OTHER)
        assert await site.step()
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


def test_a_config_that_the_first_asked_reload_finds_broken_is_read_by_the_next(
    tmp_path: Path,
) -> None:
    path = write_two(tmp_path)

    async def scenario(site: Site) -> None:
        half(path)
        for _ in range(2):
            with pytest.raises(ReloadError, match=r"failed: config\.json:1:2"):
                await site.reloader.reload()
        path.write_text(OTHER)
        assert await site.reloader.reload()
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


def test_a_path_that_no_file_can_have_breaks_only_its_graph(tmp_path: Path) -> None:
    path = write_two(tmp_path)

    async def scenario(site: Site) -> None:
        impossible_name(path)
        assert await site.step()
        assert site.status("a")[1] == "FAILED_PRECONDITION"
        path.write_text(OTHER)
        assert await site.step()
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


@pytest.mark.parametrize("name", ["subconfig.json", "models.json"])
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_subconfig_that_only_a_refused_config_names_is_read_when_it_is_mended(
    tmp_path: Path, name: str, is_asked: bool
) -> None:
    write_two(tmp_path)
    subconfig = tmp_path / "two" / name
    entry = {"name": "two"} if name == "subconfig.json" else {"name": "two", "subconfig": name}

    async def scenario(site: Site) -> None:
        subconfig.write_text("{")
        write_config(tmp_path, "echo", entry)
        assert not await site.step()
        assert site.repository.problem.startswith(f"two/{name}:1:2: error: this is not JSON")
        if is_asked:
            with pytest.raises(ReloadError, match=f"failed: two/{name}:1:2"):
                await site.reloader.reload()
        subconfig.write_text('{"model_config_list": []}')
        assert await (site.reloader.reload() if is_asked else site.step())
        assert await site.ask("two", "hello") == "hello"
        assert not site.repository.problem

    begun(tmp_path, scenario)


def test_a_file_that_was_broken_only_while_it_was_read_is_read_again(tmp_path: Path) -> None:
    path = write_two(tmp_path)

    async def scenario(site: Site) -> None:
        def read_while_it_is_written() -> Any:
            path.write_text(OTHER[:-1])
            try:
                return read_config(path)
            finally:
                path.write_text(OTHER)
                reloader_._reread = lambda: read_config(path)

        config = read_config(path)
        path.write_text(OTHER)
        shared = SharedModules(make_registry(), ())
        reloader_ = Reloader(site.repository, shared, config, read_while_it_is_written)
        assert not await reloader_.step()
        assert site.repository.problem
        assert await reloader_.step()
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


def test_an_asked_reload_reads_files_whose_times_tell_of_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on file systems with coarse times, and after the clock was set back."""
    path = write_two(tmp_path)
    monkeypatch.setattr(seen_files, "_SETTLING_SECONDS", -1.0)
    marks = seen_files.FileMarks(0, 0, 0, 0, 0, 0)
    monkeypatch.setattr(seen_files, "_marks", lambda status: marks)

    async def scenario(site: Site) -> None:
        assert not await site.step()
        assert not await site.step()
        path.write_text(OTHER)
        write_graph(tmp_path, "more", http_graph("Echo"))
        (tmp_path / "echo" / "graph.pbtxt").write_text(http_graph("Echo") + "# changed")
        assert not await site.step(), "nothing tells of the change"
        graph = site.graph("echo")
        assert await site.reloader.reload()
        assert site.graph("echo") is not graph
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


def test_files_behind_links_that_are_swapped_are_read(tmp_path: Path) -> None:
    """As in a ConfigMap of Kubernetes: all names lead through ``..data``."""
    write_graph(tmp_path, "say", http_graph("Say"))
    for number, word in enumerate(("one", "two")):
        mounted = tmp_path / f"..{number}"
        (mounted / "modules").mkdir(parents=True)
        (mounted / "modules" / "say.py").write_text(SAY % word)
        listed = [{"name": "say", "python_path": "linked"}, *([{"name": "more"}] if number else [])]
        (mounted / "config.json").write_text(json.dumps({"mediapipe_config_list": listed}))
    write_graph(tmp_path, "more", http_graph("Echo"))
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "config.json").symlink_to("..data/config.json")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "say.py").symlink_to("../..data/modules/say.py")

    async def scenario(site: Site) -> None:
        assert await site.ask("say") == "one"
        (tmp_path / "..new").symlink_to("..1")
        (tmp_path / "..new").rename(tmp_path / "..data")
        assert await site.step()
        assert await site.ask("say") == "two"
        assert await site.ask("more", "hello") == "hello"

    begun(tmp_path, scenario)


def test_a_package_behind_a_link_is_followed(tmp_path: Path) -> None:
    write_graph(tmp_path, "say", http_graph("Say"))
    for number, word in enumerate(("one", "two")):
        package = tmp_path / "versions" / str(number)
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from speech.say import Say")
        (package / "say.py").write_text(SAY % word)
    (tmp_path / "modules").mkdir()
    link = tmp_path / "modules" / "speech"
    link.symlink_to("../versions/0")
    (tmp_path / "versions" / "0" / "self").symlink_to(".")
    write_config(tmp_path, {"name": "say", "python_path": "modules"})

    async def scenario(site: Site) -> None:
        assert await site.ask("say") == "one"
        (tmp_path / "new").symlink_to(tmp_path / "versions" / "1")
        (tmp_path / "new").rename(link)
        assert await site.step()
        assert await site.ask("say") == "two"

    begun(tmp_path, scenario)


def test_a_config_that_may_be_read_again_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_two(tmp_path)

    async def here(what: str, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)  # modes count in this thread

    monkeypatch.setattr(reloader, "in_file_thread", here)

    async def scenario(site: Site) -> None:
        with modes_count():
            with forbidden(path):
                assert not await site.step()
                assert "config.json: error: cannot be read: Permission" in site.repository.problem
            assert not await site.step()
            assert not site.repository.problem
            path.write_text(OTHER)
            with forbidden(tmp_path / "two"):
                assert await site.step()
        assert await site.ask("two", "hello") == "hello"

    begun(tmp_path, scenario)


def test_a_module_is_imported_again_when_a_reload_is_asked_for(tmp_path: Path) -> None:
    """A file that only the module reads has been mended."""
    write_graph(tmp_path, "say", http_graph("Say"))
    data = tmp_path / "word.txt"
    (tmp_path / "modules").mkdir()
    module = tmp_path / "modules" / "say.py"
    module.write_text(
        f"from pathlib import Path\nWORD = Path({str(data)!r}).read_text()\n"
        + SAY.replace("%r", "WORD")
    )
    write_graph(tmp_path, "echo", http_graph("Echo"))
    write_config(tmp_path, "say", "echo", python_path="modules")

    async def scenario(site: Site) -> None:
        assert site.status("say")[1] == "FAILED_PRECONDITION"
        echo = site.graph("echo")
        with pytest.raises(ReloadError):
            await site.reloader.reload()
        assert site.graph("echo") is echo
        data.write_text("one")
        assert await site.reloader.reload()
        assert await site.ask("say") == "one"

    reloading(tmp_path, scenario)


class NeedsModel(Initializer):
    """Fails as long as the folder that an option names has no model."""

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        if not (settings.directory / "weights" / "model.bin").exists():
            raise ResourceError("there is no model")
        return await super().make(node, settings)


MODEL_GRAPH = TELL_GRAPH.replace(
    "input_side_packet",
    "node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] "
    '{ handler_path: "weights" } } input_side_packet',
)


def test_a_graph_whose_model_was_missing_is_loaded_when_the_model_is_whole(tmp_path: Path) -> None:
    write_graph(tmp_path, "tell", MODEL_GRAPH)
    write_config(tmp_path, "tell")

    async def scenario(site: Site) -> None:
        assert not await site.step()
        assert site.status("tell")[2] == "there is no model"
        (tmp_path / "tell" / "weights").mkdir()
        (tmp_path / "tell" / "weights" / "model.bin").write_bytes(b"half")
        assert not await site.step()
        (tmp_path / "tell" / "weights" / "model.bin").write_bytes(b"the whole")
        assert not await site.step(), "it may still be copied"
        assert await site.step()
        assert await site.ask("tell") == "tell"

    reloading(tmp_path, scenario, [NeedsModel()])


def test_a_file_that_was_another_during_the_load_is_loaded_again(tmp_path: Path) -> None:
    """The load may have read the other one, though the old one is back."""
    write_saying(tmp_path, "say", "one")
    write_config(tmp_path, saying("say"))
    module = tmp_path / "say" / "say.py"
    text = module.read_text()

    async def scenario() -> None:
        site = Site(tmp_path, make_registry(), GraphSettings())
        (servable,) = site.repository.servables()
        await servable.prepare()  # its files are looked at
        module.write_text("this is not Python")
        await servable.load()
        module.write_text(text)
        assert site.status("say")[1] == "FAILED_PRECONDITION"
        assert await site.step()
        assert await site.ask("say") == "one"
        assert not await site.step()
        await site.repository.close()

    asyncio.run(scenario())
