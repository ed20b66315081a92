"""What is kept from the garbage collector comes back when it is unloaded."""

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


def test_what_was_kept_is_collected_after_the_next_change() -> None:
    loaded = InACycle()
    gone = weakref.ref(loaded)
    freeze_garbage()
    del loaded
    gc.collect()
    assert gone() is not None  # nobody looks there
    freeze_garbage()
    assert gone() is None


def test_what_is_new_is_gone_through_without_what_was_kept() -> None:
    kept = InACycle()
    kept_gone = weakref.ref(kept)
    freeze_garbage()
    new = InACycle()
    new_gone = weakref.ref(new)
    del kept, new
    freeze_garbage(is_full=False)
    assert (kept_gone() is None, new_gone() is None) == (False, True)


def test_what_is_kept_counts_in_the_state_of_the_process() -> None:
    InACycle.__module__ = "servers.test_heap"  # objects of others are not counted
    kept = [InACycle() for _ in range(100)]
    freeze_garbage()

    async def look() -> int:
        return int(process_state()["objects"]["servers.test_heap.InACycle"])

    counted = asyncio.run(look())
    assert counted == len(kept)
    assert gc.get_freeze_count() > 0  # as it was
