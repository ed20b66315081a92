"""The question that the server puts to the process of a reranking model; MessagePack."""

from __future__ import annotations

import msgspec


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
