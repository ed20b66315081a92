"""Operations of graphs at paths of their own."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests.schema import Schema, nullable, record, ref, string
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import EVENTS, JSON, TIMEOUT, Operation, answer, events, media

GRAPH_SCHEMAS: Final[dict[str, Schema]] = {
    "GraphRequest": record(
        {
            "model": string("The name of the graph.", minLength=1),
            "timeout": nullable(TIMEOUT),
        },
        "The graph defines the other members.",
        required=("model",),
    ),
    "GraphAnswer": {"description": "The answer of the graph; mostly JSON."},
}


def graph_operations() -> list[Operation]:
    """Return the operation for all other paths under the prefixes."""
    anything: dict[str, Any] = media(ref("GraphAnswer"))
    return [
        Operation(
            method="post",
            paths={"": "/v3/{path}", "V1": "/v1/{path}"},
            id="callGraph",
            tag="Graphs",
            summary="Call a graph of your own",
            about="A graph gets every request under `/v3/` and `/v1/` whose model is its name.",
            form=ErrorForm.OPENAI,
            runs_graph=True,
            errors=frozenset({405}),
            parameters=("Timeout",),
            body={JSON: media(ref("GraphRequest"))},
            answers={
                200: answer(
                    "The answer of the graph.",
                    {JSON: anything, EVENTS: events("An event of the graph.")},
                )
            },
        )
    ]
