"""The check of a valid graph's resources, side packets and session models for serving.

Nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graph_runtime import GraphError, Registry, ResourceSettings, ValidatedGraph
from graph_runtime.interrupts import contained, raise_interrupt
from servers.cli.graph_check import GraphCheck
from servers.config import GraphEntry, ModelEntry
from servers.contract.finding import Finding
from servers.serving.graph_source import (
    RESPONSE_NAME,
    RESPONSE_TAGS,
    response_stream_of,
    serving_problems,
)
from servers.serving.http_streams import is_only_http
from servers.serving.side_needs import SideNeeds

#: The tag of the port of nodes that name a model.
_SESSION: Final = "SESSION"


def check_served_graph(
    path: str, entry: GraphEntry, registry: Registry, models: Mapping[str, ModelEntry]
) -> list[Finding]:
    """Return the findings in a graph's file. ``path`` is written in findings; ``models`` are the
    models of the config."""
    check = GraphCheck(path, registry)
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
    if any(_SESSION in node.output_side_packets.tags() for node in plan.nodes):
        from servers.cli.session_check import session_errors

        for node, reason in session_errors(plan, entry, models):
            check.add("error", reason, node)


def _takes_http(entry: GraphEntry, plan: ValidatedGraph) -> bool:
    """Check the graph's streams as tensors, and return whether it takes HTTP requests after all.

    Raises:
        GraphConfigError: see `GraphInterface`.
    """
    # Here: graphs without tensors need no NumPy.
    from servers.serving.graph_inference import GraphInterface
    from servers.serving.graph_inference.model_tensors import ModelTensors

    return GraphInterface(entry.name, plan, ModelTensors()).takes_http
