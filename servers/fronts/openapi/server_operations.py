"""Operations about the server itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    nullable,
    number,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import EVENTS as EVENT_STREAM
from calculators.kit.tasks.operation import (
    JSON,
    LINES,
    REQUEST_ID,
    Operation,
    answer,
    events,
    header_ref,
    lines,
    media,
    prefixed,
)
from servers.contract.data_plane import SHOWN
from servers.page.events import ANSWERS, EVENTS

_PAGE_TAG: Final = "Live"
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
            tag=_PAGE_TAG,
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
            tag=_PAGE_TAG,
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
            tag=_PAGE_TAG,
            summary="The state of a node: options, what it waits for, last packets, failures",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The node.", {JSON: media(ref("NodeView"))})},
        ),
        Operation(
            method="post",
            paths={"": "/v1/graphs/{model}/follow"},
            id="follow",
            tag=_PAGE_TAG,
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
            tag=_PAGE_TAG,
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
            tag=_PAGE_TAG,
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


_TAG: Final = "Server"
_MODEL: Final = one_of(ref("Model"), ref("AnthropicModel"), ref("GoogleModel"))
_MODELS: Final = one_of(ref("ModelList"), ref("AnthropicModelList"), ref("GoogleModelList"))
_BY_HEADER: Final = (
    "With the header `anthropic-version` the answer and its errors have Anthropic's form."
)
_STATES: Final = sorted({state for state, _ in SHOWN.values()})

SERVER_SCHEMAS: Final[dict[str, Schema]] = {
    "Health": record({"status": const("ok")}, required=("status",)),
    "Version": record({"version": string("The version of graphrt.")}, required=("version",)),
    "Model": record(
        {
            "id": string(),
            "object": const("model"),
            "created": integer("The time of loading: Unix time in seconds."),
            "owned_by": string("The server."),
            "task": string(
                "The task that answers, such as `text_generation`; graphs of authors of"
                " their own have none."
            ),
            "endpoints": array(
                string(),
                "The paths that the task answers, such as `/chat/completions`, without the"
                " prefixes /v3 and /v1.",
            ),
            "max_model_len": integer(
                "The most tokens of prompt and answer together, or of a text to embed. Absent if"
                " unknown, and before a model that is loaded on demand has been loaded.",
                minimum=1,
            ),
            "meta": record(
                {"n_vocab": integer(minimum=0), "n_ctx_train": integer(minimum=1)},
                "Of a language model: tokens of its vocabulary, and `max_model_len` by llama.cpp's"
                " name.",
            ),
            "tool_parser": string(
                "Of a language model: the form of its calls of tools, `none` without one."
            ),
            "reasoning_parser": string(
                "Of a language model: the form of its reasoning, `none` without one."
            ),
            "input_modalities": array(
                word(("text", "image", "audio", "video")), "What a language model reads."
            ),
            "form_of_answers": string(
                "How a language model writes calls and reasoning, made of its chat template where"
                " no known family does so; absent otherwise."
            ),
            "root": string("For an adapter: the same as `parent`."),
            "parent": string("For an adapter: its model."),
        },
        required=("id", "object", "created", "owned_by"),
    ),
    "ModelList": record(
        {"object": const("list"), "data": array(ref("Model"))}, required=("object", "data")
    ),
    "AnthropicModel": record(
        {
            "type": const("model"),
            "id": string(),
            "display_name": string(),
            "created_at": string("The time of loading, as in RFC 3339."),
            "max_input_tokens": nullable(integer(minimum=1)),
            "max_tokens": nullable(integer(minimum=1)),
        },
        "A model, for requests with the header `anthropic-version`.",
        required=("type", "id", "display_name", "created_at"),
    ),
    "AnthropicModelList": record(
        {
            "data": array(ref("AnthropicModel")),
            "has_more": const(False),
            "first_id": nullable(string()),
            "last_id": nullable(string()),
        },
        required=("data", "has_more", "first_id", "last_id"),
    ),
    "LmStudioModel": record(
        {
            "id": string(),
            "object": const("model"),
            "type": string("`llm`, `vlm` if it sees, or what else it is for."),
            "publisher": string(),
            "arch": nullable(string()),
            "compatibility_type": const("gguf"),
            "quantization": nullable(string()),
            "state": word(("loaded", "not-loaded")),
            "max_context_length": nullable(integer("As `max_model_len`.", minimum=1)),
            "loaded_context_length": nullable(integer(minimum=1)),
            "capabilities": array(string()),
        },
        required=("id", "object", "type", "publisher", "compatibility_type", "state"),
    ),
    "LmStudioModelList": record(
        {"object": const("list"), "data": array(ref("LmStudioModel"))}, required=("object", "data")
    ),
    "GoogleModel": record(
        {
            "name": string("The model's name after `models/`."),
            "baseModelId": string("The model, also of an adapter."),
            "version": string(),
            "displayName": string(),
            "supportedGenerationMethods": array(string()),
            "inputTokenLimit": integer("As `max_model_len`.", minimum=1),
            "outputTokenLimit": integer("As `max_model_len`.", minimum=1),
        },
        "A model, under `/v1beta` and for requests with headers of Google's clients.",
        required=("name", "baseModelId", "version", "displayName", "supportedGenerationMethods"),
    ),
    "GoogleModelList": record({"models": array(ref("GoogleModel"))}, required=("models",)),
    "OllamaModelDetails": record(
        {
            **{
                name: string()
                for name in (
                    *("parent_model", "format", "family"),
                    *("parameter_size", "quantization_level"),
                )
            },
            "families": array(string()),
        }
    ),
    "OllamaModelList": record(
        {
            "models": array(
                record(
                    {
                        "name": string(),
                        "model": string(),
                        "size": integer("Of its files in bytes.", minimum=0),
                        "digest": string("Changes when the model is loaded again."),
                        "details": ref("OllamaModelDetails"),
                        "modified_at": string("When it was loaded.", format="date-time"),
                        "capabilities": array(string()),
                        "expires_at": string(format="date-time"),
                        "size_vram": integer(minimum=0),
                        "context_length": integer(minimum=1),
                    },
                    required=("name", "model"),
                )
            )
        },
        required=("models",),
    ),
    "OllamaPullRequest": record(
        {
            "model": string("Of a hub: `org/name` or `org/name:Q4_K_M`."),
            "name": string("As `model`."),
            "stream": {"type": "boolean", "description": "Answer in lines, the default."},
        }
    ),
    "OllamaShowRequest": request(
        {"model": string(), "name": string("As `model`.")},
        anyOf=[
            {"required": [name], "properties": {name: string(minLength=1)}}
            for name in ("model", "name")
        ],
    ),
    "OllamaShownModel": record(
        {
            "modelfile": string(),
            "parameters": string("Defaults of requests, a line each."),
            "template": string("The chat template, with `--show_tokenizer`."),
            "details": ref("OllamaModelDetails"),
            "model_info": anything("Facts about the model by ggml's keys."),
            "capabilities": array(string()),
            "modified_at": string(format="date-time"),
        },
        required=("details", "model_info", "capabilities"),
    ),
    "Statuses": anything(
        "The states by the names of models and graphs.",
        additionalProperties=record(
            {
                "model_version_status": array(
                    record(
                        {
                            "version": string(),
                            "state": string(enum=_STATES),
                            "loading": record(
                                {
                                    "percent": integer("Of the expected work: 0 to 99."),
                                    "phase": string("The step that takes longest now."),
                                    "seconds": number("The time since loading began."),
                                },
                                required=("percent", "phase", "seconds"),
                            ),
                            "status": record(
                                {
                                    "error_code": string(),
                                    "error_message": string("Why it is not available."),
                                },
                                required=("error_code", "error_message"),
                            ),
                        },
                        required=("version", "state", "status"),
                    )
                )
            },
            required=("model_version_status",),
        ),
    ),
}


def server_operations() -> list[Operation]:
    """Return the operations for health, configuration, metrics, this document and the models."""
    return [
        *_health(),
        Operation(
            method="get",
            paths={"": "/v1/config"},
            id="getConfig",
            tag=_TAG,
            summary="The state of everything that is configured",
            form=ErrorForm.KSERVE,
            answers={200: answer("The states.", {JSON: media(ref("Statuses"))})},
        ),
        Operation(
            method="post",
            paths={"": "/v1/config/reload"},
            id="reloadConfig",
            tag=_TAG,
            summary="Reload the configuration",
            form=ErrorForm.KSERVE,
            errors=frozenset({412, 422}),
            answers={
                200: answer("Nothing has changed.", {JSON: media(ref("Statuses"))}),
                201: answer("The changes are loaded.", {JSON: media(ref("Statuses"))}),
            },
        ),
        Operation(
            method="get",
            paths={"": "/metrics"},
            id="getMetrics",
            tag=_TAG,
            summary="Metrics, in the format of Prometheus or OpenMetrics",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={
                200: answer(
                    "The metrics.",
                    {
                        "text/plain": media(string()),
                        "application/openmetrics-text": media(string()),
                    },
                )
            },
        ),
        Operation(
            method="get",
            paths={"": "/openapi.json"},
            id="getOpenApi",
            tag=_TAG,
            summary="This document",
            form=ErrorForm.OPENAI,
            parameters=("IfNoneMatch",),
            answers={
                200: answer(
                    "The document.", {JSON: media(anything())}, {"ETag": header_ref("ETag")}
                ),
                304: {
                    "description": "The client has the current document.",
                    "headers": {**REQUEST_ID, "ETag": header_ref("ETag")},
                },
            },
        ),
        Operation(
            method="get",
            paths={"": "/version"},
            id="getVersion",
            tag=_TAG,
            summary="The version of the server",
            form=ErrorForm.OPENAI,
            answers={200: answer("The version.", {JSON: media(ref("Version"))})},
        ),
        *_docs(),
        Operation(
            method="get",
            paths=prefixed("/models"),
            id="listModels",
            tag="OpenAI",
            summary="List the models",
            about="Graphs that answer below `/v3`, and their adapters. Models for tensors are in"
            f" `/v2/repository/index`. {_BY_HEADER}",
            form=ErrorForm.OPENAI,
            answers={
                200: answer(
                    "The models.",
                    {JSON: media(_MODELS)},
                )
            },
        ),
        Operation(
            method="get",
            paths=prefixed("/models/{model}"),
            id="retrieveModel",
            tag="OpenAI",
            summary="Describe a model",
            about=_BY_HEADER,
            form=ErrorForm.OPENAI,
            answers={
                200: answer("The model.", {JSON: media(_MODEL)}),
                404: answer(
                    "There is no such model.",
                    {
                        JSON: media(
                            one_of(ref("OpenAIError"), ref("AnthropicError"), ref("GoogleError"))
                        )
                    },
                ),
            },
        ),
        *_lookups(),
        *_ollama(),
    ]


#: Lookups of models in the forms of other servers: path, id of the operation, summary and schema.
_LOOKUPS: Final = {
    ("Google", ErrorForm.GOOGLE): (
        ("/v1beta/models", "listGoogleModels", "List the models", "GoogleModelList"),
        ("/v1beta/models/{model}", "getGoogleModel", "Describe a model", "GoogleModel"),
    ),
    ("LM Studio", ErrorForm.OPENAI): (
        ("/api/v0/models", "listLmStudioModels", "List the models", "LmStudioModelList"),
        ("/api/v0/models/{model}", "getLmStudioModel", "Describe a model", "LmStudioModel"),
    ),
    ("Ollama", ErrorForm.OLLAMA): (
        ("/api/tags", "listOllamaModels", "List the models", "OllamaModelList"),
        ("/api/ps", "listRunningOllamaModels", "List the models in memory", "OllamaModelList"),
        ("/api/version", "getOllamaVersion", "The version of the server", "Version"),
    ),
}


def _lookups() -> Iterator[Operation]:
    for (tag, form), rows in _LOOKUPS.items():
        for path, id, summary, schema in rows:
            yield Operation(
                method="get",
                paths={"": path},
                id=id,
                tag=tag,
                summary=summary,
                form=form,
                errors=frozenset({404}) if "{model}" in path else frozenset(),
                answers={200: answer("The answer.", {JSON: media(ref(schema))})},
            )


_PROGRESS: Final = record(
    {
        "status": string("The last one is `success`."),
        "total": integer("Bytes.", minimum=0),
        "completed": integer("Bytes.", minimum=0),
        "error": string(),
    }
)


def _ollama() -> list[Operation]:
    """Return the operations of Ollama's API that change what is served, or describe a model."""
    return [
        Operation(
            method="post",
            paths={"": "/api/show"},
            id="showOllamaModel",
            tag="Ollama",
            summary="Describe a model",
            form=ErrorForm.OLLAMA,
            errors=frozenset({404}),
            body={JSON: media(ref("OllamaShowRequest"))},
            answers={200: answer("The model.", {JSON: media(ref("OllamaShownModel"))})},
        ),
        Operation(
            method="post",
            paths={"": "/api/pull"},
            id="pullOllamaModel",
            tag="Ollama",
            summary="Download a model and serve it, where the operator allows it",
            form=ErrorForm.OLLAMA,
            errors=frozenset({403, 412, 503}),
            body={JSON: media(ref("OllamaPullRequest"))},
            answers={
                200: answer(
                    "It is served.",
                    {
                        LINES: lines("How far it is; an error is the last line.", _PROGRESS),
                        JSON: media(_PROGRESS),
                    },
                )
            },
        ),
        Operation(
            method="delete",
            paths={"": "/api/delete"},
            id="deleteOllamaModel",
            tag="Ollama",
            summary="Serve a model no more and remove its download, where the operator allows it",
            form=ErrorForm.OLLAMA,
            errors=frozenset({403, 404, 412}),
            body={JSON: media(ref("OllamaShowRequest"))},
            answers={200: answer("It is not served any more.")},
        ),
        *(
            Operation(
                method="post",
                paths={"": f"/api/{word}"},
                id=f"{word}OllamaModel",
                tag="Ollama",
                summary="Refused, with the reason",
                form=ErrorForm.OLLAMA,
                errors=frozenset({403}),
            )
            for word in ("copy", "create", "push")
        ),
    ]


