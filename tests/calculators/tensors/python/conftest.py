"""Isolation of handlers as a parameter, and short waits for children."""

from __future__ import annotations

from functools import partial

import pytest

from calculators.kit.child_process import supervisor
from calculators.kit.child_process.back_off import BackOff


@pytest.fixture(params=["THREAD", "PROCESS"])
def isolation(request: pytest.FixtureRequest) -> str:
    """Parameter for behaviour that both kinds of isolation share."""
    isolation: str = request.param
    return isolation


@pytest.fixture(autouse=True)
def little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart processes sooner."""
    monkeypatch.setattr(supervisor, "BackOff", partial(BackOff, 0.05))
