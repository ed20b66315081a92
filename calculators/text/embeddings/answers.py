"""Answers to requests for embeddings, as JSON: OpenAI's, Cohere's, text-embeddings-inference's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

import orjson

from calculators.text.embeddings.vectors import Floats, as_json

if TYPE_CHECKING:
    from calculators.text.embeddings.request import EmbeddingsRequest


class Answered(NamedTuple):
    """The vectors for a request, shape ``[texts, size]``, and the tokens of all texts."""

    request: EmbeddingsRequest
    vectors: Floats
    tokens: int


def openai_answer(answered: Answered) -> bytes:
    """Return the answer of ``/v3/embeddings``."""
    request, vectors, tokens = answered
    rows = as_json(vectors, request.formats[0], is_base64=request.is_base64)
    data = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (place, row)
        for place, row in enumerate(rows)
    )
    return (
        b'{"object":"list","data":[%b],"model":%b,'
        b'"usage":{"prompt_tokens":%d,"total_tokens":%d}}'
        % (data, orjson.dumps(request.model), tokens, tokens)
    )


def tei_answer(answered: Answered) -> bytes:
    """Return the answer of ``/embed``: an array of vectors."""
    return b"[" + b",".join(as_json(answered.vectors, "float", is_base64=False)) + b"]"


def cohere_answer(answered: Answered) -> bytes:
    """Return the answer of ``/v2/embed``: vectors by the type of their numbers."""
    request, vectors, tokens = answered
    by_kind = []
    for kind in request.formats:
        is_base64 = kind == "base64"
        rows = as_json(vectors, "float" if is_base64 else kind, is_base64=is_base64)
        by_kind.append(b'"%b":[%b]' % (kind.encode(), b",".join(rows)))
    return (
        b'{"id":"%b","embeddings":{%b},"texts":%b,"response_type":"embeddings_by_type",'
        b'"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":%d}}}'
        % (
            str(uuid.uuid4()).encode(),
            b",".join(by_kind),
            orjson.dumps(request.texts.values),
            tokens,
        )
    )
