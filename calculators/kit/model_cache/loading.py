"""`loading`: the context in which a node's processes load its model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.model_cache.compiled_models import finish
from calculators.kit.model_cache.model_cache import CacheEntry
from graph_runtime import ResourceError


@asynccontextmanager
async def loading(
    entry: CacheEntry | None, close: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Load a model in processes within this context, and keep what OpenVINO has written then.

    If that fails ``close`` is called, which ends the processes and closes the entry.

    Raises:
        ResourceError: the model cannot be loaded.
    """
    try:
        yield
        await asyncio.to_thread(finish, entry)
    except BaseException as error:
        await close()
        if isinstance(error, LoadError):
            raise ResourceError(f"the model cannot be loaded: {error}") from None
        raise
