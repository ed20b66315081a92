"""One operation of the document: a method of a path, what it takes, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from calculators.requests.schema import Schema, const, one_of, record, string
from servers.fronts.http.routes import ErrorForm
from servers.fronts.openapi.errors import error_ref
from servers.fronts.openapi.parameters import REQUEST_ID, parameter_refs

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
BINARY: Final = "application/octet-stream"

#: Any request may get these: what is no HTTP, a Host that is not allowed, headers that come too
#: late, an Expect that cannot be met, a fault of the server, too many connections, another version
#: of HTTP.
ALWAYS: Final = frozenset({400, 403, 408, 417, 500, 503, 505})
#: A body may also be too large, or of another type.
OF_A_BODY: Final = frozenset({413, 415})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the document says of one method.

    Attributes:
        paths: where it is answered; the key is what the operation's id ends with there.
        id: of the operation; names of functions in generated clients are made of it.
        form: in which errors are told.
        errors: statuses besides those of every request.
        parameters: names of `parameters`; those of the path come by themselves.
        body: the media types that it takes, each with what OpenAPI has of one; None: no body.
        answers: what is no error, by status.
    """

    method: str
    paths: Mapping[str, str]
    id: str
    tag: str
    summary: str
    about: str = ""
    form: ErrorForm
    errors: frozenset[int] = frozenset()
    parameters: tuple[str, ...] = ()
    body: Mapping[str, Mapping[str, Any]] | None = None
    body_is_required: bool = True
    answers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def described(self, suffix: str, path: str) -> dict[str, Any]:
        """The operation at one of its paths."""
        made: dict[str, Any] = {
            "operationId": self.id + suffix,
            "tags": [self.tag],
            "summary": self.summary,
        }
        if self.about:
            made["description"] = self.about
        made["parameters"] = parameter_refs(path, self.parameters)
        if self.body is not None:
            content = {media: dict(said) for media, said in self.body.items()}
            made["requestBody"] = {"required": self.body_is_required, "content": content}
        made["responses"] = {
            **{str(status): dict(answer) for status, answer in sorted(self.answers.items())},
            **{str(status): error_ref(self.form, status) for status in self.all_errors()},
        }
        return made

    def all_errors(self) -> list[int]:
        """Statuses of errors, with those of every request."""
        body = OF_A_BODY if self.body is not None else frozenset()
        return sorted(ALWAYS | body | self.errors)


def answer(
    about: str,
    content: Mapping[str, Mapping[str, Any]] | None = None,
    headers: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """An answer that is no error. ``content``: by media type."""
    made: dict[str, Any] = {"description": about, "headers": {**REQUEST_ID, **(headers or {})}}
    if content is not None:
        made["content"] = {media: dict(said) for media, said in content.items()}
    return made


def media(schema: Schema, **examples: Any) -> dict[str, Any]:
    """What OpenAPI says of a media type. ``examples``: values by name, in words of their own."""
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
