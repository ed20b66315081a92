"""The OpenAPI description of ``/v3/embeddings``."""

from __future__ import annotations

from typing import Final

from calculators.embeddings.request import EMBEDDINGS_MEMBERS
from calculators.requests.members import body_schema
from calculators.requests.schema import (
    Schema,
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

_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
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
    body = body_schema(EMBEDDINGS_MEMBERS)
    # A member that the front reads.
    body["properties"]["timeout"] = nullable(TIMEOUT)
    return TaskDescription((operation,), {"CreateEmbeddingRequest": body, **_ANSWER_SCHEMAS})
