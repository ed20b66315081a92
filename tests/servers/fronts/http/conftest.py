"""The event loop of a test of the front."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.support.patience import PATIENCE

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def run_in_loop(scenario: Coroutine[Any, Any, None]) -> None:
        async def checked() -> None:
            async with asyncio.timeout(PATIENCE):
                await scenario
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, f"tasks left: {left}"

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(checked())

    return run_in_loop
