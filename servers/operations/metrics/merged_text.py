"""`MergedText`: the metrics of several processes of one server as one text.

Counters and histograms are added. Gauges are added too, except those that every process reports
about the same thing: `_LARGEST` and `_SMALLEST`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.exposition import choose_encoder

from servers.operations.metrics.exposition import OPENMETRICS, MetricsText
from servers.operations.metrics.series import number_text

#: Metrics that the largest value stands for: those of an engine that all processes share, of the
#: whole machine, and levels that are parts of something.
_LARGEST: Final = frozenset(
    {
        "graphrt_build_info",
        "graphrt_llm_accepted_candidates_total",
        "graphrt_llm_candidate_passes_total",
        "graphrt_llm_engine_memory_bytes",
        "graphrt_llm_engine_restarts_total",
        "graphrt_llm_kv_cache_bytes",
        "graphrt_llm_kv_cache_usage_ratio",
        "process_max_fds",
        "process_start_time_seconds",
        "python_info",
    }
)
#: Metrics that are 1 only if they are 1 in each process.
_SMALLEST: Final = frozenset({"graphrt_llm_engine_up", "graphrt_model_ready"})
_SUMMED_KINDS: Final = ("counter", "histogram", "summary")


class _Family:
    """The lines of one metric.

    Attributes:
        values: the value of each line, by all that stands before it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.help = ""
        self.kind = "untyped"
        self.values: dict[str, float] = {}

    def add(self, head: str, value: float) -> None:
        old = self.values.get(head)
        if old is None:
            self.values[head] = value
        elif self.name in _LARGEST:
            self.values[head] = max(old, value)
        elif self.name in _SMALLEST:
            self.values[head] = min(old, value)
        else:
            self.values[head] = old + value


class MergedText:
    """Texts in Prometheus's format, merged in the order in which they are added."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def add(self, text: str, *, is_past: bool = False) -> None:
        """Add the text of one process.

        ``is_past``: the process has ended. Its counts remain, and its gauges do not.
        """
        family = _Family("")
        for line in text.splitlines():
            if line.startswith("# "):
                _, word, name, *rest = line.split(" ", 3)
                if name != family.name:
                    family = self._families.get(name) or _Family(name)
                    if not is_past:
                        self._families[name] = family
                if word == "HELP":
                    family.help = rest[0] if rest else ""
                elif word == "TYPE":
                    kind = rest[0]
                    if is_past and kind in _SUMMED_KINDS:
                        self._families[name] = family
                    elif is_past:
                        family = _Family(name)  # its lines are not kept
                    family.kind = kind
            elif line:
                head, _, value = line.rpartition(" ")
                family.add(head, float(value))

    def plain(self) -> str:
        """Return the text in Prometheus's format."""
        return "".join(self._lines(is_openmetrics=False))

    def text(self, accept: str) -> MetricsText:
        """Return the text in the format that a client accepts."""
        _, content_type = choose_encoder(accept)
        is_openmetrics = content_type.startswith(OPENMETRICS)
        lines = "".join(self._lines(is_openmetrics=is_openmetrics))
        end = "# EOF\n" if is_openmetrics else ""
        return MetricsText((lines + end).encode(), content_type)

    def _lines(self, *, is_openmetrics: bool) -> Iterable[str]:
        for family in self._families.values():
            name, kind, help_text = family.name, family.kind, family.help
            if is_openmetrics:
                help_text = help_text.replace('"', r"\"")
                if kind == "untyped":
                    kind = "unknown"
                elif kind == "counter" and name.endswith("_total"):
                    name = name.removesuffix("_total")
                elif kind == "counter":
                    kind = "unknown"  # its lines would have to end in _total
            yield f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
            for head, value in family.values.items():
                yield f"{head} {number_text(value)}\n"
