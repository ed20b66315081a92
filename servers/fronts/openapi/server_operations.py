"""What the server tells of itself."""

from __future__ import annotations

from typing import Final

from calculators.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    record,
    ref,
    string,
)
from calculators.tasks import ErrorForm
from calculators.tasks.operation import JSON, REQUEST_ID, Operation, answer, header_ref, media
from servers.contract.servable_states import SHOWN

_TAG: Final = "Server"
_STATES: Final = sorted({state for state, _ in SHOWN.values()})

SERVER_SCHEMAS: Final[dict[str, Schema]] = {
    "Model": record(
        {
            "id": string(),
            "object": const("model"),
            "created": integer("When it was loaded: Unix time in seconds."),
            "owned_by": string(),
            "root": string("Of an adapter: as `parent`."),
            "parent": string("Of an adapter: the model that it belongs to."),
        },
        required=("id", "object", "created", "owned_by"),
    ),
    "ModelList": record(
        {"object": const("list"), "data": array(ref("Model"))}, required=("object", "data")
    ),
    "Statuses": anything(
        "By the names of models and graphs.",
        additionalProperties=record(
            {
                "model_version_status": array(
                    record(
                        {
                            "version": string(),
                            "state": string(enum=_STATES),
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
    """Its configuration, and this document."""
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
            summary="Read the configuration again, and serve what it says now",
            form=ErrorForm.KSERVE,
            errors=frozenset({412, 422}),
            answers={
                200: answer("Nothing has changed.", {JSON: media(ref("Statuses"))}),
                201: answer("It serves what is new.", {JSON: media(ref("Statuses"))}),
            },
        ),
        Operation(
            method="get",
            paths={"": "/metrics"},
            id="getMetrics",
            tag=_TAG,
            summary="Metrics, in Prometheus's form or in that of OpenMetrics",
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
                    "description": "It is the one that the client has.",
                    "headers": {**REQUEST_ID, "ETag": header_ref("ETag")},
                },
            },
        ),
    ]
