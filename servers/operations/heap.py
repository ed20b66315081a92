"""Garbage-collector tuning for long-lived servers.

A server holds half a million objects of its libraries and graphs. A full collection goes through
all of them, which takes 40 to 60 ms of every request in flight, and loads of short-lived objects
bring it about several times a second. Requests leave no cycles behind, so collecting them seldom
costs little memory (`gc.freeze`, `gc.set_threshold`).
"""

from __future__ import annotations

import gc
from typing import Final

#: New objects before the young are looked at; CPython's own 700 are those of three requests.
_THRESHOLDS: Final = (10_000, 20, 100)


def freeze_garbage(*, is_full: bool = True) -> None:
    """Collect everything, and keep the collector from what is left, until the next time.

    After each change of what is loaded: what was unloaded is in cycles, and goes now. Takes about
    0.1 s, in which nothing else runs, and with thousands of graphs seconds; unless ``is_full``
    only what is new since the last time is gone through.
    """
    if is_full:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
