"""The text of ``GET /metrics``: Prometheus's, or OpenMetrics if the client asks for it.

Our own families are written here, from heads that are made once, so that thousands of lines block
the event loop for a few milliseconds at most. prometheus_client chooses the format and writes the
metrics of the process.

`MergedText` makes one text of the metrics of a server's processes. Counters and histograms are
added. Gauges are added too, except those that every process reports about the same thing:
`_LARGEST` and `_SMALLEST`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from graphrt_base.interrupts import raise_interrupt
from servers.operations.metrics.families import AnyFamily, Families, MetricKind, number_text

_log: Final = logging.getLogger(__name__)

#: Series that are written in one iteration of the event loop.
_AT_ONCE: Final = 200
OPENMETRICS: Final = "application/openmetrics-text"


#: vLLM's names of families, under which its dashboards find them too. The label of the model is
#: ``model_name`` there; ``engine`` is the node.
VLLM_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "graphrt_llm_requests_running": ("vllm:num_requests_running",),
    "graphrt_llm_requests_waiting": ("vllm:num_requests_waiting",),
    "graphrt_llm_kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc",),
    "graphrt_llm_prompt_tokens_total": (
        "vllm:prompt_tokens_total",
        "vllm:prefix_cache_queries_total",
    ),
    "graphrt_llm_shared_prompt_tokens_total": ("vllm:prefix_cache_hits_total",),
    "graphrt_llm_generated_tokens_total": ("vllm:generation_tokens_total",),
    "graphrt_llm_time_to_first_token_seconds": ("vllm:time_to_first_token_seconds",),
    "graphrt_llm_time_per_output_token_seconds": (
        "vllm:request_time_per_output_token_seconds",
        "vllm:inter_token_latency_seconds",
    ),
    "graphrt_llm_request_seconds": ("vllm:e2e_request_latency_seconds",),
    "graphrt_llm_choices_total": ("vllm:request_success_total",),
}
_VLLM_LABELS: Final = {"graph": "model_name", "node": "engine", "finish_reason": "finished_reason"}
_LABEL: Final = re.compile(rf'([{{,])({"|".join(_VLLM_LABELS)})="')


class MetricsText(NamedTuple):
    """The body, and the value of the header Content-Type."""

    body: bytes
    content_type: str


class _Writing:
    """A text that is being written."""

    def __init__(self, accept: str) -> None:
        self._encode, self._content_type = choose_encoder(accept)
        self.is_openmetrics = self._content_type.startswith(OPENMETRICS)
        self.lines: list[str] = []

    def text(self, process: CollectorRegistry) -> MetricsText:
        """Return the text. The metrics of the process are last, and end an OpenMetrics text."""
        return MetricsText("".join(self.lines).encode() + self._encode(process), self._content_type)


class Exposition:
    """Writes the text of all families."""

    def __init__(
        self, families: Families, before: Callable[[], Iterable[None]] = lambda: ()
    ) -> None:
        """``before``: updates polled metrics before each text, in steps."""
        self._families = families
        self._before = before
        #: Families that could not be read; each is logged once.
        self._broken: set[str] = set()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def text(self, accept: str = "") -> MetricsText:
        """Return the text for an Accept header."""
        writing = _Writing(accept)
        for _ in self._write(writing):
            pass
        return writing.text(self._process)

    async def text_in_turns(self, accept: str = "") -> MetricsText:
        """Return the text without blocking the event loop, even if it has millions of lines."""
        writing = _Writing(accept)
        for number, _ in enumerate(self._write(writing), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return writing.text(self._process)

    def _write(self, writing: _Writing) -> Iterator[None]:
        """Write the text, in steps."""
        yield from self._before()
        for family in self._families:
            if family.is_shown:
                lines = writing.lines
                _write_head(family, lines, writing.is_openmetrics)
                begin = len(lines)
                yield from self._write_series(family, lines)
                if (names := VLLM_NAMES.get(family.name)) is not None:
                    series = _LABEL.sub(_vllm_label, "".join(lines[begin:]))
                    for name in names:
                        _write_head(family, lines, writing.is_openmetrics, name)
                        lines.append(re.sub(f"^{family.name}", name, series, flags=re.MULTILINE))

    def _write_series(self, family: AnyFamily, lines: list[str]) -> Iterator[None]:
        for series in family:
            yield
            try:
                series.write(lines)
            except BaseException as error:  # of a function of an author's metric; write the others
                raise_interrupt(error)
                if family.name not in self._broken:
                    self._broken.add(family.name)
                    _log.exception("the metric %r cannot be read", family.name)


def _vllm_label(match: re.Match[str]) -> str:
    return f'{match[1]}{_VLLM_LABELS[match[2]]}="'


def _write_head(family: AnyFamily, lines: list[str], is_openmetrics: bool, name: str = "") -> None:
    """Write name, kind and help of a family; ``name``: another one than its own."""
    name, kind = name or family.name, family.kind.value
    if is_openmetrics and family.kind is MetricKind.COUNTER:
        if family.is_bare:
            kind = "unknown"  # in OpenMetrics a counter's lines must end in _total
        else:
            name = name.removesuffix("_total")
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if is_openmetrics:
        text = text.replace('"', r"\"")
    lines.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")


#: Metrics that the largest value stands for: metrics of an engine or of a directory of batches that
#: all processes share, of the whole machine, and levels that are parts of something.
_LARGEST: Final = frozenset(
    {
        "graphrt_batch_file_bytes",
        "graphrt_batch_files",
        "graphrt_batch_requests_total",
        "graphrt_batch_requests_waiting",
        "graphrt_batch_tokens_total",
        "graphrt_batch_worker",
        "graphrt_batches",
        "graphrt_build_info",
        "graphrt_llm_accepted_candidates_total",
        "graphrt_llm_candidate_passes_total",
        "graphrt_llm_engine_memory_bytes",
        "graphrt_llm_engine_restarts_total",
        "graphrt_llm_kv_cache_bytes",
        "graphrt_llm_kv_cache_usage_ratio",
        "ovms_graph_loaded",
        "process_max_fds",
        "process_start_time_seconds",
        "python_info",
    }
)
_LARGEST_OF_VLLM: Final = frozenset(name for each in _LARGEST for name in VLLM_NAMES.get(each, ()))
#: Metrics that are 1 only if they are 1 in each process.
_SMALLEST: Final = frozenset({"graphrt_llm_engine_up", "graphrt_model_ready"})
_SUMMED_KINDS: Final = ("counter", "histogram", "summary")


class _ExposedFamily:
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
        elif self.name in _LARGEST or self.name in _LARGEST_OF_VLLM:
            self.values[head] = max(old, value)
        elif self.name in _SMALLEST:
            self.values[head] = min(old, value)
        else:
            self.values[head] = old + value


class MergedText:
    """Texts in Prometheus's format, merged in the order in which they are added."""

    def __init__(self) -> None:
        self._families: dict[str, _ExposedFamily] = {}

    def add(self, text: str, *, is_past: bool = False) -> None:
        """Add the text of one process.

        ``is_past``: the process has ended. Its counts remain, and its gauges do not.
        """
        family = _ExposedFamily("")
        for line in text.splitlines():
            if line.startswith("# "):
                _, word, name, *rest = line.split(" ", 3)
                if name != family.name:
                    family = self._families.get(name) or _ExposedFamily(name)
                    if not is_past:
                        self._families[name] = family
                if word == "HELP":
                    family.help = rest[0] if rest else ""
                elif word == "TYPE":
                    kind = rest[0]
                    if is_past and kind in _SUMMED_KINDS:
                        self._families[name] = family
                    elif is_past:
                        family = _ExposedFamily(name)  # its lines are not kept
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
