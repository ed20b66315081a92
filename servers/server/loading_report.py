"""Reports of what is being loaded, while it lasts: to a terminal, or line by line to the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from servers.serving.loading import Loading

_log: Final = logging.getLogger("graphrt.loading")

#: Seconds between two drawings on a terminal while something is being loaded.
DRAW_SECONDS: Final = 0.2
#: Seconds between two looks while nothing is, and of loading that needs no line.
LOOK_SECONDS: Final = 1.0
#: Seconds between two lines of the log about the same loading.
LINE_SECONDS: Final = 5.0

#: Shows what is being loaded now; called again and again, at last with nothing.
Show = Callable[[Sequence[Loading]], object]


async def draw_loading(loading: Callable[[], Sequence[Loading]], show: Show) -> None:
    """Call ``show`` with what is being loaded, until cancelled."""
    try:
        was_loading = False
        while True:
            now = loading()
            if now or was_loading:
                show(now)
            was_loading = bool(now)
            await asyncio.sleep(DRAW_SECONDS if now else LOOK_SECONDS)
    finally:
        show(())


async def log_loading(
    loading: Callable[[], Sequence[Loading]], line_seconds: float = LINE_SECONDS
) -> None:
    """Log the progress of each loading every ``line_seconds``, until cancelled.

    Its beginning and its end have lines of their own, so short ones have no further line.
    """
    due: dict[Loading, float] = {}
    while True:
        now = loading()
        due = {each: due.get(each, line_seconds) for each in now}
        for each in now:
            if each.seconds >= due[each]:
                due[each] = each.seconds + line_seconds
                _log.info(
                    "%s: loading, %d%%: %s (%.0f s)",
                    each.name,
                    each.percent,
                    each.progress.phase,
                    each.seconds,
                    extra={"event": "loading", "fields": {"name": each.name, **each.as_json()}},
                )
        await asyncio.sleep(min(LOOK_SECONDS, line_seconds))
