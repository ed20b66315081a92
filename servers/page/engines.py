"""The engines of language models, read from the metrics that their nodes publish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from servers.operations.metrics.families import CounterFamily, Gauge
from servers.operations.metrics.server_metrics import ServerMetrics
from servers.page.events import EngineNow
from servers.page.request_feed import RequestFeed

#: The metric of each field of `EngineNow`.
_METRICS: Final = {
    "graphrt_llm_requests_running": "running",
    "graphrt_llm_requests_waiting": "waiting",
    "graphrt_llm_kv_cache_usage_ratio": "cache",
    "graphrt_llm_kv_cache_bytes": "cache_bytes",
    "graphrt_llm_generated_tokens_total": "generated",
    "graphrt_llm_engine_up": "up",
    "graphrt_llm_engine_restarts_total": "restarts",
}
_MEMORY: Final = "graphrt_llm_engine_memory_bytes"
#: The least difference of memory that is sent to readers, in bytes: it changes with every request.
_GRAIN: Final = 1 << 20
_UP: Final = "graphrt_llm_engine_up"


def engines_now(metrics: ServerMetrics, requests: RequestFeed) -> Iterator[EngineNow]:
    """Yield the present values of each node that has an engine.

    The metrics count the tokens of ended requests; tokens of running ones are added.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    names: set[tuple[str, str]] = set()
    for family in metrics.families:
        field = _METRICS.get(family.name)
        if field is None:
            continue
        for series in family:
            if isinstance(series, (CounterFamily, Gauge)):
                key = (series.labels.get("graph", ""), series.labels.get("node", ""))
                found.setdefault(key, {})[field] = series.value
                if family.name == _UP:
                    names.add(key)
    for model, node, tokens in requests.tokens():
        values = found.get((metrics.graph_name(model), node))
        if values is not None:
            values["generated"] = values.get("generated", 0) + tokens
    for key in sorted(names):
        values = found[key]
        yield EngineNow(
            g=key[0],
            node=key[1],
            running=int(values.get("running", 0)),
            waiting=int(values.get("waiting", 0)),
            cache=round(values.get("cache", 0.0), 4),
            cache_bytes=int(values.get("cache_bytes", 0)),
            generated=int(values.get("generated", 0)),
            up=bool(values.get("up", 0)),
            restarts=int(values.get("restarts", 0)),
        )


def memory_of(metrics: ServerMetrics | None, graph: str) -> int | None:
    """Return the bytes of memory of a graph's engines, in steps of 1 MiB; None without engines."""
    used = 0
    for family in () if metrics is None else metrics.families:
        if family.name == _MEMORY:
            for series in family:
                if isinstance(series, Gauge) and series.labels.get("graph") == graph:
                    used += int(series.value)
    return used // _GRAIN * _GRAIN or None
