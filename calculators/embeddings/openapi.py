"""The OpenAPI description of ``/v3/embeddings`` and of the other forms of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.embeddings.request import EMBEDDINGS_MEMBERS
from calculators.requests.members import Members, body_schema
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
from calculators.text_models.tokenize_endpoint import DETOKENIZE_MEMBERS

_VECTOR: Final = array(number())
_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "Embedding": record(
        {
            "object": const("embedding"),
            "index": integer("The place of its text in the request.", minimum=0),
            "embedding": one_of(_VECTOR, string(contentEncoding="base64")),
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
    "DetokenizeResponse": record(
        {"prompt": string("The text."), "content": string("The same.")},
        required=("prompt", "content"),
    ),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the examples."""
    operations = (
        _operation(
            prefixed("/embeddings"),
            "createEmbedding",
            "A vector for each text",
            "The vectors.",
            "CreateEmbedding",
            two_texts={"model": model, "input": ["Hello", "Hi"]},
        ),
        _operation(
            prefixed("/detokenize"),
            "detokenize",
            "The text of token ids",
            "The text.",
            "Detokenize",
            two_tokens={"model": model, "tokens": [5, 6]},
        ),
    )
    bodies = {
        "CreateEmbeddingRequest": EMBEDDINGS_MEMBERS,
        "DetokenizeRequest": DETOKENIZE_MEMBERS,
    }
    schemas = {name: _body(members) for name, members in bodies.items()}
    return TaskDescription(operations, {**schemas, **_ANSWER_SCHEMAS})


def _operation(
    paths: Mapping[str, str], id: str, summary: str, about: str, name: str, **examples: Any
) -> Operation:
    return Operation(
        method="post",
        paths=paths,
        id=id,
        tag="OpenAI",
        summary=summary,
        form=ErrorForm.OPENAI,
        runs_graph=True,
        parameters=("Timeout",),
        body={JSON: media(ref(f"{name}Request"), **examples)},
        answers={200: answer(about, {JSON: media(ref(f"{name}Response"))})},
    )


def _body(members: Members) -> Schema:
    body = body_schema(members)
    # A member that the front reads.
    body["properties"]["timeout"] = nullable(TIMEOUT)
    return body
