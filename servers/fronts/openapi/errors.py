"""What errors look like, in each of the three forms that clients know."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from calculators.requests.schema import (
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
from calculators.tasks import ErrorForm
from calculators.tasks.operation import REQUEST_ID, header_ref
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
                    "message": string("What is wrong, and what would be right."),
                    "type": string("The class of the error, such as `invalid_request_error`."),
                    "param": nullable(string("The member at fault, as a path.")),
                    "code": nullable(string("A word for programs, such as `model_not_found`.")),
                },
                required=("message", "type", "param", "code"),
            )
        },
        required=("error",),
    ),
    "KServeError": record(
        {
            "error": string("What is wrong, and what would be right."),
            "reloaded": array(string(), "Of a reload: what was taken all the same."),
            "failed": anything("Of a reload: what could not be loaded by name, and why."),
        },
        required=("error",),
    ),
    "AnthropicError": record(
        {
            "type": const("error"),
            "error": record(
                {
                    "type": string("The class of the error, such as `invalid_request_error`."),
                    "message": string("What is wrong, and what would be right."),
                    "details": anything("`error_code` says more than the type, where that can be."),
                },
                required=("type", "message"),
            ),
            "request_id": string("The same as in the header."),
        },
        required=("type", "error", "request_id"),
    ),
}

_ABOUT: Final = {
    400: "The request is wrong; the text names the place and what would be right.",
    401: "The request has no valid key, or the graph wants another one.",
    403: "The Host or the web page is not allowed here, or the graph refuses.",
    404: "There is no such model, version or path.",
    405: "The path has other methods.",
    408: "The request did not arrive in time.",
    409: "The graph says that it exists already.",
    412: "Nothing of what the configuration says now could be taken; what was served goes on.",
    415: "The body is of another type.",
    417: "The only Expect that is met is 100-continue.",
    422: "The configuration was taken in part: `reloaded` and `failed` say what.",
    429: "Too many requests are waiting; try again later.",
    500: "A fault of the server or of the graph.",
    501: "The graph cannot do this.",
    503: "Not now: loading, draining, restarting, or not loaded.",
    504: "It took too long.",
    505: "Only HTTP/1.0 and HTTP/1.1 are spoken.",
}
#: What is told before there is a path: no HTTP, headers that come too late, too many connections.
_OF_A_CONNECTION: Final = frozenset({400, 408, 503})
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"WWW-Authenticate": header_ref("Authenticate")},
    405: {"Allow": header_ref("Allow")},
    429: {"Retry-After": header_ref("RetryAfter")},
    503: {"Retry-After": header_ref("RetryAfter")},
}


def error_ref(form: ErrorForm, status: int) -> dict[str, Any]:
    """An error of a status, by its name in the document."""
    return {"$ref": f"#/components/responses/{_NAMES[form]}{status}"}


def error_answers(
    settings: HttpSettings, told: Collection[tuple[ErrorForm, int]]
) -> dict[str, Any]:
    """The errors that are told, by their names in the document."""
    about = {
        **_ABOUT,
        413: f"The body is larger than {settings.max_body_bytes} bytes; with tensors, than"
        f" {settings.max_tensor_body_bytes}.",
    }
    return {
        f"{name}{status}": {
            "description": text,
            "headers": {**REQUEST_ID, **_HEADERS.get(status, {})},
            "content": {"application/json": {"schema": _schema(name, status)}},
        }
        for form, name in _NAMES.items()
        for status, text in about.items()
        if (form, status) in told
    }


def _schema(name: str, status: int) -> Schema:
    if status not in _OF_A_CONNECTION or name == "OpenAIError":
        return ref(name)
    return one_of(ref(name), ref("OpenAIError"))
