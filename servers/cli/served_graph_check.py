"""The check of a valid graph's resources, side packets and session models for serving.

Nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from calculators.openvino.directory_models import DirectoryModels
from graph_runtime import GraphError, Registry, ResourceSettings
from servers.cli.graph_check import GraphCheck
from servers.config import GraphEntry, ModelEntry
from servers.contract.finding import Finding
from servers.serving.graph_inference import GraphInterface, SideParameters
from servers.serving.graph_inference.model_tensors import (
    ModelTensors,
    model_of_session,
    sessions_of,
)
from servers.serving.graph_source import (
    RESPONSE_NAME,
    RESPONSE_TAGS,
    response_stream_of,
    serving_problems,
)
from servers.serving.loaded_graph import check_side_packets
from servers.serving.models.version_folders import version_paths


def check_served_graph(
    path: str, entry: GraphEntry, registry: Registry, models: Mapping[str, ModelEntry]
) -> list[Finding]:
    """Return the findings in a graph's file. ``path`` is written in findings; ``models`` are the
    models of the config."""
    check = GraphCheck(path, registry)
    if check.plan is not None:
        try:
            _check_serving(check, entry, models)
        except Exception as error:
            check.add_failure(error)
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
            interface = GraphInterface(entry.name, plan, ModelTensors())
            check_side_packets(SideParameters(plan, side_packets), interface)
            if interface.takes_http and not response_stream_of(plan):
                check.add(
                    "warning",
                    "the graph takes HTTP requests and answers none: it has no output stream for "
                    "the answer",
                    hint=f'add output_stream: "{RESPONSE_TAGS[0]}:{RESPONSE_NAME}", which a node '
                    f"makes",
                )
        except GraphError as error:
            check.add("error", str(error))
    for session in sessions_of(plan):
        name, version = model_of_session(session)
        try:
            _check_model(entry, name, version, models)
        except GraphError as error:
            check.add("error", str(error), session.config.name or session.name)


def _check_model(
    entry: GraphEntry, name: str, version: int | None, models: Mapping[str, ModelEntry]
) -> None:
    """Check that a model and its version exist.

    Raises:
        GraphError: there is no such model or version.
    """
    if name not in models:
        DirectoryModels(entry.directory).check(name, version)
        return
    paths = version_paths(models[name])
    if version is not None and version not in paths:
        there = ", ".join(map(str, paths))
        raise GraphError(f'the model "{name}" has no version {version}; it has {there}')
