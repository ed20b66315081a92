"""Assembly of the OpenAPI document, with KServe's protocol over REST and Triton's extensions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NotRequired, TypedDict

from calculators.kit.requests.members import OTHERS_ARE_REFUSED
from calculators.kit.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    flag,
    integer,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.kit.tasks import ErrorForm, installed_tasks
from calculators.kit.tasks.operation import (
    BINARY,
    EVENTS,
    JSON,
    TIMEOUT,
    MediaType,
    Operation,
    OperationAnswer,
    TaskDescription,
    answer,
    events,
    header_ref,
    media,
)
from calculators.tensors.inference import MAX_DIMENSIONS, MAX_ELEMENTS, MAX_INT, MIN_INT, Datatype
from servers import NAME, version
from servers.access import Access
from servers.fronts.http.errors import STATUS
from servers.fronts.http.routes import POSTED_ROOT
from servers.fronts.http.settings import HttpSettings
from servers.fronts.openapi.batch_operations import BATCH_SCHEMAS, batch_operations
from servers.fronts.openapi.components import (
    ERROR_SCHEMAS,
    HEADERS,
    PARAMETERS,
    error_answers,
    error_ref,
    parameters_of,
)
from servers.fronts.openapi.kept_operations import KEPT_SCHEMAS, kept_operations
from servers.fronts.openapi.server_operations import (
    SERVER_SCHEMAS,
    page_file_operations,
    page_operations,
    page_schemas,
    server_operations,
)

_OF_A_MODEL: Final = frozenset(STATUS.values())
_BINARY: Final = media(string(format="binary"))
_NOT_READY: Final = frozenset({404, 503})

_operation: Final = partial(Operation, tag="KServe v2", form=ErrorForm.KSERVE)
_repository_operation: Final = partial(
    Operation,
    method="post",
    tag="Model repository",
    form=ErrorForm.KSERVE,
    body_is_required=False,
)


def _models(action: str) -> dict[str, str]:
    return {
        "": f"/v2/models/{{model}}{action}",
        "Version": f"/v2/models/{{model}}/versions/{{version}}{action}",
    }


def kserve_operations(model: str) -> list[Operation]:
    """Return the operations. ``model``: a model for the examples, from text to text."""
    text: dict[str, Any] = {"text_input": "Hello", "max_tokens": 20}
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["Hello"]}
    parameters = {"max_tokens": 20}
    return [
        *_health(),
        _operation(
            method="get",
            paths=_models(""),
            id="getModelMetadata",
            summary="Names, datatypes and shapes of inputs and outputs",
            errors=_OF_A_MODEL,
            answers={200: answer("The metadata.", {JSON: media(ref("ModelMetadata"))})},
        ),
        _operation(
            method="post",
            paths=_models("/infer"),
            id="infer",
            summary="Tensors in, tensors out",
            about="The body is JSON, or JSON followed by the binary data of the tensors; the header"
            " then has the length of the JSON. Bodies may be compressed (gzip, deflate).",
            errors=_OF_A_MODEL,
            parameters=("JsonLength", "Timeout"),
            body={
                JSON: media(
                    ref("InferRequest"), a_text={"inputs": [tensor], "parameters": parameters}
                ),
                BINARY: _BINARY,
            },
            answers={
                200: answer(
                    "The outputs.",
                    {JSON: media(ref("InferResponse")), BINARY: _BINARY},
                    {"Inference-Header-Content-Length": header_ref("JsonLength")},
                )
            },
        ),
        _operation(
            method="post",
            paths=_models("/generate"),
            id="generate",
            summary="Values in, values out",
            errors=_OF_A_MODEL,
            parameters=("Timeout",),
            body={JSON: media(ref("GenerateRequest"), a_text=text)},
            answers={200: answer("The outputs.", {JSON: media(ref("GenerateResponse"))})},
        ),
        _operation(
            method="post",
            paths=_models("/generate_stream"),
            id="generateStream",
            summary="Values in, an event for each answer out",
            errors=_OF_A_MODEL,
            parameters=("Timeout",),
            body={JSON: media(ref("GenerateRequest"), a_text=text)},
            answers={
                200: answer(
                    "The answers.",
                    {
                        EVENTS: events(
                            "An answer; an error ends the stream.",
                            one_of(ref("GenerateResponse"), ref("KServeError")),
                        )
                    },
                )
            },
        ),
        *_repository(),
    ]


def _health() -> list[Operation]:
    return [
        _operation(
            method="get",
            paths={"": "/v2/health/live"},
            id="isServerLive",
            summary="Whether the server answers",
            answers={200: answer("The server answers.", {JSON: media(ref("Live"))})},
        ),
        _operation(
            method="get",
            paths={"": "/v2/health/ready"},
            id="isServerReady",
            summary="Whether everything is loaded and works",
            errors=frozenset({503}),
            answers={200: answer("The server is ready.", {JSON: media(ref("Ready"))})},
        ),
        _operation(
            method="get",
            paths={"": "/v2"},
            id="getServerMetadata",
            summary="The server's name, version and extensions",
            answers={200: answer("The metadata.", {JSON: media(ref("ServerMetadata"))})},
        ),
        _operation(
            method="get",
            paths=_models("/ready"),
            id="isModelReady",
            summary="Whether the model is ready",
            errors=_NOT_READY,
            answers={200: answer("The model is ready.")},
        ),
    ]


def _repository() -> list[Operation]:
    model = "/v2/repository/models/{model}"
    return [
        _repository_operation(
            paths={"": "/v2/repository/index"},
            id="indexRepository",
            summary="Every version of every model of the configuration, loaded or not",
            body={JSON: media(nullable(ref("IndexRequest")))},
            answers={200: answer("The versions.", {JSON: media(ref("Index"))})},
        ),
        _repository_operation(
            paths={"": f"{model}/load"},
            id="loadModel",
            summary="Load a model from its files",
            errors=_OF_A_MODEL,
            body={JSON: media(nullable(ref("LoadRequest")))},
            answers={200: answer("The model is loaded.")},
        ),
        _repository_operation(
            paths={"": f"{model}/unload"},
            id="unloadModel",
            summary="Unload a model",
            errors=_OF_A_MODEL,
            body={JSON: media(nullable(ref("UnloadRequest")))},
            answers={
                200: answer("The model accepts no more requests; requests in flight may continue.")
            },
        ),
    ]


_WORDS: Final = ", ".join(Datatype)
_DATA: Final = array({}, "The elements in one array, row by row, or in nested ones.")
_ID: Final[Members] = {
    "model_name": string(),
    "model_version": string(),
    "id": string("The id of the request, if it has one."),
}
#: Inputs of ``generate``: values, and arrays of them.
_VALUE: Final = one_of(
    string(), {"type": "number"}, flag(), {"type": "null"}, array({}), about="A value, or arrays."
)

KSERVE_SCHEMAS: Final[dict[str, Schema]] = {
    "Parameters": anything(
        additionalProperties=one_of(
            string(), flag(), integer(minimum=MIN_INT, maximum=MAX_INT), {"type": "number"}
        ),
    ),
    "InferInput": record(
        {
            "name": string(minLength=1),
            "datatype": string(f"{_WORDS}; or a name that the graph knows, with binary data."),
            "shape": array(integer(minimum=0, maximum=MAX_ELEMENTS), maxItems=MAX_DIMENSIONS),
            "parameters": nullable(ref("Parameters")),
            "data": nullable(_DATA),
        },
        "Has `data`, or the parameter `binary_data_size` and data after the JSON.",
        required=("name", "datatype", "shape"),
    ),
    "InferRequest": request(
        {
            "id": string("The answer repeats it."),
            "parameters": ref("Parameters"),
            "inputs": array(ref("InferInput"), "All inputs that the model needs."),
            "outputs": array(
                request(
                    {"name": string(minLength=1), "parameters": ref("Parameters")},
                    required=("name",),
                ),
                "The requested outputs; all if it is missing.",
            ),
        },
        required=("inputs",),
    ),
    "InferResponse": record(
        {
            **_ID,
            "parameters": ref("Parameters"),
            "outputs": array(
                record(
                    {
                        "name": string(),
                        "datatype": string(),
                        "shape": array(integer(minimum=0)),
                        "parameters": ref("Parameters"),
                        "data": array({}, "The elements in one array, row by row."),
                    },
                    required=("name", "datatype", "shape"),
                )
            ),
        },
        required=("model_name", "outputs"),
    ),
    "GenerateRequest": request(
        {"parameters": ref("Parameters"), "text_input": _VALUE},
        "A member with the name of an input of the model is that tensor: a value, or arrays with"
        " at least one element; the others are parameters, which are single values.",
        additionalProperties=_VALUE,
    ),
    "GenerateResponse": record(
        _ID,
        "The outputs by name: a value, or an array of all elements; and parameters.",
        required=("model_name",),
        additionalProperties=True,
    ),
    "TensorMetadata": record(
        {
            "name": string(),
            "datatype": word([*Datatype, "INVALID"], "INVALID if it is not known."),
            "shape": array(integer(minimum=-1), "-1 is any length."),
            "optional": flag("A request may leave it out."),
        },
        required=("name", "datatype", "shape"),
    ),
    "ModelMetadata": record(
        {
            "name": string(),
            "versions": array(string()),
            "platform": string(),
            "inputs": array(ref("TensorMetadata")),
            "outputs": array(ref("TensorMetadata")),
            "rt_info": anything("Metadata in the model's file."),
        },
        required=("name", "versions", "platform", "inputs", "outputs"),
    ),
    "ServerMetadata": record(
        {"name": string(), "version": string(), "extensions": array(string())},
        required=("name", "version", "extensions"),
    ),
    "Live": record({"live": flag()}, required=("live",)),
    "Ready": record({"ready": flag()}, required=("ready",)),
    "IndexRequest": request({"ready": flag("List only what is ready.")}),
    "Index": array(
        record(
            {
                "name": string(),
                "version": string(),
                "state": word(("READY", "LOADING", "UNAVAILABLE")),
                "reason": string("Why it is not ready."),
            },
            required=("name", "version", "state", "reason"),
        )
    ),
    "LoadRequest": request(
        {"parameters": anything("No parameters are supported.", maxProperties=0)}
    ),
    "UnloadRequest": request(
        {
            "parameters": record(
                {"unload_dependents": flag("Has no effect.")},
                propertyNames={"const": "unload_dependents"},
            )
        }
    ),
}


#: Statuses that any request may get: invalid HTTP, a Host that is not allowed, headers that arrive
#: too late, an unsupported Expect, an internal error, too many connections, another HTTP version.
ALWAYS: Final = frozenset({400, 403, 408, 417, 500, 503, 505})
#: Statuses for a body that is too large or of another type.
OF_A_BODY: Final = frozenset({413, 415})
#: Statuses that the author of a graph can choose.
OF_A_GRAPH: Final = frozenset(STATUS.values())


class RequestBody(TypedDict):
    """OpenAPI's request body object."""

    required: bool
    content: Mapping[str, MediaType]


