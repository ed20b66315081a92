"""Loading is reported while it lasts: in the status, and in the log."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import NodePlan, NodeResource, ResourceSettings
from servers.server.lifecycle import draw_loading, log_loading
from servers.serving.model_repository import ModelRepository
from servers.serving.servable import Loading
from tests.servers.serving.served_graphs import (
    TELL_GRAPH,
    Initializer,
    make_registry,
    write_graph,
)
from tests.support.conditions import until


class InPhases(Initializer):
    """Begins a phase, then makes its resource when ``gate`` is set."""

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        settings.progress.begin("compiling the model", 0.4)
        return await super().make(node, settings)


def version_of(repository: ModelRepository) -> dict[str, Any]:
    every: Any = repository.statuses()
    (version,) = every["tell"]["model_version_status"]
    return dict(version)


def waiting_repository(tmp_path: Path) -> tuple[ModelRepository, InPhases]:
    entries = [write_graph(tmp_path, "tell", TELL_GRAPH)]
    initializer = InPhases()
    initializer.began, initializer.gate = asyncio.Event(), asyncio.Event()
    return ModelRepository(entries, make_registry(initializer)), initializer


def test_the_status_has_phase_and_percent_while_a_graph_loads(tmp_path: Path) -> None:
    async def run() -> None:
        repository, initializer = waiting_repository(tmp_path)
        assert initializer.began is not None
        assert initializer.gate is not None
        assert "loading" not in version_of(repository)
        work = asyncio.create_task(repository.load_all())
        await initializer.began.wait()
        version = version_of(repository)
        # What OpenVINO Model Server's clients read is as before.
        assert version["state"] == "LOADING"
        assert version["status"] == {"error_code": "OK", "error_message": "loading"}
        assert version["loading"]["phase"] == "compiling the model"
        assert version["loading"]["percent"] == 40
        assert version["loading"]["seconds"] >= 0
        assert version["loading"].keys() == {"phase", "percent", "seconds"}
        assert [each.name for each in repository.loading()] == ["tell"]
        initializer.gate.set()
        await work
        assert "loading" not in version_of(repository)
        assert repository.loading() == []
        await repository.close()

    asyncio.run(run())


def test_a_graph_that_fails_is_no_longer_being_loaded(tmp_path: Path) -> None:
    async def run() -> None:
        repository, initializer = waiting_repository(tmp_path)
        assert initializer.gate is not None
        initializer.failure = "no such file"
        initializer.gate.set()
        await repository.load_all()
        assert version_of(repository)["status"]["error_code"] == "FAILED_PRECONDITION"
        assert "loading" not in version_of(repository)
        await repository.close()

    asyncio.run(run())


def test_the_log_names_the_phase_of_what_takes_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "graphrt.loading"]

    async def run() -> None:
        repository, initializer = waiting_repository(tmp_path)
        assert initializer.gate is not None
        report = asyncio.create_task(log_loading(repository.loading, line_seconds=0.01))
        work = asyncio.create_task(repository.load_all())
        await until(lambda: any("40%: compiling the model" in line for line in lines()))
        assert all(line.startswith("tell: loading, ") for line in lines())
        assert caplog.records[-1].__dict__["fields"]["phase"] == "compiling the model"
        initializer.gate.set()
        await work
        report.cancel()
        await repository.close()

    asyncio.run(run())


def test_a_terminal_is_drawn_until_nothing_is_loading() -> None:
    now = [Loading("tell")]
    drawn: list[list[str]] = []

    async def run() -> None:
        report = asyncio.create_task(
            draw_loading(lambda: list(now), lambda all: drawn.append([each.name for each in all]))
        )
        await until(lambda: len(drawn) > 1)
        now.clear()
        await until(lambda: drawn[-1] == [])
        report.cancel()
        await asyncio.wait({report})

    asyncio.run(run())
    assert drawn[0] == ["tell"]
    assert drawn[-1] == []
