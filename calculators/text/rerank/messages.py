"""The question that the server puts to the process of a reranking model; MessagePack."""

from __future__ import annotations

from typing import Final

import msgspec

#: Characters of documents in one question, and in one call of the tokenizer: tokens with their
#: offsets take many times the space. A longer document comes alone.
CHARACTERS_AT_A_TIME: Final = 256 * 1024


class RankQuestion(msgspec.Struct, frozen=True, tag="rank", array_like=True):
    """Score documents. The note beside the answer's rows is the number of rows of each document.

    Attributes:
        queries: one for all documents, or one for each.
        documents: at least one.
        path: the request's member with the documents, for errors.
        first: the index of the first document there.
        instruction: the task, for models that are given one; "" is the model's own.
        max_chunks: rows that may come back at most.
        max_tokens, query_tokens, document_tokens, chunks, keeps_end: see `Cutting`.
    """

    queries: list[str]
    documents: list[str]
    path: str
    first: int
    instruction: str
    max_chunks: int
    max_tokens: int | None = None
    query_tokens: int | None = None
    document_tokens: int | None = None
    chunks: int | None = None
    keeps_end: bool = False


def too_many_chunks(most: int, found: int) -> str:
    """Return the text for a client whose documents have more chunks than a request may have."""
    return (
        f"Chunking failed: exceeding max_allowed_chunks after chunking limit: {most}; "
        f"actual: {found}"
    )
