"""Garbage collection less often than CPython's default."""

from __future__ import annotations

import gc
from typing import Final

#: The first number: new objects before a young collection. Three requests make CPython's 700.
_THRESHOLDS: Final = (10_000, 20, 100)


def collect_seldom() -> None:
    """Let collections be rare from now on.

    Imports leave little garbage, and make so many objects that collections take a tenth of their
    time.
    """
    gc.set_threshold(*_THRESHOLDS)
