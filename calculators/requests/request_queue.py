"""`RequestQueue`: how many requests may be in hand, for every queue that a server bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.settings.declaration import option
from calculators.settings.groups import RUNNING
from calculators.settings.value_types import count


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueue:
    """The base of settings with a bound on requests."""

    request_limit: int = option(
        2048,
        "requests of one graph in flight, waiting ones included; more get 429; default {default}",
        flag="request_queue_limit",
        group=RUNNING,
        metavar="N",
        reads=count,
    )


#: Requests of one graph in flight, unless the operator says otherwise.
REQUEST_LIMIT: Final = RequestQueue().request_limit
