"""Metrics across reloads: counts are kept; names that are no longer served are dropped."""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path

from servers.config import read_config
from servers.fronts.http import HttpSettings
from servers.server.lifecycle import Server, ServerSettings
from tests.servers.operations.metrics.metered_server import Metered, registry
from tests.servers.serving.models.model_folders import write_versions
from tests.servers.serving.served_graphs import Wait, http_graph, write_graph
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"


def write_config(folder: Path, *graphs: str, models: tuple[str, ...] = ()) -> Path:
    config = {
        "mediapipe_config_list": [{"name": name, "base_path": name} for name in graphs],
        "model_config_list": [{"config": {"name": name, "base_path": name}} for name in models],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


async def started(path: Path) -> Server:
    config = read_config(path)
    server = Server(
        ServerSettings(
            config.graphs,
            HttpSettings(port=0),
            registry=registry(),
            models=config.models,
            reread=partial(read_config, path),
            poll_seconds=0,
        )
    )
    await server.start()
    await server.load()
    return server


def test_a_reload_keeps_the_counts_and_a_removal_drops_them(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_graph(tmp_path, name, http_graph("Letters"))
    write_versions(tmp_path, "plus", 1)
    path = write_config(tmp_path, "first", "second", models=("plus",))
    body = {"text": "abc", "stream": True}

    async def run() -> None:
        server = await started(path)
        metered = Metered(server, None)
        for name in ("first", "second"):
            await metered.ask("POST", CHAT, {"model": name, **body})
        graph = tmp_path / "first" / "graph.pbtxt"
        graph.write_text(graph.read_text() + "# changed\n")
        os.utime(graph, ns=(1, 1))
        assert await server.repository.reload()
        await metered.ask("POST", CHAT, {"model": "first", **body})
        place = {"graph": "first", "node": "node"}
        assert await metered.value("graphrt_node_calls_total", **place) == 6
        assert await metered.value("letters_total", **place) == 6
        labels = {"name": "first", "api": "V3", "method": "Stream", "interface": "REST"}
        assert await metered.value("ovms_requests_accepted", **labels) == 2

        write_config(tmp_path, "first")
        assert await server.repository.reload()
        text = (await metered.ask("GET", "/metrics")).body.decode()
        assert '"second"' not in text
        assert '"plus"' not in text
        assert await metered.value("letters_total", **place) == 6
        await server.stop()

    asyncio.run(run())


def test_a_run_that_outlives_its_graph_does_not_restore_its_metrics(tmp_path: Path) -> None:
    write_graph(tmp_path, "wait", http_graph("Wait"))
    write_graph(tmp_path, "echo", http_graph("Echo"))
    path = write_config(tmp_path, "wait", "echo")

    async def run() -> None:
        Wait.began, Wait.go_on, Wait.closed = asyncio.Event(), asyncio.Event(), 0
        server = await started(path)
        metered = Metered(server, None)
        asking = asyncio.create_task(metered.ask("POST", CHAT, {"model": "wait"}))
        await Wait.began.wait()
        write_config(tmp_path, "echo")
        assert await server.repository.reload()
        text = (await metered.ask("GET", "/metrics")).body.decode()
        assert '"wait"' not in text
        Wait.go_on.set()
        assert (await asking).status == 200
        text = (await metered.ask("GET", "/metrics")).body.decode()
        assert '"wait"' not in text
        await server.stop()

    asyncio.run(run())


def test_a_model_that_is_unloaded_and_loaded_again_keeps_its_counts(tmp_path: Path) -> None:
    write_graph(tmp_path, "letters", http_graph("Letters"))
    path = write_config(tmp_path, "letters")

    async def run() -> None:
        server = await started(path)
        metered = Metered(server, None)
        body = {"model": "letters", "text": "abc", "stream": True}
        await metered.ask("POST", CHAT, body)
        ready = {"name": "letters"}
        assert await metered.value("graphrt_model_ready", **ready) == 1
        await server.repository.unload("letters")
        assert await metered.value("graphrt_model_ready", **ready) == 0
        place = {"graph": "letters", "node": "node"}
        assert await metered.value("graphrt_node_calls_total", **place) == 3
        async with asyncio.timeout(PATIENCE):
            while (await metered.ask("GET", "/v1/config")).body.count(b'"END"') < 1:
                pass
        await server.repository.load("letters")
        await metered.ask("POST", CHAT, body)
        assert await metered.value("graphrt_node_calls_total", **place) == 6
        assert await metered.value("letters_total", **place) == 6
        await server.stop()

    asyncio.run(run())
