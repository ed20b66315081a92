"""Any other path under the prefixes: what answers there is up to the graph."""

from __future__ import annotations

from typing import Any, Final

from calculators.requests.schema import Schema, nullable, record, ref, string
from calculators.tasks import ErrorForm
from calculators.tasks.operation import EVENTS, JSON, TIMEOUT, Operation, answer, events, media

GRAPH_SCHEMAS: Final[dict[str, Schema]] = {
    "GraphRequest": record(
        {
            "model": string("The name of the graph.", minLength=1),
            "timeout": nullable(TIMEOUT),
        },
        "What else is in it is up to the graph.",
        required=("model",),
    ),
    "GraphAnswer": {"description": "What the graph gives; mostly JSON."},
}


def graph_operations() -> list[Operation]:
    """The rest of the paths."""
    anything: dict[str, Any] = media(ref("GraphAnswer"))
    return [
        Operation(
            method="post",
            paths={"": "/v3/{path}", "V1": "/v1/{path}"},
            id="callGraph",
            tag="Graphs",
            summary="Call a graph of your own",
            about="Graphs get every request under `/v3/` and `/v1/` that names them as its model.",
            form=ErrorForm.OPENAI,
            runs_graph=True,
            errors=frozenset({405}),
            parameters=("Timeout",),
            body={JSON: media(ref("GraphRequest"))},
            answers={
                200: answer(
                    "What the graph answers.",
                    {JSON: anything, EVENTS: events("What the graph sends.")},
                )
            },
        )
    ]
