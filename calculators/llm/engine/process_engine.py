"""`ProcessEngine`: an engine in a supervised child process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from calculators.kit.child_process.supervisor import ChildState, Supervisor
from calculators.llm.engine.engine import EngineDown, Generation, Part
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.environment import ENVIRONMENT
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    Cancel,
    Load,
    Metrics,
    Ready,
    from_engine_decoder,
)
from calculators.llm.engine.requests import Requests
from calculators.llm.engine.shared_prefixes import SharedPrefixes
from graph_runtime import LoadProgress

#: Silence after which a busy engine counts as hung: a step over a long prompt takes many seconds.
HANG_SECONDS: Final = 120.0
RETRY_AFTER: Final = 2.0


def engine_load(settings: EngineSettings) -> Load:
    """Return the first message to an engine's process."""
    return Load(VERSION, settings)


class ProcessEngine:
    """The server's side of an engine process; see `calculators.llm.engine.engine.Engine`.

    `start` starts the process; it is started again whenever it dies or hangs.
    """

    def __init__(
        self, settings: EngineSettings, *, name: str, hang_seconds: float = HANG_SECONDS
    ) -> None:
        """``name``: the served model's, for messages; ``hang_seconds``: of silence while busy."""
        self._encode = msgspec.msgpack.Encoder().encode
        self._requests = Requests(self._send)
        self._caches_prefixes = settings.enable_prefix_caching
        self._what = f'engine of "{name}"'
        self._child = Supervisor(
            name=self._what,
            module="calculators.llm.engine.process",
            load=engine_load(settings),
            decode=from_engine_decoder.decode,
            ready=Ready,
            on_message=self._requests.take,
            on_down=self._down,
            is_busy=lambda: bool(self._requests.open),
            hang_seconds=hang_seconds,
            environment=ENVIRONMENT,
            is_shared=True,
        )

    async def start(self, progress: LoadProgress | None = None) -> Ready:
        """Load the model; ``progress`` gets the phases.

        Raises:
            LoadError: the model cannot be loaded; the text says why.
        """
        ready: Ready = await self._child.start(progress)
        if self._caches_prefixes and ready.cache_tokens:
            self._requests.prefixes = SharedPrefixes(ready.cache_tokens)
        return ready

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return self._child.pid

    @property
    def restarts(self) -> int:
        """The number of times that the process was restarted."""
        return self._child.restarts

    @property
    def unavailable_reason(self) -> str:
        return self._child.unavailable_reason

    @property
    def metrics(self) -> Metrics:
        return self._requests.metrics

    @property
    def unfinished(self) -> int:
        return len(self._requests.open)

    @property
    def running(self) -> int:
        return self._requests.running

    @property
    def cache_full(self) -> int:
        return self._requests.cache_full

    def submit(self, parts: Sequence[Part]) -> Generation:
        if self._child.state is not ChildState.READY:
            raise EngineDown(self._child.unavailable_reason, retry_after=RETRY_AFTER)
        if not self._requests.open:
            self._child.expect_answer()
        return self._requests.submit(parts)

    async def close(self) -> None:
        await self._child.close()
        self._requests.fail_all(f"the {self._what} is shut down", RETRY_AFTER)

    def _send(self, message: Add | Cancel) -> None:
        self._child.send(self._encode(message))

    def _down(self, reason: str) -> None:
        self._requests.metrics = Metrics()
        if self._requests.prefixes is not None:
            self._requests.prefixes.forget()
        self._requests.fail_all(f"the {self._what} stopped; it is being started again", RETRY_AFTER)
