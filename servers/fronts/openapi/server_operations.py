"""Operations about the server itself."""

from __future__ import annotations

from typing import Final

from calculators.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    number,
    record,
    ref,
    string,
)
from calculators.tasks import ErrorForm
from calculators.tasks.operation import (
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
_STATES: Final = sorted({state for state, _ in SHOWN.values()})

SERVER_SCHEMAS: Final[dict[str, Schema]] = {
    "Model": record(
        {
            "id": string(),
            "object": const("model"),
            "created": integer("The time of loading: Unix time in seconds."),
            "owned_by": string(),
            "root": string("For an adapter: the same as `parent`."),
            "parent": string("For an adapter: its model."),
        },
        required=("id", "object", "created", "owned_by"),
    ),
    "ModelList": record(
        {"object": const("list"), "data": array(ref("Model"))}, required=("object", "data")
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
    """Return the operations for configuration, metrics, this document and the list of models."""
    return [
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
            paths=prefixed("/models"),
            id="listModels",
            tag="OpenAI",
            summary="List the models",
            form=ErrorForm.OPENAI,
            answers={200: answer("The models.", {JSON: media(ref("ModelList"))})},
        ),
        Operation(
            method="get",
            paths=prefixed("/models/{model}"),
            id="retrieveModel",
            tag="OpenAI",
            summary="Describe a model",
            form=ErrorForm.OPENAI,
            errors=frozenset({404}),
            answers={200: answer("The model.", {JSON: media(ref("Model"))})},
        ),
    ]
