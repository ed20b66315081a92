"""Operations about what runs, which the page uses."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.requests.schema import Schema, anything, one_of, ref, string
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import EVENTS as EVENT_STREAM
from calculators.kit.tasks.operation import (
    JSON,
    REQUEST_ID,
    Operation,
    answer,
    events,
    header_ref,
    media,
)
from servers.page.events import ANSWERS, EVENTS

_TAG: Final = "Live"
_EDITING: Final = "Editing"


def page_schemas() -> dict[str, Schema]:
    """Return the schemas of events and answers by their names."""
    _, found = msgspec.json.schema_components(
        (*EVENTS.values(), *ANSWERS), ref_template="#/components/schemas/{name}"
    )
    listed: dict[str, Schema] = _with_items(found)
    return listed


def _with_items(schema: Any) -> Any:
    """Return the schema with tuples whose ``items`` is a schema: generators of clients need one."""
    if isinstance(schema, list):
        return [_with_items(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _with_items(value) for name, value in schema.items()}
    if made.get("items") is False:
        first, *others = made["prefixItems"]
        different = [each for each in others if each != first]
        made["items"] = one_of(first, *different) if different else first
    return made


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
            parameters=("Expand", "Direction"),
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
        *_editing_operations(),
    ]


def page_file_operations() -> list[Operation]:
    """Return the operations of the page's files."""
    files = {
        "": ("/", "text/html", "The page"),
        "File": ("/page/{file}", "application/octet-stream", "A file of the page"),
    }
    return [
        Operation(
            method="get",
            paths={suffix: path},
            id="getPage",
            tag=_TAG,
            summary=summary,
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            parameters=("IfNoneMatch",),
            answers={
                200: answer("The file.", {kind: media(string())}, {"ETag": header_ref("ETag")}),
                304: {
                    "description": "The client has the current file.",
                    "headers": {**REQUEST_ID, "ETag": header_ref("ETag")},
                },
            },
        )
        for suffix, (path, kind, summary) in files.items()
    ]


def _editing_operations() -> list[Operation]:
    """Return the operations about calculators, and about graphs that are not served."""
    limits = (
        " Child processes do it; `--page_edit` says whether it is allowed. 503: too many at a time."
    )
    return [
        Operation(
            method="get",
            paths={"": "/v1/calculators"},
            id="listCalculators",
            tag=_EDITING,
            summary="The calculators and subgraphs that nodes may name",
            form=ErrorForm.OPENAI,
            answers={200: answer("The names.", {JSON: media(ref("Calculators"))})},
        ),
        Operation(
            method="get",
            paths={"": "/v1/calculators/{calculator}"},
            id="viewCalculator",
            tag=_EDITING,
            summary="A calculator: its ports, its options, and a node to paste",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The calculator.", {JSON: media(ref("CalculatorView"))})},
        ),
        Operation(
            method="post",
            paths={"": "/v1/scratch/check"},
            id="checkDraft",
            tag=_EDITING,
            summary="Check a graph that is not served",
            about=f"Files that its options name are not opened.{limits}",
            form=ErrorForm.OPENAI,
            body={JSON: media(ref("DraftCheck"))},
            answers={200: answer("The findings.", {JSON: media(ref("CheckedDraft"))})},
        ),
        Operation(
            method="post",
            paths={"": "/v1/scratch/run"},
            id="runDraft",
            tag=_EDITING,
            summary="Run a graph that is not served, with given packets",
            about=f"A run has 10 seconds and 1 GiB.{limits}",
            form=ErrorForm.OPENAI,
            body={JSON: media(ref("DraftRun"))},
            answers={200: answer("What came out.", {JSON: media(ref("DraftResult"))})},
        ),
    ]


def _events() -> Any:
    data = one_of(*(ref(kind.__name__) for kind in EVENTS.values()))
    return events("An event has an `event:` line with its name.", data)


def _timeline() -> Any:
    return one_of(ref("Timeline"), anything("The Trace Event Format, for Perfetto."))
