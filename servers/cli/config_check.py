"""One kind of file that `graphrt validate` checks: a server's config.json, with its graphs."""

from __future__ import annotations

import os

from graph_runtime import Registry
from servers.cli.graph_check import check_graph
from servers.config import ConfigError, read_config
from servers.finding import Finding


def check_config(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """The findings in the file and in the graphs that it names; ``2 graphs``. Loads no model."""
    try:
        config = read_config(path)
    except ConfigError as error:
        return list(error.findings), ""
    findings = list(config.findings)
    for entry in config.graphs:
        found, _ = check_graph(_shown(str(entry.graph_path)), registry)
        findings += found
    count = len(config.graphs)
    return findings, f"{count} graph" if count == 1 else f"{count} graphs"


def _shown(path: str) -> str:
    """Relative to the current directory where it lies below."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
