"""Parts that the operations of the OpenAPI document share: parameters, headers and errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    nullable,
    number,
    one_of,
    record,
    ref,
    string,
    word,
)
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import (
    REQUEST_ID,
    TIMEOUT,
    Operation,
    OperationAnswer,
    Reference,
    header_ref,
)
from servers.fronts.http.exchange import HEADER as TIMEOUT_HEADER
from servers.fronts.http.settings import HttpSettings

_NAMES: Final = {
    ErrorForm.OPENAI: "OpenAIError",
    ErrorForm.KSERVE: "KServeError",
    ErrorForm.ANTHROPIC: "AnthropicError",
    ErrorForm.GOOGLE: "GoogleError",
    ErrorForm.COHERE: "CohereError",
    ErrorForm.LLAMA_CPP: "LlamaCppError",
    ErrorForm.OLLAMA: "OllamaError",
    ErrorForm.HUGGING_FACE: "HuggingFaceError",
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
    "OllamaError": record(
        {"error": string("The error, and what would be right.")}, required=("error",)
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
    "HuggingFaceError": record(
        {
            "error": string("The error, and what would be right."),
            "error_type": word(("validation", "overloaded", "generation")),
        },
        required=("error", "error_type"),
    ),
    "LlamaCppError": record(
        {
            "error": record(
                {
                    "code": integer("The HTTP status."),
                    "message": string("The error, and what would be right."),
                    "type": string("The class of the error."),
                },
                required=("code", "message", "type"),
            )
        },
        required=("error",),
    ),
    "CohereError": record(
        {"id": string(), "message": string("The error, and what would be right.")},
        required=("id", "message"),
    ),
    "GoogleError": record(
        {
            "error": record(
                {
                    "code": integer("The HTTP status."),
                    "message": string("The error, and what would be right."),
                    "status": string("The class of the error, such as `INVALID_ARGUMENT`."),
                    "details": array(
                        anything(), "The member at fault, and when to try again, by `@type`."
                    ),
                },
                required=("code", "message", "status"),
            )
        },
        required=("error",),
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
_HEADERS: Final[dict[int, dict[str, Reference]]] = {
    401: {"WWW-Authenticate": header_ref("Authenticate")},
    405: {"Allow": header_ref("Allow")},
    429: {"Retry-After": header_ref("RetryAfter")},
    503: {"Retry-After": header_ref("RetryAfter")},
}


def error_ref(form: ErrorForm, status: int) -> Reference:
    """Refer to the answer with an error status by its name in the document."""
    return {"$ref": f"#/components/responses/{_NAMES[form]}{status}"}


def error_answers(
    settings: HttpSettings, reported: Collection[tuple[ErrorForm, int]]
) -> dict[str, OperationAnswer]:
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


_IN_PATH: Final = re.compile(r"\{(\w+)\}")
_ID_PATTERN: Final = r"^[A-Za-z0-9._-]{1,128}$"


def _path(name: str, about: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


def _header(name: str, about: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": about, "schema": schema}


def _query(name: str, about: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": about, "schema": schema}


#: Parameters by name in the document. Parameters of paths have the name in the path.
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "model": _path(
        "model",
        "The name of a model or graph. Slashes in it may be encoded.",
        string(minLength=1),
    ),
    "version": _path("version", "A version of the model.", string(pattern="^[0-9]{1,18}$")),
    "path": _path("path", "Any path; it may contain slashes.", string(minLength=1)),
    "node": _path("node", "The name of a node, with subgraphs expanded.", string(minLength=1)),
    "calculator": _path("calculator", "The name of a calculator.", string(minLength=1)),
    "file": _path("file", "The name of a file, as the page has it.", string(minLength=1)),
    "request_id": _path("request_id", "The `X-Request-Id` of a request.", string(minLength=1)),
    "Model": _query(
        "model",
        "The model; it may be left out if only one answers this path.",
        string(minLength=1),
    ),
    "Alt": _query("alt", "`sse`: the pieces are events.", string(enum=["json", "sse"])),
    "WatchedGraphs": _query(
        "graphs",
        "Names of graphs whose counts are sent, with commas between them; none by default.",
        string(),
    ),
    "Hz": _query(
        "hz", "The most events per second and graph; 5 by default.", number(minimum=0.1, maximum=5)
    ),
    "Focus": _query(
        "focus",
        "Nodes whose last packets are sent: `GRAPH/NODE` of watched graphs, with commas.",
        string(),
    ),
    "Expand": _query(
        "expand", "Paths of subgraph nodes to show open, with commas; `*`: all.", string()
    ),
    "Direction": _query(
        "direction",
        "The direction of the streams: right by default; down for narrow windows.",
        string(enum=["right", "down"]),
    ),
    "TimelineFormat": _query(
        "format", "The form of the answer.", string(enum=["timeline", "perfetto"])
    ),
    "file_id": _path("file_id", "The id of a file.", string(minLength=1)),
    "batch_id": _path("batch_id", "The id of a batch.", string(minLength=1)),
    "response_id": _path("response_id", "The id of a response.", string(minLength=1)),
    "conversation_id": _path("conversation_id", "The id of a conversation.", string(minLength=1)),
    "item_id": _path("item_id", "The id of an item.", string(minLength=1)),
    "completion_id": _path("completion_id", "The id of a chat completion.", string(minLength=1)),
    "StreamEvents": _query("stream", "Answer with events.", flag()),
    "StartingAfter": _query(
        "starting_after",
        "With `stream`: the number of the last event that is known.",
        integer(minimum=0, maximum=999_999_999),
    ),
    "OfModel": _query("model", "Only the ones of this model.", string()),
    "After": _query(
        "after", "The id after which the page begins; empty: the first page.", string()
    ),
    "FileLimit": _query("limit", "The objects of a page.", integer(minimum=1, maximum=10_000)),
    "BatchLimit": _query("limit", "The objects of a page.", integer(minimum=1, maximum=100)),
    "AfterId": _query("after_id", "The id after which the page begins.", string()),
    "BeforeId": _query("before_id", "The id before which the page ends.", string()),
    "MessageBatchLimit": _query(
        "limit", "The objects of a page.", integer(minimum=1, maximum=1000)
    ),
    "Order": _query(
        "order", "By the time of creation; desc by default.", string(enum=["asc", "desc"])
    ),
    "Purpose": _query("purpose", "Only files of this purpose.", string()),
    "RequestId": _header(
        "X-Request-Id",
        "An id for the request: letters, digits, dots, dashes and underscores. It is in the answer"
        " and in the log; other ids are replaced.",
        string(),
    ),
    "Timeout": _header(
        TIMEOUT_HEADER,
        "Seconds that the request may take; then it ends with 504.",
        TIMEOUT,
    ),
    "JsonLength": _header(
        "Inference-Header-Content-Length",
        "The bytes of the body that are JSON; binary data of tensors follows them.",
        string(pattern="^0{0,9}[1-9][0-9]{0,8}$"),
    ),
    "IfNoneMatch": _header(
        "If-None-Match", "An ETag: the answer is 304 if it has not changed.", string()
    ),
}

HEADERS: Final[dict[str, dict[str, Any]]] = {
    "XRequestId": {
        "description": "The id of the request in the log: the client's own, or a new one.",
        "schema": string(pattern=_ID_PATTERN),
    },
    "Warning": {
        "description": "Members of the body that are not known, with `--unknown_fields warn`.",
        "schema": string(),
    },
    "RetryAfter": {
        "description": "Seconds after which to try again.",
        "schema": integer(minimum=0),
    },
    "Authenticate": {"description": "How to send a key.", "schema": string()},
    "Allow": {"description": "The methods of this path.", "schema": string()},
    "JsonLength": {
        "description": "The bytes of the body that are JSON; binary data follows them.",
        "schema": integer(minimum=1),
    },
    "ETag": {"description": "Changes with the content.", "schema": string()},
}


def parameters_of(operation: Operation, path: str) -> list[Mapping[str, Any]]:
    """Return the parameters of an operation: the ones in its path, its own, and headers."""
    own = {each["name"] for each in operation.own_parameters}
    in_path = [name for name in _IN_PATH.findall(path) if name not in own]
    names = [*in_path, *operation.parameters, "RequestId"]
    refs = ({"$ref": f"#/components/parameters/{name}"} for name in names)
    return [*operation.own_parameters, *refs]
