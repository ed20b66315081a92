"""Work on bodies and answers: small ones at once, large ones in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: Bytes that are checked, packed or written in less than a millisecond.
AT_ONCE: Final = 64 * 1024


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns; in a thread if it has more than `AT_ONCE` bytes to look at."""
    if size <= AT_ONCE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
