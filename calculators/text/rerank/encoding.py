"""Conversion of queries and documents to token sequences, in the model's process.

A document that does not fit beside its query becomes several sequences, chunks without overlap; its
score is the highest of theirs. Encoders take pairs in their tokenizer's own form, ``[CLS] query
[SEP] document [SEP]`` with segment ids or ``<s> query </s></s> document </s>``. Decoders take a
prompt: `calculators.text.rerank.prompts`.
"""

from __future__ import annotations

from collections.abc import Iterator

from calculators.text.rerank.messages import CHARACTERS_AT_A_TIME, RankQuestion, too_many_chunks
from calculators.text.rerank.prompts import has_prompt, joined_texts, no_room, prompts
from calculators.text.text_models.encoded import Encoded, InputError, Tokens
from calculators.text.text_models.text_tokenizer import TextTokenizer


def encode(tokenizer: TextTokenizer, question: RankQuestion) -> Encoded:
    """Return the sequences of all documents in their order, and their number for each document.

    Raises:
        InputError: a query leaves no room for documents; there are too many chunks; a prompt of
            the client's own is too long.
    """
    if question.instruction and not has_prompt(tokenizer):
        raise InputError("the model takes no instruction", param="instruction")
    sequences: list[Tokens] = []
    counts: list[int] = []
    total = 0
    for query, documents in _groups(question):
        for chunks in _chunks(tokenizer, question, query, documents, len(counts)):
            if question.chunks is not None:
                del chunks[question.chunks :]
            counts.append(len(chunks))
            total += len(chunks)
            if total <= question.max_chunks:
                sequences += chunks
    if total > question.max_chunks:
        raise InputError(too_many_chunks(question.max_chunks, total), param=question.path)
    return Encoded(sequences, counts)


def _groups(question: RankQuestion) -> Iterator[tuple[str, list[str]]]:
    """Yield each query with documents of bounded length, in the order of the documents."""
    if len(question.queries) > 1:
        for query, document in zip(question.queries, question.documents, strict=True):
            yield query, [document]
        return
    group: list[str] = []
    characters = 0
    for document in question.documents:
        if group and characters + len(document) > CHARACTERS_AT_A_TIME:
            yield question.queries[0], group
            group, characters = [], 0
        group.append(document)
        characters += len(document)
    yield question.queries[0], group


def _chunks(
    tokenizer: TextTokenizer,
    question: RankQuestion,
    query: str,
    documents: list[str],
    first: int,
) -> list[list[Tokens]]:
    """Return the sequences of each document. ``first``: the index of the first one in question."""
    if has_prompt(tokenizer):
        return prompts(tokenizer, question, query, documents, first)
    if not tokenizer.adds_bos:
        return joined_texts(tokenizer, question, query, documents, first)
    most = min(question.max_tokens or tokenizer.max_tokens, tokenizer.max_tokens)
    query_tokens = min(question.query_tokens or most, most // 2)
    try:
        return tokenizer.encode_pairs(
            query,
            documents,
            most=most,
            first_most=query_tokens,
            seconds_most=question.document_tokens,
            chunks=question.chunks != 1,
            side="left" if question.keeps_end else "right",
        )
    except InputError as error:
        if error.param is not None:
            raise
        raise no_room(question) from None
