"""Waiting for observable conditions, with a deadline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.support.patience import PATIENCE

T = TypeVar("T")


async def until(is_so: Callable[[], bool], *, seconds: float = PATIENCE) -> float:
    """Wait for a condition; return the seconds that it took."""
    begin = time.monotonic()
    while not is_so():
        taken = time.monotonic() - begin
        assert taken < seconds, f"not so after {taken:.1f} s"
        await asyncio.sleep(0.002)
    return time.monotonic() - begin


def wait_until(is_so: Callable[[], Any], what: str, *, seconds: float = PATIENCE) -> float:
    """Wait for a condition that must be polled; return the seconds that it took."""
    begin = time.monotonic()
    while not is_so():
        taken = time.monotonic() - begin
        assert taken < seconds, f"{what}: not so after {taken:.1f} s"
        time.sleep(0.01)
    return time.monotonic() - begin


async def soon(awaitable: Awaitable[T], *, seconds: float = PATIENCE) -> T:
    """Return the result, or fail if there is none in time."""
    async with asyncio.timeout(seconds):
        return await awaitable


def signal_process(pid: int | None, number: int) -> None:
    assert pid is not None
    os.kill(pid, number)
