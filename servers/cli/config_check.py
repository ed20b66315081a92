"""One kind of file that `graphrt validate` checks: a server's config.json, with its graphs."""

from __future__ import annotations

import os

from graph_runtime import GraphError, Registry
from servers.author_code import ModuleImports, registry_with
from servers.cli.served_graph_check import check_served_graph
from servers.config import ConfigError, ModelEntry, read_config
from servers.finding import Finding
from servers.models.version_paths import version_paths


def check_config(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """The findings in the file and in the graphs that it names; ``2 graphs, 1 model``.

    Loads no model.
    """
    try:
        config = read_config(path)
    except ConfigError as error:
        return list(error.findings), ""
    findings = list(config.findings)
    shared = registry_with(config.python_path, registry)
    findings += _of_modules(shared)
    models = {entry.name: entry for entry in config.models}
    for entry in config.graphs:
        own = registry_with(entry.python_path, shared.registry)
        findings += _of_modules(own)
        shown = _shown(str(entry.graph_path))
        findings += check_served_graph(shown, entry, own.registry, models)
    findings += [finding for entry in config.models for finding in _of_model(path, entry)]
    content = [
        f"{len(found)} {name if len(found) == 1 else name + 's'}"
        for found, name in ((config.graphs, "graph"), (config.models, "model"))
        if found or name == "graph"
    ]
    return findings, ", ".join(content)


def _of_modules(imports: ModuleImports) -> list[Finding]:
    return [
        Finding(_shown(str(failure.file)), "error", failure.reason, line=failure.line)
        for failure in imports.failures
    ]


def _of_model(path: str, entry: ModelEntry) -> list[Finding]:
    """Whether its versions are there; what refuses it stands in the config's own findings."""
    try:
        paths = version_paths(entry)
    except GraphError as error:
        reason = f'the model "{entry.name}": {error}'
        return [] if entry.refusal else [Finding(path, "error", reason)]
    missing = [number for number in entry.policy.chosen(paths) if number not in paths]
    return [
        Finding(
            path,
            "error",
            f'the model "{entry.name}": there is no folder {number} in its base_path, which its '
            f"version policy names",
        )
        for number in missing
    ]


def _shown(path: str) -> str:
    """Relative to the current directory where it lies below."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
