"""Child processes as a server starts them, with short waits."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from calculators.kit.child_process import supervisor
from calculators.kit.child_process.back_off import BackOff
from tests.servers.cli.forked_children import start_children_by_python

FIRST_DELAY: Final = 0.1


@pytest.fixture(autouse=True)
def started_by_python() -> None:
    """Start children as in production: they are what is tested."""
    start_children_by_python()


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for a child to stop and before it is restarted."""
    monkeypatch.setattr(supervisor, "_STOP_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "BackOff", partial(BackOff, FIRST_DELAY))
