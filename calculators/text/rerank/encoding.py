"""`RankQuestion`: queries and documents, and their conversion to tokens in the model's process.

A document that does not fit beside its query becomes several sequences, chunks without overlap; its
score is the highest of theirs. Encoders take pairs in their tokenizer's own form, ``[CLS] query
[SEP] document [SEP]`` with segment ids or ``<s> query </s></s> document </s>``.

Decoders take a prompt. Qwen3-Reranker judges a prompt of its own form by the next word, yes or no
(source: the model card of Qwen/Qwen3-Reranker-0.6B). A client of OpenVINO Model Server writes the
prompt itself, its beginning as the query and its end as each document. Other clients send query and
document alone, and the prompt is written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from calculators.text.text_models.messages import PROMPTED
from calculators.text.text_models.text_tokenizer import (
    Encoded,
    InputError,
    TextTokenizer,
    TextTokens,
)

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


def encode(tokenizer: TextTokenizer, question: RankQuestion) -> Encoded:
    """Return the sequences of all documents in their order, and their number for each document.

    Raises:
        InputError: a query leaves no room for documents; there are too many chunks; a prompt of
            the client's own is too long.
    """
    if question.instruction and not has_prompt(tokenizer):
        raise InputError("the model takes no instruction", param="instruction")
    sequences: list[TextTokens] = []
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
) -> list[list[TextTokens]]:
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


Ids: TypeAlias = NDArray[np.int64]

_BEGIN: Final = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
_END: Final = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_TASK: Final = "Given a web search query, retrieve relevant passages that answer the query"
#: The beginning of a token of this form in a text, which a document could use to judge itself.
_TOKEN: Final = re.compile(r"<(?=\|\w+\|>|/?think>)")
#: A query with this has the client's own prompt.
_MARK: Final = "<|im_start|>"


def has_prompt(tokenizer: TextTokenizer) -> bool:
    """Return whether the model judges prompts of the form that is known here."""
    return tokenizer.config.get("model_type") in PROMPTED


def prompts(
    tokenizer: TextTokenizer, question: RankQuestion, query: str, documents: list[str], first: int
) -> list[list[TextTokens]]:
    """Return the prompts of each document, several where it is too long for one.

    Raises:
        InputError: the query leaves no room; a prompt of the client's own is too long.
    """
    if _MARK in query:
        if question.instruction:
            raise InputError("the query has a prompt of its own", param="instruction")
        return joined_texts(tokenizer, question, query, documents, first)
    begin, end = tokenizer.encode([_BEGIN, _END], adds_special=False)
    most = min(question.max_tokens or tokenizer.max_tokens, tokenizer.max_tokens)
    most -= len(begin.ids) + len(end.ids)
    # Without width: the text looks as before, and has no token.
    query, *documents = (_TOKEN.sub("<\u200b", text) for text in (query, *documents))
    query = _cut(tokenizer, query, min(question.query_tokens or most, most // 2))
    asked = f"<Instruct>: {question.instruction or _TASK}\n<Query>: {query}\n<Document>:"
    (head,) = tokenizer.encode([asked], adds_special=False)
    made: list[list[TextTokens]] = []
    texts = [f"{asked} {document}" for document in documents]
    for tokens in tokenizer.encode(texts, adds_special=False):
        # The head ends where a word does, so that documents only lengthen its tokens.
        start = min(len(head.ids), len(tokens.ids))
        ids = tokens.ids[start:]
        room = most - start
        if room < 1:
            raise no_room(question)
        if question.document_tokens is not None:
            ids = _cut_ids(ids, question.document_tokens, keeps_end=question.keeps_end)
        if question.chunks == 1:
            ids = _cut_ids(ids, room, keeps_end=question.keeps_end)
        made.append(
            [
                TextTokens(
                    np.concatenate(
                        [begin.ids, tokens.ids[:start], ids[place : place + room], end.ids]
                    )
                )
                for place in range(0, max(len(ids), 1), room)
            ]
        )
    return made


def joined_texts(
    tokenizer: TextTokenizer, question: RankQuestion, query: str, documents: list[str], first: int
) -> list[list[TextTokens]]:
    """Return each document after the query as one sequence, for prompts that clients write.

    Raises:
        InputError: a prompt is too long for the model.
    """
    texts = [query + document for document in documents]
    made = []
    for place, tokens in enumerate(tokenizer.encode(texts, adds_special=False), first):
        if len(tokens.ids) > tokenizer.max_tokens:
            raise InputError(
                f"The requests length of {len(tokens.ids)} tokens exceeds the model context of "
                f"{tokenizer.max_tokens}",
                param=f"{question.path}[{question.first + place}]",
            )
        made.append([tokens])
    return made


def no_room(question: RankQuestion) -> InputError:
    """Return the error of a query that leaves no room for one token of a document."""
    param = "query" if question.max_tokens is None else "truncate_prompt_tokens"
    return InputError("Chunking failed: no space left for chunks", param=param)


def _cut(tokenizer: TextTokenizer, text: str, most: int) -> str:
    (tokens,) = tokenizer.encode([text], adds_special=False)
    return text if len(tokens.ids) <= most else tokenizer.decode(tokens.ids[:most].tolist())


def _cut_ids(ids: Ids, most: int, *, keeps_end: bool) -> Ids:
    return ids[max(len(ids) - most, 0) :] if keeps_end else ids[:most]