class OperationObject(TypedDict):
    """OpenAPI's operation object; ``responses``: answers, or references to them, by status."""

    operationId: str
    tags: list[str]
    summary: str
    description: NotRequired[str]
    parameters: list[Mapping[str, Any]]
    requestBody: NotRequired[RequestBody]
    responses: dict[str, Any]
    security: NotRequired[list[dict[str, list[str]]]]


class OpenApiDocument(TypedDict):
    """The document; ``paths``: operations by path and method, in lower case."""

    openapi: str
    info: Mapping[str, object]
    servers: list[dict[str, str]]
    security: list[object]
    tags: list[dict[str, str]]
    paths: dict[str, dict[str, OperationObject]]
    components: dict[str, Any]


def operation_object(operation: Operation, suffix: str, path: str) -> OperationObject:
    """Return the operation at one of its paths; ``suffix``: the end of its id there."""
    made: OperationObject = {
        "operationId": operation.id + suffix,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": parameters_of(operation, path),
        "responses": {
            **{
                str(status): _with_warning(answer) if operation.runs_graph else answer
                for status, answer in sorted(operation.answers.items())
            },
            **{str(status): error_ref(operation.form, status) for status in all_errors(operation)},
        },
    }
    if operation.about:
        made["description"] = operation.about
    if operation.body is not None:
        required = operation.body_is_required
        made["requestBody"] = {"required": required, "content": operation.body}
    return made


