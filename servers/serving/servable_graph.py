"""What a graph that can run needs besides, so that a server can answer with it."""

from __future__ import annotations

from graph_runtime import GraphConfigError, ValidatedGraph
from graph_runtime.plan.link_errors import no_output_producer


def serving_problems(plan: ValidatedGraph) -> list[str]:
    """Why no request could ever be answered; empty where one could."""
    if not plan.nodes:
        return [
            'the graph has no nodes, so there is nothing to serve: add node { calculator: "..." }'
        ]
    return [
        no_output_producer(name, plan.producers)
        for name in plan.outputs.names
        if name not in plan.producers
    ]


def check_servable(plan: ValidatedGraph) -> None:
    """See that requests can be answered.

    Raises:
        GraphConfigError: none could be, with all reasons.
    """
    if problems := serving_problems(plan):
        raise GraphConfigError("\n".join(problems))
