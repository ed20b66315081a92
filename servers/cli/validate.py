"""`graphrt validate`: check files and report every finding.

A graph that is valid is also checked for serving: its resources, side packets and session models.
Nothing is loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from calculators.kit.device_options import device_problem
from calculators.kit.examples import example_name
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from calculators.tensors.openvino.directory_models import MODELS, DirectoryModels
from graph_runtime import GraphError, GraphService, Registry, ResourceSettings, ValidatedGraph
from graphrt_base.interrupts import contained, raise_interrupt
from servers.cli.graph_check import GraphCheck, check_graph
from servers.cli.graph_registry import graph_file, make_registry
from servers.config import ConfigError, GraphEntry, ModelEntry, read_config
from servers.config.json_text import parse_json
from servers.contract.finding import Finding
from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import read_address
from servers.serving.graph_source import (
    RESPONSE_NAME,
    RESPONSE_TAGS,
    missing_files,
    response_stream_of,
    serving_problems,
)
from servers.serving.python_path import ModuleImports, registry_with
from servers.serving.served_streams import SideNeeds, has_sessions, is_only_http


def check_served_graph(
    path: str, entry: GraphEntry, registry: Registry, models: Mapping[str, ModelEntry]
) -> list[Finding]:
    """Return the findings in a graph's file. ``path`` is written in findings; ``models`` are the
    models of the config."""
    check = GraphCheck(path, registry, entry.graph_text)
    if check.plan is not None:
        try:
            _check_serving(check, entry, models)
        except BaseException as error:
            raise_interrupt(error)
            check.add_failure(contained(error))
    return check.placed_findings()


def _check_serving(check: GraphCheck, entry: GraphEntry, models: Mapping[str, ModelEntry]) -> None:
    plan = check.plan
    assert plan is not None
    problems = serving_problems(plan)
    if problems:
        # The warnings would repeat these errors.
        check.findings = [
            each for each in check.findings if each.severity == "error" or each.node is not None
        ]
    for problem in problems:
        check.add("error", problem)
    side_packets = check.add_resources(ResourceSettings(entry.directory, model_name=entry.name))
    if not problems:
        try:
            takes_http = is_only_http(plan) or _takes_http(entry, plan)
            SideNeeds(plan, side_packets).check(takes_http=takes_http)
            if takes_http and not response_stream_of(plan):
                check.add(
                    "warning",
                    "the graph takes HTTP requests and answers none: it has no output stream for "
                    "the answer",
                    hint=f'add output_stream: "{RESPONSE_TAGS[0]}:{RESPONSE_NAME}", which a node '
                    f"makes",
                )
        except GraphError as error:
            check.add("error", str(error))
    if any(GRAPH_DIRECTORY.key in node.service_requests for node in plan.nodes):
        _check_files(check, plan, entry, models)
    if has_sessions(plan):
        for node, reason in _session_errors(plan, entry, models):
            check.add("error", reason, node)


def _check_files(
    check: GraphCheck, plan: ValidatedGraph, entry: GraphEntry, models: Mapping[str, ModelEntry]
) -> None:
    """Add findings about files that nodes open, and that are nowhere."""
    assert check.source is not None, "it has made the plan"
    services: dict[GraphService[Any], Any] = {
        GRAPH_DIRECTORY: entry.directory,
        MODELS: _ModelFiles(entry.directory, models),
    }
    for node, reason in asyncio.run(missing_files(plan, check.source.registry, services)):
        outer = check.source.config.node[node.origin]
        name = outer.name or outer.calculator
        inner = "" if node.name == name else f'in it, node "{node.name}": '
        check.add("error", f"{inner}{reason}", name)


class _ModelFiles:
    """The part of a `calculators.tensors.openvino.directory_models.ModelProvider` that finds files.

    It has the models of the config, and those beside the graph.
    """

    def __init__(self, directory: Path, models: Mapping[str, ModelEntry]) -> None:
        self._beside = DirectoryModels(directory)
        self._models = models

    def file_of(self, name: str) -> Path | None:
        """See `ModelProvider.file_of`."""
        # Here: a config without plain models needs no NumPy.
        from servers.serving.models.model_definition import ModelDefinition

        entry = self._models.get(name)
        if entry is None:
            return self._beside.file_of(name)
        return ModelDefinition(entry).file()


def _session_errors(
    plan: ValidatedGraph, entry: GraphEntry, models: Mapping[str, ModelEntry]
) -> Iterator[tuple[str, str]]:
    """Yield (node, reason) of each session whose model or version does not exist.

    ``models``: the models of the config.
    """
    # Here: graphs without sessions need no NumPy.
    from servers.serving.graph_inference.graph_interface import model_of_session, sessions_of

    for session in sessions_of(plan):
        name, version = model_of_session(session)
        try:
            _check_model(entry, name, version, models)
        except GraphError as error:
            yield session.config.name or session.name, str(error)


def _check_model(
    entry: GraphEntry, name: str, version: int | None, models: Mapping[str, ModelEntry]
) -> None:
    """Check that a model and its version exist.

    Raises:
        GraphError: there is no such model or version.
    """
    from servers.serving.models.version_folders import version_paths

    if name not in models:
        DirectoryModels(entry.directory).check(name, version)
        return
    if models[name].stored is not None:
        return  # which is not looked at
    paths = version_paths(models[name])
    if version is not None and version not in paths:
        there = ", ".join(map(str, paths))
        raise GraphError(f'the model "{name}" has no version {version}; it has {there}')


def _takes_http(entry: GraphEntry, plan: ValidatedGraph) -> bool:
    """Check the graph's streams as tensors, and return whether it takes HTTP requests after all.

    Raises:
        GraphConfigError: see `GraphInterface`.
    """
    # Here: graphs without tensors need no NumPy.
    from servers.serving.graph_inference.graph_interface import GraphInterface, ModelTensors

    return GraphInterface(entry.name, plan, ModelTensors()).takes_http


_NO_FILE: Final = "no such file"


def check_config(path: str, registry: Registry) -> tuple[list[Finding], str]:
    """Return the findings in the file and its graphs, and a summary such as ``2 graphs, 1 model``.

    No model is loaded.
    """
    try:
        config = read_config(path)
    except ConfigError as error:
        return list(error.findings), ""
    # A server warns of an entry that it does not serve, and serves the others.
    findings = [
        replace(each, severity="error") if each.is_unserved else each for each in config.findings
    ]
    findings += _of_python_paths(path)
    shared = registry_with(config.python_path, registry)
    findings += _of_modules(shared, config.python_path)
    models = {entry.name: entry for entry in config.models}
    for entry in config.graphs:
        if entry.refusal:  # reported already
            continue
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
    if entry.stored is not None:
        return [_of_stored(path, entry.name, entry.stored.address)]
    # Here: a config without plain models needs no NumPy.
    from servers.serving.models.version_folders import version_paths

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


def _of_stored(path: str, name: str, address: str) -> Finding:
    """Return the finding about a model in a store, which is not looked at."""
    try:
        read_address(address)
    except ModelError as error:
        return Finding(path, "error", f'the model "{name}": {error}', hint=error.hint)
    return Finding(
        path, "warning", f'the model "{name}": its files are in a store, and are not checked'
    )


def _shown(path: str) -> str:
    """Return a path relative to the current directory if it is below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


