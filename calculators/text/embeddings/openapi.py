"""The OpenAPI description of ``/v3/embeddings`` and of the other forms of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    integer,
    number,
    one_of,
    record,
    ref,
    string,
)
from calculators.kit.tasks.endpoint import ErrorForm
from calculators.kit.tasks.operation import (
    JSON,
    TaskDescription,
    answer,
    media,
    paths_of,
    posted,
    with_timeout,
)
from calculators.text.embeddings.endpoints import (
    BATCH_EMBED_CONTENTS,
    DETOKENIZE,
    EMBED,
    EMBED_CONTENT,
    EMBEDDINGS,
    OLLAMA_EMBED,
    OLLAMA_EMBEDDINGS,
    TOKENIZE,
)
from calculators.text.embeddings.google import BATCH_MEMBERS, EMBED_CONTENT_MEMBERS, GOOGLE_SCHEMAS
from calculators.text.embeddings.request import (
    COHERE_MEMBERS,
    EMBEDDINGS_MEMBERS,
    OLLAMA_EMBED_MEMBERS,
    OLLAMA_EMBEDDINGS_MEMBERS,
    TEI_MEMBERS,
)
from calculators.text.text_models.info_endpoint import INFO_SCHEMAS, describe_info
from calculators.text.text_models.tokenize_endpoint import describe_tokenizing

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
    "OllamaEmbedResponse": record(
        {
            "model": string(),
            "embeddings": array(_VECTOR),
            "total_duration": integer("In nanoseconds.", minimum=0),
            "load_duration": integer("In nanoseconds.", minimum=0),
            "prompt_eval_count": integer("The tokens of all texts.", minimum=0),
        },
        required=("embeddings",),
    ),
    "OllamaEmbeddingsResponse": record({"embedding": _VECTOR}, required=("embedding",)),
    "EmbedTextsResponse": record(
        {
            "id": string(),
            "response_type": const("embeddings_by_type"),
            "embeddings": anything("Arrays of vectors, by the type of their numbers."),
            "texts": array(string()),
            "meta": anything("The version of the API, and the tokens of all texts."),
        },
        required=("id", "embeddings", "texts", "meta"),
    ),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the examples."""
    embeddings = posted(
        paths_of(EMBEDDINGS),
        id="createEmbedding",
        summary="A vector for each text",
        body={
            JSON: media(
                ref("CreateEmbeddingRequest"), two_texts={"model": model, "input": ["Hello", "Hi"]}
            )
        },
        answers={200: answer("The vectors.", {JSON: media(ref("CreateEmbeddingResponse"))})},
    )
    embed = posted(
        paths_of(EMBED),
        id="embed",
        summary="A vector for each text, as text-embeddings-inference and Cohere have it",
        about="A body with `texts` is Cohere's, one with `inputs` text-embeddings-inference's.",
        body={
            JSON: media(
                one_of(ref("EmbedInputsRequest"), ref("EmbedTextsRequest")),
                inputs={"model": model, "inputs": ["Hello", "Hi"]},
                texts={"model": model, "texts": ["Hello", "Hi"], "input_type": "search_query"},
            )
        },
        answers={
            200: answer(
                "The vectors.",
                {JSON: media(one_of(array(_VECTOR), ref("EmbedTextsResponse")))},
            )
        },
    )
    content = {"parts": [{"text": "Hello"}]}
    googles = tuple(
        replace(
            posted(
                paths_of(endpoint),
                id=id,
                tag="Google",
                summary=summary,
                body={JSON: media(ref(request), a_text=example)},
                answers={200: answer("The vectors.", {JSON: media(ref(response))})},
            ),
            form=ErrorForm.GOOGLE,
        )
        for endpoint, id, summary, request, example, response in (
            (
                *(EMBED_CONTENT, "embedContent", "A vector for a text", "EmbedContentRequest"),
                *({"content": content}, "EmbedContentResponse"),
            ),
            (
                *(BATCH_EMBED_CONTENTS, "batchEmbedContents", "A vector for each text"),
                *("BatchEmbedContentsRequest", {"requests": [{"content": content}]}),
                "BatchEmbedContentsResponse",
            ),
        )
    )
    ollama = [
        posted(
            paths_of(endpoint),
            id=id,
            summary=summary,
            tag="Ollama",
            form=ErrorForm.OLLAMA,
            body={JSON: media(ref(f"{name}Request"), a_text={"model": model, member: "Hello"})},
            answers={200: answer("The vectors.", {JSON: media(ref(f"{name}Response"))})},
        )
        for endpoint, id, name, summary, member in (
            (OLLAMA_EMBED, "ollamaEmbed", "OllamaEmbed", "A vector for each text", "input"),
            (OLLAMA_EMBEDDINGS, "ollamaEmbeddings", "OllamaEmbeddings", "A vector", "prompt"),
        )
    ]
    tokenizing = describe_tokenizing(model, TOKENIZE, DETOKENIZE)
    inputs = with_timeout(TEI_MEMBERS)
    inputs["required"] = ["inputs"]
    inputs["properties"]["texts"] = {"type": "null"}  # with texts it is the other form
    schemas = {
        "CreateEmbeddingRequest": with_timeout(EMBEDDINGS_MEMBERS),
        "EmbedInputsRequest": inputs,
        "EmbedTextsRequest": with_timeout(COHERE_MEMBERS, any_of=("texts", "inputs")),
        "EmbedContentRequest": with_timeout(EMBED_CONTENT_MEMBERS),
        "BatchEmbedContentsRequest": with_timeout(BATCH_MEMBERS),
        "OllamaEmbedRequest": with_timeout(OLLAMA_EMBED_MEMBERS),
        "OllamaEmbeddingsRequest": with_timeout(OLLAMA_EMBEDDINGS_MEMBERS),
    }
    return TaskDescription(
        (embeddings, embed, *googles, *ollama, *tokenizing.operations, describe_info()),
        {**schemas, **GOOGLE_SCHEMAS, **_ANSWER_SCHEMAS, **tokenizing.schemas, **INFO_SCHEMAS},
    )
