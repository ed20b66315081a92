"""Fixtures that are slow to start, once per session: an event loop, a graph with the demo model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from calculators.kit.child_process import supervisor
from calculators.kit.child_process.back_off import BackOff
from calculators.llm.task_options import LlmSettings
from graph_runtime import FamilySettings
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_runs import QUEUE, Asking
from tests.calculators.llm.graph_texts import QUICKSTART, plan_of, resources_of
from tests.support.conditions import soon


@pytest.fixture(scope="package")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="package")
def ask(in_process_engine: None, runner: asyncio.Runner) -> Iterator[Asking]:
    """Client of a graph with the demo model."""
    families = FamilySettings(LlmSettings(request_limit=QUEUE))
    resources = runner.run(soon(resources_of(QUICKSTART, DEMO, families=families)))
    yield Asking(runner, plan_of(QUICKSTART), resources)
    runner.run(resources.close())


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for children to stop and before they are restarted."""
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "BackOff", partial(BackOff, 0.1))
