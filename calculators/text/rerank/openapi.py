"""The OpenAPI description of ``/v3/rerank`` and ``/v3/score``."""

from __future__ import annotations

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
from calculators.kit.tasks.operation import (
    JSON,
    TaskDescription,
    answer,
    media,
    paths_of,
    posted,
    with_timeout,
)
from calculators.text.rerank import request
from calculators.text.rerank.endpoints import DETOKENIZE, RERANK, SCORE, TOKENIZE
from calculators.text.text_models.info_endpoint import INFO_SCHEMAS, describe_info
from calculators.text.text_models.tokenize_endpoint import describe_tokenizing

_INDEX: Final = integer("The place of the document in the request.", minimum=0)
_MODEL: Final = string("As the request has it.")
_USAGE: Final = record(
    {"prompt_tokens": integer(minimum=0), "total_tokens": integer(minimum=0)},
    required=("prompt_tokens", "total_tokens"),
)

_ANSWER_SCHEMAS: Final[dict[str, Schema]] = {
    "RerankResult": record(
        {
            "index": _INDEX,
            "relevance_score": number("From 0 to 1, unless raw scores are asked for."),
            "document": one_of(
                string(),
                anything("The document as sent; a text is in ``text``."),
                about="With `return_documents`.",
            ),
        },
        required=("index", "relevance_score"),
    ),
    "RerankResults": record(
        {
            "id": string(),
            "model": _MODEL,
            "results": array(ref("RerankResult"), "The best first; equal ones as in the request."),
            "usage": _USAGE,
            "meta": anything("Cohere's: version, units and tokens."),
        },
        required=("id", "model", "results", "usage", "meta"),
    ),
    "RerankData": record(
        {
            "object": const("list"),
            "data": array(ref("RerankResult")),
            "model": _MODEL,
            "usage": record({"total_tokens": integer(minimum=0)}, required=("total_tokens",)),
        },
        "Voyage's form, for a request with `top_k` or `truncation`.",
        required=("object", "data", "model", "usage"),
    ),
    "RerankScores": array(
        record(
            {"index": _INDEX, "score": number(), "text": string("With `return_text`.")},
            required=("index", "score"),
        ),
        "TEI's form, for a request with `texts`.",
    ),
    "RerankResponse": one_of(ref("RerankResults"), ref("RerankData"), ref("RerankScores")),
    "ScoreResponse": record(
        {
            "id": string(),
            "object": const("list"),
            "created": integer("Seconds since 1970."),
            "model": _MODEL,
            "data": array(
                record(
                    {"index": _INDEX, "object": const("score"), "score": number()},
                    required=("index", "object", "score"),
                ),
                "In the order of the request.",
            ),
            "usage": _USAGE,
        },
        required=("id", "object", "created", "model", "data", "usage"),
    ),
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the examples."""
    texts = ["Paris is the capital of France.", "Cats sleep."]
    query = "What is the capital of France?"
    rerank = posted(
        paths_of(RERANK),
        id="rerank",
        tag="Rerank",
        summary="Order documents by their relevance to a query",
        body={
            JSON: media(
                ref("RerankRequest"),
                two_documents={"model": model, "query": query, "documents": texts, "top_n": 1},
            )
        },
        answers={200: answer("The documents.", {JSON: media(ref("RerankResponse"))})},
    )
    score = posted(
        paths_of(SCORE),
        id="score",
        tag="Rerank",
        summary="A score for each pair of texts",
        body={
            JSON: media(
                ref("ScoreRequest"), two_pairs={"model": model, "text_1": query, "text_2": texts}
            )
        },
        answers={200: answer("The scores.", {JSON: media(ref("ScoreResponse"))})},
    )
    tokenizing = describe_tokenizing(model, TOKENIZE, DETOKENIZE)
    schemas = {
        "RerankRequest": with_timeout(request.RERANK_MEMBERS) | request.RERANK_NAMED,
        "ScoreRequest": with_timeout(request.SCORE_MEMBERS) | request.SCORE_NAMED,
    }
    return TaskDescription(
        (rerank, score, *tokenizing.operations, describe_info()),
        {**schemas, **_ANSWER_SCHEMAS, **tokenizing.schemas, **INFO_SCHEMAS},
    )
