"""`ScoringEngine`: a second engine of a model, for the log-probabilities of prompts.

An engine that keeps prompts (``enable_prefix_caching``) does not compute the kept part of a prompt
again, so it has no log-probabilities for it, and the library cannot ignore what it keeps for one
request (openvino-genai 2026.4). Programs that score texts (lm-eval, perplexity) ask for nothing
else, and others never do. So the second engine, without that option, is started by the
first such request and ends when there were none for a while: meanwhile the model takes its memory
twice. Neither engine's requests wait for the other's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from calculators.kit.child_process.on_demand import OnDemand
from calculators.kit.child_process.supervisor import LoadError
from calculators.llm.engine.engine import Engine, EngineDown, EngineGeneration
from calculators.llm.engine.messages import Add, EngineReady
from calculators.llm.engine.settings import EngineSettings
from graph_runtime import LoadProgress

_log = logging.getLogger("graphrt.llm")

#: Idle time after which the engine ends.
IDLE_SECONDS: Final = 300.0
_RETRY_AFTER: Final = 10.0
_PROMPT_LOOKUP: Final = "prompt_lookup"


class StartableEngine(Engine, Protocol):
    """An engine that has to be started."""

    async def start(self, progress: LoadProgress | None = None) -> EngineReady: ...


class ScoringEngine:
    """Starts an engine for requests that score prompts, and ends it when idle."""

    def __init__(
        self,
        settings: EngineSettings,
        make: Callable[[EngineSettings], StartableEngine],
        *,
        name: str,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """Start nothing yet.

        Args:
            settings: of the model's own engine.
            make: makes an engine with the settings that scoring needs.
            name: the served model's, for the log.
            idle_seconds: time without a request after which the engine ends.
        """
        self._settings = scoring_settings(settings)
        self._make = make
        self._name = name
        self._idle_seconds = idle_seconds
        self._engine = OnDemand(
            self._start, is_idle=lambda engine: not engine.unfinished, idle_seconds=idle_seconds
        )

    @property
    def unfinished(self) -> int:
        """Requests that have been submitted and not ended."""
        engine = self._engine.current
        return 0 if engine is None else engine.unfinished

    @property
    def pid(self) -> int | None:
        """The id of the engine's process, while there is one."""
        return None if self._engine.current is None else self._engine.current.pid

    async def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        """Start the engine if need be, and generate; see `Engine.submit`.

        Raises:
            EngineDown: it could not be started, or cannot work now.
        """
        if self._engine.is_closed:
            raise EngineDown("the model is shut down", retry_after=_RETRY_AFTER)
        engine = await self._engine.get()
        return engine.submit([_alone(part) for part in parts])

    async def close(self) -> None:
        """End the engine."""
        await self._engine.close()

    async def _start(self) -> StartableEngine:
        _log.info(
            "%s: an engine without enable_prefix_caching is started for log-probabilities of "
            "prompts; it ends after %.0f s without one",
            self._name,
            self._idle_seconds,
        )
        engine = self._make(self._settings)
        try:
            await engine.start()
        except LoadError as error:
            await engine.close()
            raise EngineDown(
                f"the engine for log-probabilities of prompts cannot be started: {error}",
                retry_after=_RETRY_AFTER,
            ) from None
        except BaseException:
            await engine.close()
            raise
        return engine


def scoring_settings(settings: EngineSettings) -> EngineSettings:
    """Return an engine's settings without what keeps or proposes tokens.

    Its cache grows as needed: there are few requests, and each is short-lived.
    """
    properties = dict(settings.plugin_config)
    properties.pop(_PROMPT_LOOKUP, None)
    return msgspec.structs.replace(
        settings,
        # openvino-genai 2026.4 has no request that ignores what is kept, and no way to empty it
        # (decision 0090).
        enable_prefix_caching=False,
        cache_size=0,
        draft=None,
        plugin_config=properties,
    )


def _alone(part: Add) -> Add:
    """Return a part whose tokens nobody proposes."""
    alone = msgspec.structs.replace(
        part.settings, num_assistant_tokens=0, assistant_confidence_threshold=0.0, max_ngram_size=0
    )
    return msgspec.structs.replace(part, settings=alone)