def _health() -> list[Operation]:
    """Return the operations under the names that other servers and platforms have for them."""
    return [
        Operation(
            method="get",
            paths={"": "/livez"},
            id="isLive",
            tag=_TAG,
            summary="Whether the server answers, as `/v2/health/live`",
            form=ErrorForm.OPENAI,
            answers={200: answer("The server answers.", {JSON: media(ref("Live"))})},
        ),
        Operation(
            method="get",
            paths={"": "/readyz"},
            id="isReady",
            tag=_TAG,
            summary="Whether everything is loaded and works, as `/v2/health/ready`",
            form=ErrorForm.OPENAI,
            errors=frozenset({503}),
            answers={200: answer("The server is ready.", {JSON: media(ref("Ready"))})},
        ),
        Operation(
            method="get",
            paths={"": "/health", "Ping": "/ping"},
            id="getHealth",
            tag=_TAG,
            summary="The same, for clients of vLLM and llama.cpp, and for SageMaker",
            form=ErrorForm.OPENAI,
            errors=frozenset({503}),
            answers={200: answer("The server is ready.", {JSON: media(ref("Health"))})},
        ),
    ]


def _docs() -> list[Operation]:
    """Return the operations of the page that shows this document."""
    page = {
        "": ("/docs", "text/html", "This document as a page, with requests to try"),
        "Script": ("/docs/viewer.js", "text/javascript", "The script of the page"),
        "Style": ("/docs/viewer.css", "text/css", "The style of the page"),
    }
    return [
        Operation(
            method="get",
            paths={suffix: path},
            id="getDocs",
            tag=_TAG,
            summary=summary,
            form=ErrorForm.OPENAI,
            answers={200: answer("The file.", {media_type: media(string())})},
        )
        for suffix, (path, media_type, summary) in page.items()
    ]
