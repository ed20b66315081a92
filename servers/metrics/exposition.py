"""The text of ``GET /metrics``: Prometheus's, or OpenMetrics if the client asks for it.

Our own families are written here, from heads that are made once, so that thousands of lines hold
the event loop for a few milliseconds at most. prometheus_client chooses the format, and knows what
there is to say about the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from servers.metrics.families import AnyFamily, Families, Kind

_log: Final = logging.getLogger(__name__)

_OPENMETRICS: Final = "application/openmetrics-text"


class MetricsText(NamedTuple):
    """``content_type`` with its parameters, as the header has it."""

    body: bytes
    content_type: str


class Exposition:
    """Writes what the families have."""

    def __init__(self, families: Families, before: Callable[[], None] = lambda: None) -> None:
        """``before`` is called before each text: it takes up what is not told by itself."""
        self._families = families
        self._before = before
        #: Families that could not be read, which the log says once.
        self._broken: set[str] = set()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)

    def text(self, accept: str = "") -> MetricsText:
        """``accept``: the header."""
        self._before()
        encode, content_type = choose_encoder(accept)
        is_openmetrics = content_type.startswith(_OPENMETRICS)
        lines: list[str] = []
        for family in self._families:
            if family.is_shown:
                _write_head(family, lines, is_openmetrics)
                self._write_series(family, lines)
        # Behind ours: of OpenMetrics it has the end of all.
        return MetricsText("".join(lines).encode() + encode(self._process), content_type)

    def _write_series(self, family: AnyFamily, lines: list[str]) -> None:
        for series in family:
            try:
                series.write(lines)
            except Exception:  # of what an author's metric follows; the others are still told
                if family.name not in self._broken:
                    self._broken.add(family.name)
                    _log.exception("the metric %r cannot be read", family.name)


def _write_head(family: AnyFamily, lines: list[str], is_openmetrics: bool) -> None:
    name, kind = family.name, family.kind.value
    if is_openmetrics and family.kind is Kind.COUNTER:
        if family.is_bare:
            kind = "unknown"  # there a counter's lines must end in _total
        else:
            name = name.removesuffix("_total")
    text = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if is_openmetrics:
        text = text.replace('"', r"\"")
    lines.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
