"""Operations as OpenAPI has them: with the parameters of their paths and all their errors."""

from __future__ import annotations

from typing import Any, Final

from calculators.tasks.operation import Operation
from servers.fronts.http.errors import STATUS
from servers.fronts.openapi.errors import error_ref
from servers.fronts.openapi.parameters import parameter_refs

#: Any request may get these: what is no HTTP, a Host that is not allowed, headers that come too
#: late, an Expect that cannot be met, a fault of the server, too many connections, another version
#: of HTTP.
ALWAYS: Final = frozenset({400, 403, 408, 417, 500, 503, 505})
#: A body may also be too large, or of another type.
OF_A_BODY: Final = frozenset({413, 415})
#: What a graph may answer with; the authors of graphs choose freely among these.
OF_A_GRAPH: Final = frozenset(STATUS.values())


def operation_object(operation: Operation, suffix: str, path: str) -> dict[str, Any]:
    """The operation at one of its paths; ``suffix``: of its id there."""
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
        **{str(status): dict(answer) for status, answer in sorted(operation.answers.items())},
        **{str(status): error_ref(operation.form, status) for status in all_errors(operation)},
    }
    return made


def all_errors(operation: Operation) -> list[int]:
    """Statuses of errors, with those of every request."""
    body = OF_A_BODY if operation.body is not None else frozenset()
    graph = OF_A_GRAPH if operation.runs_graph else frozenset()
    return sorted(ALWAYS | body | graph | operation.errors)
