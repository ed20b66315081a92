"""Options of files and batches (``/v1/files``, ``/v1/batches``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import option
from servers.options.groups import BATCHES

#: Priorities of the requests of batches.
IDLE: Final = "idle"
NORMAL: Final = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of batches. Without a directory there are no such paths."""

    batch_dir: str | None = option(
        None,
        "keep files and batches in this directory, and serve /v1/files and /v1/batches; "
        "default: they are not served",
        group=BATCHES,
        metavar="DIR",
    )
    batch_width: int = option(
        32,
        "the most requests of batches that run at a time; default {default}",
        group=BATCHES,
        metavar="N",
        reads=value_types.count,
    )
    batch_priority: str = option(
        IDLE,
        "idle: requests of batches have a processor while nothing else wants it; normal: they are "
        "equal to others, for a machine that other programs keep busy; default {default}",
        group=BATCHES,
        metavar="PRIORITY",
        reads=value_types.one_of((IDLE, NORMAL)),
    )
    batch_max_requests: int = option(
        1_000_000,
        "the most requests in one batch; default {default}",
        group=BATCHES,
        metavar="N",
        reads=value_types.count,
    )
    batch_file_size: int = option(
        16 << 30,
        "the largest file of a batch: 200M, 16G; default 16G",
        group=BATCHES,
        metavar="SIZE",
        reads=value_types.size,
    )
