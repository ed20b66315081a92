"""`InProcessEngine`: the engine's core on the test's own event loop, with any `Pipeline`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from calculators.llm.engine.core import EngineCore, Pipeline
from calculators.llm.engine.engine import EngineDown, EngineGeneration, Requests
from calculators.llm.engine.messages import Add, CancelGeneration, Metrics, Step


class InProcessEngine:
    """Steps between other callbacks of the running loop; fails all requests when a step raises."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._core = EngineCore(pipeline)
        self._requests = Requests(self._send)
        self._metrics = Metrics()
        self._down = ""
        self._is_scheduled = False

    @property
    def restarts(self) -> int:
        return 0

    @property
    def unavailable_reason(self) -> str:
        return self._down

    @property
    def metrics(self) -> Metrics:
        return self._metrics

    @property
    def unfinished(self) -> int:
        return len(self._requests.open)

    @property
    def running(self) -> int:
        return self._requests.running

    @property
    def cache_full(self) -> int:
        return self._requests.cache_full

    @property
    def pid(self) -> int | None:
        return None

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        if self._down:
            raise EngineDown(self._down)
        return self._requests.submit(parts)

    async def close(self) -> None:
        self._end("the engine is shut down")

    def _send(self, message: Add | CancelGeneration) -> None:
        self._core.handle(message)
        self._schedule()

    def _schedule(self) -> None:
        if self._core.has_work and not self._is_scheduled and not self._down:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        if self._down:
            return
        try:
            for output in self._core.step():
                if isinstance(output, Step):
                    self._requests.take(output)
                else:
                    self._metrics = output
        except Exception as error:
            self._end(f"the engine stopped: {error}")
        self._schedule()

    def _end(self, reason: str) -> None:
        self._down = reason
        self._requests.fail_all(reason, 0.0)
