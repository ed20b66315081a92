"""Operations of the OpenAPI document, as tasks and servers describe them.

Names of schemas, parameters and headers are common to the whole document: `ref` refers to a schema
of the task, or to one of the server (``OpenAIError``, ``AnthropicError``, ``OllamaError``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

from calculators.kit.requests.schema import Schema, const, nullable, number, one_of, record, string
from calculators.kit.tasks.endpoint import PREFIXES, ErrorForm, TaskEndpoint

if TYPE_CHECKING:
    from calculators.kit.requests.members import Members

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"
BINARY: Final = "application/octet-stream"
FORM: Final = "multipart/form-data"

#: The longest time-out of a request in seconds; timers accept no longer ones.
MAX_TIMEOUT: Final = 1e6
#: The member of a request's body that the server reads for every endpoint.
TIMEOUT: Final = number(
    "Seconds that the request may take.", exclusiveMinimum=0, maximum=MAX_TIMEOUT
)


def with_timeout(members: Members, *, any_of: Sequence[str] = ()) -> Schema:
    """Return the `body_schema` of these members, and of the one that the front reads."""
    # Here: a server makes its document when it is asked for.
    from calculators.kit.requests.members import body_schema

    body = body_schema(members, any_of=any_of)
    body["properties"]["timeout"] = nullable(TIMEOUT)
    return body


#: A part of the document that stands elsewhere in it.
Reference = TypedDict("Reference", {"$ref": str})


class MediaExample(TypedDict):
    """A body as an example."""

    summary: str
    value: object


class MediaType(TypedDict):
    """OpenAPI's media type object: a body's schema, and examples by their names."""

    schema: Schema
    examples: NotRequired[dict[str, MediaExample]]


class OperationAnswer(TypedDict):
    """OpenAPI's response object; ``content``: by media type."""

    description: str
    headers: Mapping[str, Reference]
    content: NotRequired[Mapping[str, MediaType]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one or several paths.

    Attributes:
        paths: its paths; the key is the end of the operation's id at that path.
        id: the operation's id, from which generated clients name functions.
        form: the form of its errors.
        runs_graph: a graph answers, so every status of a graph's error is possible.
        errors: further statuses of errors, besides the ones that every request can get.
        parameters: names of the document's parameters: headers such as ``Timeout``, and ``Model``
            for the query of an endpoint with GET; parameters of paths are added.
        own_parameters: OpenAPI's parameter objects of this operation alone.
        body: OpenAPI's media type objects by media type; None: no body.
        answers: successful answers by status.
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
    own_parameters: tuple[Mapping[str, Any], ...] = ()
    body: Mapping[str, MediaType] | None = None
    body_is_required: bool = True
    answers: Mapping[int, OperationAnswer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskDescription:
    """A task's part of the OpenAPI document.

    Attributes:
        operations: the operations of its endpoints.
        schemas: schemas to which they refer, by name; names are unique in the document.
    """

    operations: tuple[Operation, ...]
    schemas: Mapping[str, Schema]


def posted(
    paths: Mapping[str, str],
    *,
    id: str,
    summary: str,
    body: Mapping[str, MediaType],
    answers: Mapping[int, OperationAnswer],
    tag: str = "OpenAI",
    about: str = "",
    form: ErrorForm = ErrorForm.OPENAI,
) -> Operation:
    """Return the operation of an endpoint that takes a body.

    A graph answers it; see `Operation`.
    """
    return Operation(
        method="post",
        paths=paths,
        id=id,
        tag=tag,
        summary=summary,
        about=about,
        form=form,
        runs_graph=True,
        parameters=("Timeout",),
        body=body,
        answers=answers,
    )


def prefixed(rest: str, prefixes: Iterable[str] = PREFIXES) -> dict[str, str]:
    """Return the paths of an endpoint under all prefixes, for `Operation.paths`."""
    return {
        "" if prefix == PREFIXES[0] else prefix.replace("/", "").upper(): prefix + rest
        for prefix in prefixes
    }


def paths_of(endpoint: TaskEndpoint) -> dict[str, str]:
    """Return the paths of an endpoint with its aliases, for `Operation.paths`."""
    return {
        **prefixed(endpoint.path, endpoint.prefixes),
        **{_camel(alias): alias for alias in endpoint.aliases},
    }


def _camel(path: str) -> str:
    return "At" + "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", path))


def answer(
    about: str,
    content: Mapping[str, MediaType] | None = None,
    headers: Mapping[str, Reference] | None = None,
) -> OperationAnswer:
    """Return a successful answer. ``content``: OpenAPI's media type objects by media type."""
    made: OperationAnswer = {"description": about, "headers": {**REQUEST_ID, **(headers or {})}}
    if content is not None:
        made["content"] = content
    return made


def header_ref(name: str) -> Reference:
    """Refer to a header of an answer by its name in the document."""
    return {"$ref": f"#/components/headers/{name}"}


#: The header of every answer, except answers to malformed HTTP.
REQUEST_ID: Final = {"X-Request-Id": header_ref("XRequestId")}


def media(schema: Schema, **examples: Any) -> MediaType:
    """Return OpenAPI's media type object. ``examples``: values by name, ``_`` for spaces."""
    made: MediaType = {"schema": schema}
    if examples:
        made["examples"] = {
            name: {"summary": name.replace("_", " "), "value": value}
            for name, value in examples.items()
        }
    return made


def lines(about: str, schema: Schema) -> MediaType:
    """Describe lines of JSON by the schema of one line."""
    return {"schema": string(about, contentMediaType=JSON, contentSchema=schema)}


def events(about: str, schema: Schema | None = None, *, last: str = "") -> MediaType:
    """Describe server-sent events by the schema of one event, as usual before OpenAPI 3.2.

    Args:
        schema: the schema of the JSON in an event's data; None: any text.
        last: the data of the last event, if that is not JSON.
    """
    data = string()
    if schema is not None:
        data = string(contentMediaType=JSON, contentSchema=schema)
    if last:
        data = one_of(const(last), data)
    return {"schema": record({"event": string(), "data": data}, about, required=("data",))}
