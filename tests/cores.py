"""Cores of the machine, one for each worker of the tests and for all that it starts.

The threads of an engine wait for one another by spinning. Where more workers than cores compute,
that takes the time of the others: half of an engine's for answers of a few tokens. On one core an
engine has one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

_HAS_CORES = hasattr(os, "sched_setaffinity")
_ALL = os.sched_getaffinity(0) if _HAS_CORES else set()


def stay_on_core(worker: int) -> None:
    """Let this process, and those that it will start, run on one core; workers take turns."""
    if _ALL:
        os.sched_setaffinity(0, {sorted(_ALL)[worker % len(_ALL)]})


@pytest.fixture(scope="module")
def all_cores() -> Iterator[None]:
    """Use all cores, for tests of several threads of a model."""
    if not _HAS_CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _ALL)
    yield
    os.sched_setaffinity(0, before)
