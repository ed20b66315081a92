"""Garbage-collector tuning for long-lived servers.

A server holds half a million objects of its libraries and graphs. A full collection goes through
all of them, which delays every request in flight by 40 to 60 ms, and many short-lived objects
trigger it several times a second. Requests leave no cycles behind, so collecting seldom costs
little memory (`gc.freeze`, `gc.set_threshold`).
"""

from __future__ import annotations

import gc

from calculators.kit.memory import collect_seldom


def freeze_garbage(*, is_full: bool = True) -> None:
    """Collect garbage, and exclude the remaining objects from collections until the next call.

    Called after each change of what is loaded, because unloaded graphs and models are in cycles.
    Blocks the process for about 0.1 s, and for seconds with thousands of graphs. Unless
    ``is_full``, only objects that are new since the last call are collected.
    """
    if is_full:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    collect_seldom()
