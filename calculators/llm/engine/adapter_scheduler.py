"""`AdapterScheduler`: requests of one adapter at a time, where only one can be applied."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from calculators.llm.engine.core import Refused
from calculators.llm.engine.messages import Add, Failed, Metrics, Ready, Tokens
from calculators.llm.engine.outer_pipeline import AdaptedPipeline, OuterPipeline

#: Seconds for which requests of the current adapter may still join while others wait.
JOINING_SECONDS: Final = 1.0


class AdapterScheduler(OuterPipeline):
    """A `Pipeline` whose requests name their adapters, around one that applies one at a time.

    Requests of one adapter, or of none, run together; the others wait until these have ended. The
    next turn goes to the adapter whose first request has waited longest, with all its requests.
    Once a request has waited for `JOINING_SECONDS`, no other joins the current turn, so every turn
    ends.
    """

    def __init__(
        self, pipeline: AdaptedPipeline, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(pipeline)
        self._clock = clock
        self._current = ""
        #: Waiting requests by adapter, the adapter that has waited longest first.
        self._waiting: dict[str, deque[Add]] = {}
        #: When the first request of each adapter began to wait.
        self._since: dict[str, float] = {}

    def ready(self) -> Ready:
        return self._pipeline.ready()

    @property
    def has_work(self) -> bool:
        return self._pipeline.has_work or bool(self._waiting)

    @property
    def has_news(self) -> bool:
        return self._pipeline.has_news or (bool(self._waiting) and not self._pipeline.has_work)

    def add(self, request: Add) -> None:
        adapter = request.settings.adapter
        if not self.has_work:
            self._select(adapter)
        if adapter == self._current and not self._is_turn_over():
            self._pipeline.add(request)
            return
        if adapter not in self._waiting:
            self._waiting[adapter] = deque()
            self._since[adapter] = self._clock()
        self._waiting[adapter].append(request)

    def _is_turn_over(self) -> bool:
        since = next(iter(self._since.values()), None)
        return since is not None and self._clock() - since >= JOINING_SECONDS

    def cancel(self, request_id: int) -> None:
        for adapter, requests in self._waiting.items():
            for request in requests:
                if request.request_id == request_id:
                    requests.remove(request)
                    if not requests:
                        self._forget(adapter)
                    return
        self._pipeline.cancel(request_id)

    def step(self, *, reports_all: bool = True) -> Sequence[Tokens | Failed]:
        failed = [] if self._pipeline.has_work else self._begin_turn()
        gained = self._pipeline.step(reports_all=reports_all) if self._pipeline.has_news else ()
        return [*failed, *gained]

    def _begin_turn(self) -> list[Failed]:
        """Start the requests of the next adapter; return those that are refused."""
        failed: list[Failed] = []
        adapter = next(iter(self._waiting), None)
        if adapter is not None:
            requests = self._waiting[adapter]
            self._forget(adapter)
            self._select(adapter)
            for request in requests:
                try:
                    self._pipeline.add(request)
                except Refused as error:
                    failed.append(error.failed(request.request_id))
        return failed

    def _forget(self, adapter: str) -> None:
        del self._waiting[adapter], self._since[adapter]

    def _select(self, adapter: str) -> None:
        if adapter != self._current:
            self._pipeline.select(adapter)
            self._current = adapter

    def metrics(self) -> Metrics:
        metrics = self._pipeline.metrics()
        waiting = metrics.waiting + sum(map(len, self._waiting.values()))
        return msgspec.structs.replace(metrics, waiting=waiting)
