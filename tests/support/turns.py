"""How long the event loop is held, in processor time: other work on the machine adds nothing."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine


async def longest_turn(*works: Coroutine[None, None, None]) -> float:
    """Run ``works``; return the most processor seconds between two turns of the loop meanwhile.

    Without collections of garbage: in a process of thousands of tests they take longer.
    """
    gc.collect()
    gc.disable()
    try:
        work = asyncio.gather(*works)
        longest, before = 0.0, time.thread_time()
        while not work.done():
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now
        work.result()
        return longest
    finally:
        gc.enable()
