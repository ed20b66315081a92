"""Operations about what runs, which the page uses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.requests.schema import Schema, anything, one_of, ref
from calculators.tasks import ErrorForm
from calculators.tasks.operation import EVENTS as EVENT_STREAM
from calculators.tasks.operation import JSON, Operation, answer, events, media
from servers.page.events import ANSWERS, EVENTS

_TAG: Final = "Live"


def page_schemas() -> dict[str, Schema]:
    """Return the schemas of events and answers by their names."""
    _, found = msgspec.json.schema_components(
        (*EVENTS.values(), *ANSWERS), ref_template="#/components/schemas/{name}"
    )
    return found


def page_operations() -> list[Operation]:
    """Return the operations of the page's data."""
    kinds = ", ".join(f"`{name}`: {kind.__name__}" for name, kind in EVENTS.items())
    return [
        Operation(
            method="get",
            paths={"": "/v1/live"},
            id="watch",
            tag=_TAG,
            summary="What runs now, as server-sent events",
            about=f"Events and the schemas of their data: {kinds}. Counters are totals, and only"
            " what has changed is sent. A client that reads slowly gets fewer events. 8 streams may"
            " be open at a time.",
            form=ErrorForm.OPENAI,
            parameters=("WatchedGraphs", "Hz", "Focus"),
            answers={200: answer("Events until the client leaves.", {EVENT_STREAM: _events()})},
        ),
        Operation(
            method="get",
            paths={"": "/v1/graphs/{model}"},
            id="viewGraph",
            tag=_TAG,
            summary="The description and the drawing of a graph, loaded or not",
            form=ErrorForm.OPENAI,
            errors=frozenset({404, 412}),
            parameters=("Expand",),
            answers={200: answer("The graph.", {JSON: media(ref("GraphView"))})},
        ),
        Operation(
            method="get",
            paths={"": "/v1/graphs/{model}/nodes/{node}"},
            id="viewNode",
            tag=_TAG,
            summary="The state of a node: options, what it waits for, last packets, failures",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The node.", {JSON: media(ref("NodeView"))})},
        ),
        Operation(
            method="post",
            paths={"": "/v1/graphs/{model}/follow"},
            id="follow",
            tag=_TAG,
            summary="Record the calls of coming requests, for their timelines",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            body={JSON: media(ref("FollowRequest"))},
            answers={202: answer("They will be followed.", {JSON: media(ref("Following"))})},
        ),
        Operation(
            method="get",
            paths={"": "/v1/requests/{request_id}"},
            id="viewRequest",
            tag=_TAG,
            summary="The timeline of a followed request",
            about="With `format=perfetto` it is a file for ui.perfetto.dev. Timelines are kept for"
            " 10 minutes, the last 16.",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            parameters=("TimelineFormat",),
            answers={200: answer("The timeline.", {JSON: media(_timeline())})},
        ),
    ]


def _events() -> Any:
    data = one_of(*(ref(kind.__name__) for kind in EVENTS.values()))
    return events("An event has an `event:` line with its name.", data)


def _timeline() -> Any:
    return one_of(ref("Timeline"), anything("The Trace Event Format, for Perfetto."))
