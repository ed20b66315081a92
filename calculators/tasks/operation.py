"""Operations of the OpenAPI document, as tasks and servers describe them.

The names of schemas, parameters and headers are those of the whole document: `ref` finds a schema
of the task, or one that servers have for all (``OpenAIError``, ``AnthropicError``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from calculators.requests.schema import Schema, const, number, one_of, record, string
from calculators.tasks.task import PREFIXES, ErrorForm

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
BINARY: Final = "application/octet-stream"

#: Longer time-outs of requests are as good as none, and a timer takes no more; in seconds.
MAX_TIMEOUT: Final = 1e6
#: The member of a request's body that the server reads for every endpoint.
TIMEOUT: Final = number(
    "Seconds that the request may take.", exclusiveMinimum=0, maximum=MAX_TIMEOUT
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one or several paths.

    Attributes:
        paths: where it is answered; the key is what the operation's id ends with there.
        id: of the operation; names of functions in generated clients are made of it.
        form: of errors.
        runs_graph: a graph answers, so that every status of a graph's error can come.
        errors: statuses besides those, and besides those of every request.
        parameters: names of the document's header parameters; those of the path come by themselves.
        body: the media types that it takes, each with OpenAPI's media type object; None: no body.
        answers: by status, of those that are no errors.
    """

    method: str
    paths: Mapping[str, str]
    id: str
    tag: str
    summary: str
    about: str = ""
    form: ErrorForm
    runs_graph: bool = False
    errors: frozenset[int] = frozenset()
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Mapping[str, Any]] | None = None
    body_is_required: bool = True
    answers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """A task's part of the OpenAPI document.

    Attributes:
        operations: of its endpoints.
        schemas: that they refer to, by name; no other task and no server may have the name.
    """

    operations: tuple[Operation, ...]
    schemas: Mapping[str, Schema]


def prefixed(rest: str) -> dict[str, str]:
    """The paths of an endpoint under all prefixes; operations under the first have plain ids."""
    return {
        "" if prefix == PREFIXES[0] else prefix.replace("/", "").upper(): prefix + rest
        for prefix in PREFIXES
    }


def answer(
    about: str,
    content: Mapping[str, Mapping[str, Any]] | None = None,
    headers: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """An answer that is no error. ``content``: by media type."""
    made: dict[str, Any] = {"description": about, "headers": {**REQUEST_ID, **(headers or {})}}
    if content is not None:
        made["content"] = {media: dict(described) for media, described in content.items()}
    return made


def header_ref(name: str) -> dict[str, Any]:
    """A header of an answer by its name in the document."""
    return {"$ref": f"#/components/headers/{name}"}


#: Of every answer but those to malformed HTTP.
REQUEST_ID: Final = {"X-Request-Id": header_ref("XRequestId")}


def media(schema: Schema, **examples: Any) -> dict[str, Any]:
    """OpenAPI's media type object. ``examples``: values by name, in words of their own."""
    made: dict[str, Any] = {"schema": schema}
    if examples:
        made["examples"] = {
            name: {"summary": name.replace("_", " "), "value": value}
            for name, value in examples.items()
        }
    return made


def events(about: str, schema: Schema | None = None, *, last: str = "") -> dict[str, Any]:
    """Server-sent events; as in all documents before OpenAPI 3.2, the schema is of one event.

    Args:
        schema: of the JSON in its data; None: any text.
        last: the data of the last event, where that is no JSON.
    """
    data = string()
    if schema is not None:
        data = string(contentMediaType=JSON, contentSchema=schema)
    if last:
        data = one_of(const(last), data)
    return {"schema": record({"event": string(), "data": data}, about, required=("data",))}
