"""Metrics of an engine: queue, cache, restarts."""

from __future__ import annotations

from collections.abc import Callable

from calculators.kit.memory import resident_bytes
from calculators.llm.engine.engine import Engine
from graph_runtime import NodeMetrics


def watch_engine(metrics: NodeMetrics, engine: Engine) -> Callable[[], None]:
    """Publish the metrics of an engine; call the returned function when the engine is closed.

    openvino-genai 2026.4 reports neither preemptions nor prompt tokens found in its cache.
    """
    ends = (
        metrics.gauge(
            "graphrt_llm_requests_running", "Requests in the engine that have begun to get tokens."
        ).follow(lambda: engine.running),
        metrics.gauge(
            "graphrt_llm_requests_waiting",
            "Requests in the engine without a token yet: in its queue, or at their prompt's pass.",
        ).follow(lambda: engine.unfinished - engine.running),
        metrics.gauge(
            "graphrt_llm_kv_cache_usage_ratio", "Part of the KV cache that is in use, 0 to 1."
        ).follow(lambda: engine.metrics.cache_usage),
        metrics.gauge("graphrt_llm_kv_cache_bytes", "Size of the KV cache.").follow(
            lambda: engine.metrics.cache_bytes
        ),
        metrics.counter(
            "graphrt_llm_cache_full",
            "Answers that ended because the KV cache had no room for more.",
        ).follow(lambda: engine.cache_full),
        metrics.counter(
            "graphrt_llm_candidate_passes",
            "Passes of the model over tokens that a draft model or the prompt proposed.",
        ).follow(lambda: engine.metrics.candidate_passes),
        metrics.counter(
            "graphrt_llm_accepted_candidates", "Proposed tokens that the model accepted."
        ).follow(lambda: engine.metrics.accepted_candidates),
        metrics.gauge("graphrt_llm_engine_up", "Can the engine work now? 1 or 0.").follow(
            lambda: not engine.unavailable_reason
        ),
        metrics.gauge(
            "graphrt_llm_engine_memory_bytes",
            "Memory of the engine's process, the model's included.",
        ).follow(lambda: _memory_of(engine)),
        metrics.counter(
            "graphrt_llm_engine_restarts",
            "How often the engine's process had to be started again.",
        ).follow(lambda: engine.restarts),
    )

    def end() -> None:
        for each in ends:
            each()

    return end


def _memory_of(engine: Engine) -> int:
    """Return the memory of an engine's process in bytes; 0 without one."""
    pid = engine.pid
    return 0 if pid is None else resident_bytes(pid) or 0