def joined(first: OperationObject, other: OperationObject) -> OperationObject:
    """Return one operation for two that tasks have at one path; the model decides between them."""
    made: OperationObject = {**other, **first}
    made["responses"] = {**other["responses"], **first["responses"]}
    if "requestBody" in other and "requestBody" in first:
        content = _joined_content(first["requestBody"]["content"], other["requestBody"]["content"])
        made["requestBody"] = {**first["requestBody"], "content": content}
    for status, described in other["responses"].items():
        known = first["responses"].get(status)
        if "content" in described and known is not None and "content" in known:
            content = _joined_content(known["content"], described["content"])
            made["responses"][status] = {**known, "content": content}
    return made


def _joined_content(
    first: Mapping[str, MediaType], other: Mapping[str, MediaType]
) -> dict[str, MediaType]:
    made = {**other, **first}
    for kind in first.keys() & other.keys():
        forms = [
            form
            for each in (first[kind]["schema"], other[kind]["schema"])
            for form in each.get("anyOf", [each])
        ]
        different = [form for place, form in enumerate(forms) if form not in forms[:place]]
        schema = different[0] if len(different) == 1 else one_of(*different)
        made[kind] = {**other[kind], **first[kind], "schema": schema}
        examples = {**other[kind].get("examples", {}), **first[kind].get("examples", {})}
        if examples:
            made[kind]["examples"] = examples
    return made


