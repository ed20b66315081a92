"""`RequestQueue`: the limit of requests in progress, for every queue of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.settings.declaration import RUNNING, option
from calculators.kit.settings.value_types import count


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueue:
    """The base class of settings with a limit of requests."""

    request_limit: int = option(
        2048,
        "requests of one graph in flight, waiting ones included; more get 429; default {default}",
        flag="request_queue_limit",
        group=RUNNING,
        metavar="N",
        reads=count,
    )


#: The default limit of requests of one graph in flight.
REQUEST_LIMIT: Final = RequestQueue().request_limit
