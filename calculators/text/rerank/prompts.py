"""Prompts of rerankers that are decoders: Qwen3-Reranker's, and those that clients write.

Qwen3-Reranker judges a prompt of its own form by the next word, yes or no. A client of OpenVINO
Model Server writes the prompt itself, its beginning as the query and its end as each document.
Other clients send query and document alone, and the prompt is written here.

Source of the form: the model card of Qwen/Qwen3-Reranker-0.6B.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.text.rerank.messages import RankQuestion
from calculators.text.text_models.encoded import InputError, Tokens
from calculators.text.text_models.text_tokenizer import TextTokenizer

Ids: TypeAlias = NDArray[np.int64]

#: Types of models, by config.json.
PROMPTED: Final = frozenset({"qwen3"})
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
) -> list[list[Tokens]]:
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
    made: list[list[Tokens]] = []
    texts = [f"{asked} {document}" for document in documents]
    for tokens in tokenizer.encode(texts, adds_special=False):
        # The head ends where a word does, so that documents only lengthen its tokens.
        start = min(len(head.ids), len(tokens.ids))
        ids = tokens.ids[start:]
        room = most - start
        if room < 1:
            raise no_room(question)
        if question.document_tokens is not None:
            ids = _kept(ids, question.document_tokens, keeps_end=question.keeps_end)
        if question.chunks == 1:
            ids = _kept(ids, room, keeps_end=question.keeps_end)
        made.append(
            [
                Tokens(
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
) -> list[list[Tokens]]:
    """Return each document behind the query as one sequence, for prompts that clients write.

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
    """The error of a query that leaves no room for one token of a document."""
    param = "query" if question.max_tokens is None else "truncate_prompt_tokens"
    return InputError("Chunking failed: no space left for chunks", param=param)


def _cut(tokenizer: TextTokenizer, text: str, most: int) -> str:
    (tokens,) = tokenizer.encode([text], adds_special=False)
    return text if len(tokens.ids) <= most else tokenizer.decode(tokens.ids[:most].tolist())


def _kept(ids: Ids, most: int, *, keeps_end: bool) -> Ids:
    return ids[max(len(ids) - most, 0) :] if keeps_end else ids[:most]
