"""Operations about the server itself."""

from __future__ import annotations

from typing import Final

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
    string,
)
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import (
    JSON,
    REQUEST_ID,
    Operation,
    answer,
    header_ref,
    media,
    prefixed,
)
from servers.contract.servable_states import SHOWN

_TAG: Final = "Server"
_MODEL: Final = one_of(ref("Model"), ref("AnthropicModel"))
_MODELS: Final = one_of(ref("ModelList"), ref("AnthropicModelList"))
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
                    {JSON: media(one_of(ref("OpenAIError"), ref("AnthropicError")))},
                ),
            },
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
