"""Errors in each of the three forms that clients expect."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    nullable,
    one_of,
    record,
    ref,
    string,
)
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import REQUEST_ID, header_ref
from servers.fronts.http.settings import HttpSettings

_NAMES: Final = {
    ErrorForm.OPENAI: "OpenAIError",
    ErrorForm.KSERVE: "KServeError",
    ErrorForm.ANTHROPIC: "AnthropicError",
}

ERROR_SCHEMAS: Final[dict[str, Schema]] = {
    "OpenAIError": record(
        {
            "error": record(
                {
                    "message": string("The error, and what would be right."),
                    "type": string("The class of the error, such as `invalid_request_error`."),
                    "param": nullable(string("The member at fault, as a path.")),
                    "code": nullable(string("A code for programs, such as `model_not_found`.")),
                },
                required=("message", "type", "param", "code"),
            )
        },
        required=("error",),
    ),
    "KServeError": record(
        {
            "error": string("The error, and what would be right."),
            "reloaded": array(string(), "For a reload: the names that took effect."),
            "failed": anything("For a reload: the reasons of failures by name."),
        },
        required=("error",),
    ),
    "AnthropicError": record(
        {
            "type": const("error"),
            "error": record(
                {
                    "type": string("The class of the error, such as `invalid_request_error`."),
                    "message": string("The error, and what would be right."),
                    "details": anything("`error_code`, if it says more than the type."),
                },
                required=("type", "message"),
            ),
            "request_id": string("The id in the header."),
        },
        required=("type", "error", "request_id"),
    ),
}

_ABOUT: Final = {
    400: "The request is invalid; the text names the place and what would be right.",
    401: "The request has no valid key, or the graph requires another one.",
    403: "The Host or the web page is not allowed, or the graph refuses.",
    404: "There is no such model, version or path.",
    405: "The path does not have this method.",
    408: "The request did not arrive in time.",
    409: "The graph reports that something exists already; or the state of a file or batch does"
    " not allow this.",
    412: "The model lacks what the request needs; for a reload: no change of the configuration "
    "could be loaded, and nothing that is served changes.",
    415: "The type of the body is not supported.",
    417: "The only supported Expect is 100-continue.",
    426: "The path is a WebSocket's: the request must ask for one.",
    422: "The configuration was loaded in part; see `reloaded` and `failed`.",
    429: "Too many requests are waiting; try again later.",
    500: "A fault of the server or of the graph.",
    501: "The graph cannot do this.",
    503: "Not available now: loading, draining, restarting, overloaded, or not loaded.",
    504: "The time limit of the request was exceeded.",
    505: "Only HTTP/1.0 and HTTP/1.1 are supported.",
    507: "The disk for files and batches is full.",
}
#: Errors before there is a path: invalid HTTP, headers that arrive too late, too many connections.
_OF_A_CONNECTION: Final = frozenset({400, 408, 503})
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": header_ref("Authenticate")},
    405: {"Allow": header_ref("Allow")},
    429: {"Retry-After": header_ref("RetryAfter")},
    503: {"Retry-After": header_ref("RetryAfter")},
}


def error_ref(form: ErrorForm, status: int) -> dict[str, Any]:
    """Refer to the answer with an error status by its name in the document."""
    return {"$ref": f"#/components/responses/{_NAMES[form]}{status}"}


def error_answers(
    settings: HttpSettings, reported: Collection[tuple[ErrorForm, int]]
) -> dict[str, Any]:
    """Return the answers for errors that operations can give, by their names in the document."""
    about = {
        **_ABOUT,
        413: f"The body is larger than {settings.max_body_bytes} bytes; with tensors, than"
        f" {settings.max_tensor_body_bytes}; a form, than {settings.max_upload_bytes}.",
    }
    return {
        f"{name}{status}": {
            "description": text,
            "headers": {**REQUEST_ID, **_HEADERS.get(status, {})},
            "content": {"application/json": {"schema": _schema(name, status)}},
        }
        for form, name in _NAMES.items()
        for status, text in about.items()
        if (form, status) in reported
    }


def _schema(name: str, status: int) -> Schema:
    if status not in _OF_A_CONNECTION or name == "OpenAIError":
        return ref(name)
    return one_of(ref(name), ref("OpenAIError"))
