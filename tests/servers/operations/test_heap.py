"""Frozen objects are collected again after their model is unloaded."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from servers.operations.heap import freeze_garbage
from servers.operations.process_state import process_state


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class InACycle:
    def __init__(self) -> None:
        self.itself = self


def test_frozen_objects_are_collected_after_the_next_change() -> None:
    loaded = InACycle()
    gone = weakref.ref(loaded)
    freeze_garbage()
    del loaded
    gc.collect()
    assert gone() is not None  # the collector does not visit it
    freeze_garbage()
    assert gone() is None


def test_new_objects_are_collected_without_visiting_frozen_ones() -> None:
    kept = InACycle()
    kept_gone = weakref.ref(kept)
    freeze_garbage()
    new = InACycle()
    new_gone = weakref.ref(new)
    del kept, new
    freeze_garbage(is_full=False)
    assert (kept_gone() is None, new_gone() is None) == (False, True)


def test_frozen_objects_count_in_the_state_of_the_process() -> None:
    InACycle.__module__ = "servers.test_heap"  # objects of others are not counted
    kept = [InACycle() for _ in range(100)]
    freeze_garbage()

    async def look() -> int:
        return int(process_state()["objects"]["servers.test_heap.InACycle"])

    counted = asyncio.run(look())
    assert counted == len(kept)
    assert gc.get_freeze_count() > 0  # as before