Check = Callable[[str, Registry], tuple[list[Finding], str]]


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    registry = make_registry(args)
    results: list[dict[str, Any]] = []
    is_all_well = True
    for path in map(graph_file, args.files):
        findings, content = check_of(path)(path, registry)
        findings.sort(key=_by_place(findings))
        is_valid = all(finding.severity != "error" for finding in findings)
        is_all_well = is_all_well and is_valid
        results.append(
            {
                "file": path,
                "valid": is_valid,
                **({"content": content} if content else {}),
                "findings": [finding.to_json() for finding in findings],
            }
        )
        if args.format == "text":
            _print(path, findings, content, is_valid=is_valid)
    if args.format == "json":
        print(json.dumps(results, indent=2, ensure_ascii=False))
    return 0 if is_all_well else 1


def check_of(path: str) -> Check:
    """Return the check for a file of this name: a config.json, else a graph."""
    return check_config if path.endswith(".json") else check_graph


def _by_place(findings: list[Finding]) -> Callable[[Finding], tuple[int, int]]:
    """Return a sort key: files in the order of the findings, and lines within each file."""
    files = list(dict.fromkeys(finding.file for finding in findings))
    return lambda finding: (files.index(finding.file), finding.line or sys.maxsize)


def _print(path: str, findings: list[Finding], content: str, *, is_valid: bool) -> None:
    """Print findings to standard error, and the summary of a valid file to standard output."""
    hints = set()
    for finding in findings:
        text = finding.to_text()
        if finding.hint in hints:  # print each hint once
            text = text.removesuffix(f"\nhint: {finding.hint}")
        hints.add(finding.hint)
        print(text, file=sys.stderr, flush=True)
    if is_valid:
        print(f"{example_name(path)}: ok ({content})", flush=True)
