"""`Embed`: texts or token ids to embed, and their conversion to tokens in the model's process."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from calculators.text.text_models.text_tokenizer import (
    Encoded,
    InputError,
    TextTokenizer,
    TextTokens,
    check_ids,
)

#: The side of a text that is cut off if it is too long; "": it is refused.
Cut = Literal["", "left", "right"]


class Embed(msgspec.Struct, frozen=True, tag="embed", array_like=True):
    """Embed texts, or token ids.

    Attributes:
        texts: the texts, if they are not token ids.
        ids: the token ids of each text, if they are.
        prompt: put before each text.
        most: the most tokens of a text; None: as many as the model takes.
        param: the member of the request that has the texts, for errors.
        is_list: the member is an array of them, not a single one.
        adds_special: add the special tokens of the tokenizer's template to texts.
    """

    texts: list[str]
    ids: list[list[int]]
    prompt: str
    cut: Cut
    most: int | None
    param: str
    is_list: bool
    adds_special: bool = True


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
            sequences = [TextTokens(each[kept]) for each, _ in sequences]
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


def _of_ids(tokenizer: TextTokenizer, question: Embed, place: int, ids: list[int]) -> TextTokens:
    check_ids(ids, tokenizer.vocabulary, _path(question, place))
    return TextTokens(np.array(ids, np.int64))


def _path(question: Embed, place: int) -> str:
    return f"{question.param}[{place}]" if question.is_list else question.param
