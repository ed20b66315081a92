"""The page of all families of metrics of a server, made from their declarations."""

from __future__ import annotations

from typing import Final

from servers.operations.metrics.families import AnyFamily
from servers.operations.metrics.server_metrics import ServerMetrics

_HEAD: Final = """\
# Families of metrics

What `GET /metrics` has from the start, made from the code; [metrics](../metrics.md) has the labels,
the conditions and the metrics of tasks and of your own calculators.

| family | type | meaning |
|---|---|---|
"""


def metric_page() -> str:
    """Return the page in Markdown."""
    return _HEAD + "".join(map(_row, ServerMetrics().families))


def _row(family: AnyFamily) -> str:
    text = family.help.replace("|", "\\|").replace("<", "&lt;")
    return f"| `{family.name}` | {family.kind.value} | {text} |\n"
