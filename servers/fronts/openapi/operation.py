"""OpenAPI's operation objects, with the parameters of their paths and all their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests.schema import one_of
from calculators.kit.tasks.operation import Operation, header_ref
from servers.fronts.http.errors import STATUS
from servers.fronts.openapi.errors import error_ref
from servers.fronts.openapi.parameters import parameter_refs

#: Statuses that any request may get: invalid HTTP, a Host that is not allowed, headers that arrive
#: too late, an unsupported Expect, an internal error, too many connections, another HTTP version.
ALWAYS: Final = frozenset({400, 403, 408, 417, 500, 503, 505})
#: Statuses for a body that is too large or of another type.
OF_A_BODY: Final = frozenset({413, 415})
#: Statuses that the author of a graph can choose.
OF_A_GRAPH: Final = frozenset(STATUS.values())


def operation_object(operation: Operation, suffix: str, path: str) -> dict[str, Any]:
    """Return the operation at one of its paths; ``suffix``: the end of its id there."""
    made: dict[str, Any] = {
        "operationId": operation.id + suffix,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.about:
        made["description"] = operation.about
    made["parameters"] = parameter_refs(path, operation.parameters)
    if operation.body is not None:
        content = {media: dict(described) for media, described in operation.body.items()}
        made["requestBody"] = {"required": operation.body_is_required, "content": content}
    made["responses"] = {
        **{
            str(status): _with_warning(answer) if operation.runs_graph else dict(answer)
            for status, answer in sorted(operation.answers.items())
        },
        **{str(status): error_ref(operation.form, status) for status in all_errors(operation)},
    }
    return made


def joined(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return one operation for two that tasks have at one path; the model decides between them."""
    made = {**other, **first, "responses": {**other["responses"], **first["responses"]}}
    if "requestBody" in other and "requestBody" in first:
        content = _joined_content(first["requestBody"]["content"], other["requestBody"]["content"])
        made["requestBody"] = {**first["requestBody"], "content": content}
    for status, answer in other["responses"].items():
        if "content" in answer and "content" in first["responses"].get(status, {}):
            content = _joined_content(first["responses"][status]["content"], answer["content"])
            made["responses"][status] = {**first["responses"][status], "content": content}
    return made


def _joined_content(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    made = {**other, **first}
    for media in first.keys() & other.keys():
        forms = [
            form
            for each in (first[media]["schema"], other[media]["schema"])
            for form in each.get("anyOf", [each])
        ]
        different = [form for place, form in enumerate(forms) if form not in forms[:place]]
        schema = different[0] if len(different) == 1 else one_of(*different)
        made[media] = {**other[media], **first[media], "schema": schema}
        examples = {**other[media].get("examples", {}), **first[media].get("examples", {})}
        if examples:
            made[media]["examples"] = examples
    return made


def _with_warning(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {**answer, "headers": {**answer.get("headers", {}), "Warning": header_ref("Warning")}}


def all_errors(operation: Operation) -> list[int]:
    """Return the statuses of all errors of an operation, in order."""
    body = OF_A_BODY if operation.body is not None else frozenset()
    graph = OF_A_GRAPH if operation.runs_graph else frozenset()
    return sorted(ALWAYS | body | graph | operation.errors)
