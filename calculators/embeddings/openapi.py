"""The OpenAPI description of ``/v3/embeddings``."""

from __future__ import annotations

from typing import Final

from calculators.embeddings.request import (
    DIMENSIONS,
    FORMAT,
    MAX_CHARACTERS,
    MAX_TEXTS,
)
from calculators.requests.schema import (
    Schema,
    array,
    const,
    integer,
    number,
    one_of,
    record,
    ref,
    request,
    string,
)
from calculators.tasks.endpoint import ErrorForm
from calculators.tasks.operation import (
    JSON,
    TIMEOUT,
    Operation,
    TaskDescription,
    answer,
    media,
    prefixed,
)

_TEXT: Final = string(maxLength=MAX_CHARACTERS)

_SCHEMAS: Final[dict[str, Schema]] = {
    "CreateEmbeddingRequest": request(
        {
            "model": string("The name of the model.", minLength=1),
            "input": one_of(_TEXT, array(_TEXT, minItems=1, maxItems=MAX_TEXTS)),
            "encoding_format": FORMAT.schema("base64 is of little-endian 32-bit floats."),
            "dimensions": DIMENSIONS.schema(
                "The first numbers of each embedding; not more than the model's."
            ),
            "user": string("Ignored."),
            "timeout": TIMEOUT,
        },
        required=("model", "input"),
    ),
    "Embedding": record(
        {
            "object": const("embedding"),
            "index": integer("The place of its text in the request.", minimum=0),
            "embedding": one_of(array(number()), string(contentEncoding="base64")),
        },
        required=("object", "index", "embedding"),
    ),
    "CreateEmbeddingResponse": record(
        {
            "object": const("list"),
            "data": array(ref("Embedding")),
            "model": string("As the request has it."),
            "usage": record(
                {"prompt_tokens": integer(minimum=0), "total_tokens": integer(minimum=0)},
                required=("prompt_tokens", "total_tokens"),
            ),
        },
        required=("object", "data", "model", "usage"),
    ),
}


def describe(model: str) -> TaskDescription:
    """Operation and schemas. ``model``: a name for the example."""
    operation = Operation(
        method="post",
        paths=prefixed("/embeddings"),
        id="createEmbedding",
        tag="OpenAI",
        summary="A vector for each text",
        form=ErrorForm.OPENAI,
        runs_graph=True,
        parameters=("Timeout",),
        body={
            JSON: media(
                ref("CreateEmbeddingRequest"), two_texts={"model": model, "input": ["Hello", "Hi"]}
            )
        },
        answers={200: answer("The vectors.", {JSON: media(ref("CreateEmbeddingResponse"))})},
    )
    return TaskDescription((operation,), _SCHEMAS)
