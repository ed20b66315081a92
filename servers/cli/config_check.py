"""The check of a server's config.json and its graphs by `graphrt validate`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from calculators.kit.device_name import device_problem
from graph_runtime import GraphError, Registry
from servers.cli.served_graph_check import check_served_graph
from servers.config import ConfigError, GraphEntry, ModelEntry, read_config
from servers.config.json_text import parse_json
from servers.contract.finding import Finding
from servers.serving.author_code import ModuleImports, registry_with
from servers.serving.models.version_folders import version_paths

_NO_FILE: Final = "no such file"


def check_config(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """Return the findings in the file and its graphs, and a summary such as ``2 graphs, 1 model``.

    No model is loaded.
    """
    try:
        config = read_config(path)
    except ConfigError as error:
        return list(error.findings), ""
    findings = [*config.findings, *_of_python_paths(path)]
    shared = registry_with(config.python_path, registry)
    findings += _of_modules(shared, config.python_path)
    models = {entry.name: entry for entry in config.models}
    for entry in config.graphs:
        own = registry_with(entry.python_path, shared.registry)
        findings += _of_modules(own, entry.python_path)
        shown = _shown(str(entry.graph_path))
        findings += [
            _with_origin(each, entry, path) if each.message == _NO_FILE else each
            for each in check_served_graph(shown, entry, own.registry, models)
        ]
    findings += [finding for entry in config.models for finding in _of_model(path, entry)]
    content = [
        f"{len(found)} {name if len(found) == 1 else name + 's'}"
        for found, name in ((config.graphs, "graph"), (config.models, "model"))
        if found or name == "graph"
    ]
    return findings, ", ".join(content)


def _with_origin(finding: Finding, entry: GraphEntry, path: str) -> Finding:
    return replace(
        finding,
        hint=f'the graph "{entry.name}" of {path} has its file there, unless base_path or '
        f"graph_path names another place",
    )


def _of_python_paths(path: str) -> list[Finding]:
    """Return findings for the paths under ``python_path`` that do not exist, with their lines."""
    document = parse_json(Path(path).read_text(encoding="utf-8"))
    root = Path(path).absolute().parent
    keys = [("python_path", document.value)]
    keys += [
        (f"mediapipe_config_list[{index}].python_path", item)
        for index, item in enumerate(document.value.get("mediapipe_config_list", ()))
    ]
    findings = []
    for where, item in keys:
        given = item.get("python_path", ())
        for index, each in enumerate([given] if isinstance(given, str) else given):
            if not (root / each).exists():
                place = where if isinstance(given, str) else f"{where}[{index}]"
                line, column = document.places.get(place, (None, None))
                findings.append(
                    Finding(
                        path,
                        "error",
                        f'{place}: there is no file or directory "{each}"',
                        line,
                        column,
                        hint="name a module's file, or a directory of modules; relative paths "
                        "start at the directory of this file",
                    )
                )
    return findings


def _of_modules(imports: ModuleImports, paths: Sequence[Path]) -> list[Finding]:
    """Return findings for modules that cannot be imported. Missing paths are reported already."""
    missing = {path for path in paths if not path.exists()}
    return [
        Finding(_shown(str(failure.file)), "error", failure.reason, line=failure.line)
        for failure in imports.failures
        if failure.file not in missing
    ]


def _of_model(path: str, entry: ModelEntry) -> list[Finding]:
    """Return findings about a model's versions and device. A refused model is reported already."""
    try:
        paths = version_paths(entry)
    except GraphError as error:
        reason = f'the model "{entry.name}": {error}'
        return [] if entry.refusal else [Finding(path, "error", reason)]
    found = []
    if problem := device_problem(entry.settings.target_device):
        found.append(Finding(path, "error", f'the model "{entry.name}": target_device: {problem}'))
    missing = [number for number in entry.policy.chosen(paths) if number not in paths]
    return found + [
        Finding(
            path,
            "error",
            f'the model "{entry.name}": there is no folder {number} in its base_path, which its '
            f"version policy names",
        )
        for number in missing
    ]


def _shown(path: str) -> str:
    """Return a path relative to the current directory if it is below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
