"""Conversion of an `Embed` to sequences of tokens, in the model's process."""

from __future__ import annotations

import numpy as np

from calculators.text.embeddings.question import Embed
from calculators.text.text_models.encoded import Encoded, InputError, Tokens
from calculators.text.text_models.questions import check_ids
from calculators.text.text_models.text_tokenizer import TextTokenizer


def encode(tokenizer: TextTokenizer, question: Embed) -> Encoded:
    """Return the tokens of each text.

    Raises:
        InputError: a text is too long, or has no tokens; an id is not in the vocabulary.
    """
    most = tokenizer.max_tokens
    if question.most is not None:
        most = min(most, question.most)
    texts = [question.prompt + text for text in question.texts]
    if question.ids:
        sequences = [
            _of_ids(tokenizer, question, place, each) for place, each in enumerate(question.ids)
        ]
        if question.cut:
            kept = slice(most) if question.cut == "right" else slice(-most, None)
            sequences = [Tokens(each[kept]) for each, _ in sequences]
    elif question.cut:
        sequences = tokenizer.encode_cut(
            texts, most=most, side=question.cut, adds_special=question.adds_special
        )
    else:
        sequences = tokenizer.encode(texts, adds_special=question.adds_special)
    for place, (each, _) in enumerate(sequences):
        if len(each) > most:
            # The text of OpenVINO Model Server.
            raise InputError(
                f"Input length {len(each)} longer than allowed {most}",
                _path(question, place),
                "OUT_OF_RANGE",
            )
        if not len(each):
            raise InputError("the text has no tokens", _path(question, place))
    return Encoded(sequences)


def _of_ids(tokenizer: TextTokenizer, question: Embed, place: int, ids: list[int]) -> Tokens:
    check_ids(ids, tokenizer.vocabulary, _path(question, place))
    return Tokens(np.array(ids, np.int64))


def _path(question: Embed, place: int) -> str:
    return f"{question.param}[{place}]" if question.is_list else question.param
