"""Frozen objects are collected again after their model is unloaded.

In a process of their own: that of the tests holds millions of objects, which each collection would
go through, also later ones, as they would not be frozen as before.
"""

from __future__ import annotations

import asyncio
import gc
import weakref

from servers.operations.process import freeze_garbage, process_state
from tests.servers.operations.own_process import in_own_process

_MANY = 100


class InACycle:
    def __init__(self) -> None:
        self.itself = self


def frozen_before_and_after_the_next_change() -> tuple[bool, bool]:
    loaded = InACycle()
    gone = weakref.ref(loaded)
    freeze_garbage()
    del loaded
    gc.collect()
    is_kept = gone() is not None
    freeze_garbage()
    return is_kept, gone() is None


def test_frozen_objects_are_collected_after_the_next_change() -> None:
    # The collector does not visit it at first.
    assert in_own_process(frozen_before_and_after_the_next_change) == [True, True]


def kept_and_new_after_a_collection_of_new_ones() -> tuple[bool, bool]:
    kept = InACycle()
    kept_gone = weakref.ref(kept)
    freeze_garbage()
    new = InACycle()
    new_gone = weakref.ref(new)
    del kept, new
    freeze_garbage(is_full=False)
    return kept_gone() is None, new_gone() is None


def test_new_objects_are_collected_without_visiting_frozen_ones() -> None:
    assert in_own_process(kept_and_new_after_a_collection_of_new_ones) == [False, True]


def frozen_objects_counted() -> tuple[int, int]:
    InACycle.__module__ = "servers.test_heap"  # objects of others are not counted
    objects = [InACycle() for _ in range(_MANY)]
    freeze_garbage()

    async def look() -> int:
        return int(process_state()["objects"]["servers.test_heap.InACycle"])

    counted = asyncio.run(look())
    assert len(objects) == _MANY
    return counted, gc.get_freeze_count()


def test_frozen_objects_count_in_the_state_of_the_process() -> None:
    counted, frozen = in_own_process(frozen_objects_counted)
    assert counted == _MANY
    assert frozen > 0  # as before