def _with_warning(answer: OperationAnswer) -> OperationAnswer:
    return {**answer, "headers": {**answer["headers"], "Warning": header_ref("Warning")}}


def all_errors(operation: Operation) -> list[int]:
    """Return the statuses of all errors of an operation, in order."""
    body = OF_A_BODY if operation.body is not None else frozenset()
    graph = OF_A_GRAPH if operation.runs_graph else frozenset()
    return sorted(ALWAYS | body | graph | operation.errors)


GRAPH_SCHEMAS: Final[dict[str, Schema]] = {
    "GraphRequest": record(
        {
            "model": string("The name of the graph.", minLength=1),
            "timeout": nullable(TIMEOUT),
        },
        "The graph defines the other members.",
        required=("model",),
    ),
    "GraphAnswer": {"description": "The answer of the graph; mostly JSON."},
}


def graph_operations() -> list[Operation]:
    """Return the operation for all other paths under the prefixes."""
    anything = media(ref("GraphAnswer"))
    return [
        Operation(
            method="post",
            paths={"": "/v3/{path}", "V1": "/v1/{path}"},
            id="callGraph",
            tag="Graphs",
            summary="Call a graph of your own",
            about="A graph gets every request under `/v3/` and `/v1/` whose model is its name.",
            form=ErrorForm.OPENAI,
            runs_graph=True,
            errors=frozenset({405}),
            parameters=("Timeout",),
            body={JSON: media(ref("GraphRequest"))},
            answers={
                200: answer(
                    "The answer of the graph.",
                    {JSON: anything, EVENTS: events("An event of the graph.")},
                )
            },
        )
    ]


SECURITY_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "The form of OpenAI's clients."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "The form of Anthropic's clients.",
    },
    "googleKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Goog-Api-Key",
        "description": "The form of Google's clients; on their paths `?key=` too.",
    },
}


