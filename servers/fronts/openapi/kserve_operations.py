"""KServe's protocol over REST, with Triton's extensions."""

from __future__ import annotations

from typing import Any, Final

from calculators.requests.schema import nullable, one_of, ref, string
from calculators.tasks import ErrorForm
from calculators.tasks.operation import (
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

_TAG: Final = "KServe v2"
_REPOSITORY: Final = "Model repository"
_OF_A_MODEL: Final = frozenset(STATUS.values())
_BINARY: Final = media(string(format="binary"))
_NOT_READY: Final = frozenset({404, 503})


def _models(action: str) -> dict[str, str]:
    return {
        "": f"/v2/models/{{model}}{action}",
        "Version": f"/v2/models/{{model}}/versions/{{version}}{action}",
    }


def kserve_operations(model: str) -> list[Operation]:
    """``model``: a name for the examples; it answers texts with texts."""
    text: dict[str, Any] = {"text_input": "Hello", "max_tokens": 20}
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["Hello"]}
    parameters = {"max_tokens": 20}
    return [
        *_health(),
        Operation(
            method="get",
            paths=_models(""),
            id="getModelMetadata",
            tag=_TAG,
            summary="Names, datatypes and shapes of inputs and outputs",
            form=ErrorForm.KSERVE,
            errors=_OF_A_MODEL,
            answers={200: answer("What is known.", {JSON: media(ref("ModelMetadata"))})},
        ),
        Operation(
            method="post",
            paths=_models("/infer"),
            id="infer",
            tag=_TAG,
            summary="Tensors in, tensors out",
            about="JSON; or JSON, of as many bytes as the header says, and behind it the binary"
            " data of the tensors. Bodies may be compressed (gzip, deflate).",
            form=ErrorForm.KSERVE,
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
        Operation(
            method="post",
            paths=_models("/generate"),
            id="generate",
            tag=_TAG,
            summary="Values in, values out",
            form=ErrorForm.KSERVE,
            errors=_OF_A_MODEL,
            parameters=("Timeout",),
            body={JSON: media(ref("GenerateRequest"), a_text=text)},
            answers={200: answer("The outputs.", {JSON: media(ref("GenerateResponse"))})},
        ),
        Operation(
            method="post",
            paths=_models("/generate_stream"),
            id="generateStream",
            tag=_TAG,
            summary="Values in, an event for each answer out",
            form=ErrorForm.KSERVE,
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
        Operation(
            method="get",
            paths={"": "/v2/health/live"},
            id="isServerLive",
            tag=_TAG,
            summary="Does the server answer at all?",
            form=ErrorForm.KSERVE,
            answers={200: answer("It does.", {JSON: media(ref("Live"))})},
        ),
        Operation(
            method="get",
            paths={"": "/v2/health/ready"},
            id="isServerReady",
            tag=_TAG,
            summary="Is everything loaded, and able to work?",
            form=ErrorForm.KSERVE,
            errors=frozenset({503}),
            answers={200: answer("It is.", {JSON: media(ref("Ready"))})},
        ),
        Operation(
            method="get",
            paths={"": "/v2"},
            id="getServerMetadata",
            tag=_TAG,
            summary="The server's name, version and extensions",
            form=ErrorForm.KSERVE,
            answers={200: answer("What it is.", {JSON: media(ref("ServerMetadata"))})},
        ),
        Operation(
            method="get",
            paths=_models("/ready"),
            id="isModelReady",
            tag=_TAG,
            summary="Would this model answer now?",
            form=ErrorForm.KSERVE,
            errors=_NOT_READY,
            answers={200: answer("It would.")},
        ),
    ]


def _repository() -> list[Operation]:
    model = "/v2/repository/models/{model}"
    return [
        Operation(
            method="post",
            paths={"": "/v2/repository/index"},
            id="indexRepository",
            tag=_REPOSITORY,
            summary="Every version of every model of the configuration, loaded or not",
            form=ErrorForm.KSERVE,
            body={JSON: media(nullable(ref("IndexRequest")))},
            body_is_required=False,
            answers={200: answer("The versions.", {JSON: media(ref("Index"))})},
        ),
        Operation(
            method="post",
            paths={"": f"{model}/load"},
            id="loadModel",
            tag=_REPOSITORY,
            summary="Load a model from its files",
            form=ErrorForm.KSERVE,
            errors=_OF_A_MODEL,
            body={JSON: media(nullable(ref("LoadRequest")))},
            body_is_required=False,
            answers={200: answer("It is loaded.")},
        ),
        Operation(
            method="post",
            paths={"": f"{model}/unload"},
            id="unloadModel",
            tag=_REPOSITORY,
            summary="Take no more requests for a model",
            form=ErrorForm.KSERVE,
            errors=_OF_A_MODEL,
            body={JSON: media(nullable(ref("UnloadRequest")))},
            body_is_required=False,
            answers={200: answer("It takes no more; those in flight may still go on.")},
        ),
    ]
