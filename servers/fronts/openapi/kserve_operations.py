"""KServe's protocol over REST, with Triton's extensions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from calculators.kit.requests.schema import nullable, one_of, ref, string
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import (
    BINARY,
    EVENTS,
    JSON,
    Operation,
    answer,
    events,
    header_ref,
    media,
)
from servers.fronts.http.errors import STATUS

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