class Keys:
    """Adds keys to operations that need one, by `servers.access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.are_needed = access.keys is not None

    def added_to(self, operation: OperationObject, path: str, form: ErrorForm) -> OperationObject:
        """Return the operation, with all forms of keys and 401 if it needs a key."""
        if not self.are_needed or self._access.is_open(path):
            return operation
        responses = {**operation["responses"], "401": error_ref(form, 401)}
        security: list[dict[str, list[str]]] = [{name: []} for name in SECURITY_SCHEMES]
        return {**operation, "security": security, "responses": dict(sorted(responses.items()))}


_log = logging.getLogger(__name__)

_OTHERS_CHANGE_NOTHING = "Other members than these change nothing."
_OTHERS_ARE_LEFT_OUT = (
    "Other members than these are left out and named in the header `Warning`; what looks like a "
    "misspelt one of these is refused."
)
_ABOUT = """\
A server of graphs and models. Paths with GET also have HEAD, and OPTIONS lists the methods of a \
path; other methods get 405 with `Allow`. Objects may get more members in later versions."""


def openapi_document(
    settings: HttpSettings,
    model: str = "demo",
    *,
    has_batches: bool = False,
    of_authors: Sequence[TaskDescription] = (),
) -> bytes:
    """Return the document of a front with these settings, as JSON.

    Args:
        model: a language model for its examples.
        has_batches: files and batches are served.
        of_authors: the descriptions of authors' endpoints.
    """
    document = describe(settings, model, has_batches=has_batches, of_authors=of_authors)
    return json.dumps(document, separators=(",", ":")).encode()


def describe(
    settings: HttpSettings,
    model: str,
    *,
    has_batches: bool = False,
    of_authors: Sequence[TaskDescription] = (),
) -> OpenApiDocument:
    """Return the document as an object."""
    keys = Keys(settings.access)
    has_kept = settings.max_stored_responses > 0
    tasks = [*of_authors, *_descriptions(model)]
    operations = [
        *(each for task in tasks for each in task.operations),
        *graph_operations(),
        *kserve_operations(model),
        *server_operations(),
        *((*page_file_operations(), *page_operations()) if settings.page.page else ()),
        *(batch_operations() if has_batches else ()),
        *(kept_operations() if has_kept else ()),
    ]
    schemas = _merged(
        ERROR_SCHEMAS,
        *(task.schemas for task in tasks),
        GRAPH_SCHEMAS,
        KSERVE_SCHEMAS,
        SERVER_SCHEMAS,
        page_schemas() if settings.page.page else {},
        BATCH_SCHEMAS if has_batches else {},
        KEPT_SCHEMAS if has_kept else {},
    )
    if settings.unknown_members is not UnknownMembers.REFUSE:
        is_silent = settings.unknown_members is UnknownMembers.IGNORE
        others = _OTHERS_CHANGE_NOTHING if is_silent else _OTHERS_ARE_LEFT_OUT
        schemas = {name: _open(schema, others) for name, schema in schemas.items()}
    reported = {(each.form, status) for each in operations for status in all_errors(each)}
    components: dict[str, Any] = {
        "schemas": schemas,
        "parameters": _used_parameters(operations),
        "headers": HEADERS,
        "responses": error_answers(settings, reported),
    }
    if keys.are_needed:
        components["securitySchemes"] = SECURITY_SCHEMES
    return {
        "openapi": "3.1.0",
        "info": {
            "title": NAME,
            "version": version(),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
        "paths": _paths(operations, keys),
        "components": components,
    }


def _descriptions(model: str) -> Iterator[TaskDescription]:
    """Return the descriptions of all tasks except broken ones, which must not stop the server."""
    for task in installed_tasks():
        try:
            yield task.describe(model)
        except Exception:
            _log.exception("the task %s is not in the OpenAPI document", task.name)


def _used_parameters(operations: list[Operation]) -> dict[str, Any]:
    """Return the parameters that an operation has."""
    used = {
        str(each.get("$ref", "")).rpartition("/")[2]
        for operation in operations
        for path in operation.paths.values()
        for each in parameters_of(operation, path)
    }
    return {name: described for name, described in PARAMETERS.items() if name in used}


def _paths(operations: list[Operation], keys: Keys) -> dict[str, dict[str, OperationObject]]:
    paths: dict[str, dict[str, OperationObject]] = {}
    for operation in operations:
        for suffix, path in operation.paths.items():
            # Others post to the page's path.
            opened = POSTED_ROOT if path == "/" and operation.method == "post" else path
            described = keys.added_to(
                operation_object(operation, suffix, path), opened, operation.form
            )
            methods = paths.setdefault(path, {})
            if operation.method in methods:
                described = joined(methods[operation.method], described)
            methods[operation.method] = described
    return paths


def _open(schema: Any, others: str) -> Any:
    """Return a schema whose objects may have members that are not named; ``others`` says so."""
    if isinstance(schema, list):
        return [_open(each, others) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _open(value, others) for name, value in schema.items()}
    if made.get("additionalProperties") is False:
        del made["additionalProperties"]
    about = made.get("description")
    if isinstance(about, str) and about.endswith(OTHERS_ARE_REFUSED):
        made["description"] = about.removesuffix(OTHERS_ARE_REFUSED) + others
    return made


def _merged(*groups: Mapping[str, Schema]) -> dict[str, Schema]:
    """Join groups of schemas; no two different ones may have the same name."""
    merged: dict[str, Schema] = {}
    for group in groups:
        twice = sorted(name for name in merged.keys() & group if merged[name] != group[name])
        if twice:
            raise ValueError(f"different schemas with one name: {twice}")
        merged.update(group)
    return merged
