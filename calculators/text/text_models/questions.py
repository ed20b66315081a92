"""Questions that every encoder model's process answers, besides those of its task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from calculators.text.text_models.encoded import Encoded, InputError
from calculators.text.text_models.text_tokenizer import TextTokenizer


class Tokenize(msgspec.Struct, frozen=True, tag="tokenize", array_like=True):
    """Tokens of texts; the note of the answer is a `Tokenized`.

    Attributes:
        most: cut texts to this many tokens.
        with_offsets: also return the characters of each token.
    """

    texts: list[str]
    adds_special: bool = True
    most: int | None = None
    side: Literal["left", "right"] = "right"
    with_offsets: bool = False


class Detokenize(msgspec.Struct, frozen=True, tag="detokenize", array_like=True):
    """The text of token ids; the note of the answer is the text."""

    tokens: list[int]
    skips_special: bool = False


class Tokenized(msgspec.Struct, frozen=True, array_like=True):
    """Token ids of each text.

    Attributes:
        offsets: of each token its first character and the one behind its last; None: not asked.
        pad: the id of the padding token.
    """

    tokens: list[list[int]]
    offsets: list[list[tuple[int, int]]] | None
    pad: int


def answer_question(tokenizer: TextTokenizer, question: Tokenize | Detokenize) -> Encoded:
    """Return the answer, which has no sequences.

    Raises:
        InputError: ids are not in the vocabulary; the tokenizer knows no offsets.
    """
    if isinstance(question, Detokenize):
        check_ids(question.tokens, tokenizer.vocabulary, "tokens")
        text = tokenizer.decode(question.tokens, skips_special=question.skips_special)
        return Encoded([], text)
    if question.most is None:
        made = tokenizer.encode(question.texts, adds_special=question.adds_special)
    else:
        made = tokenizer.encode_cut(
            question.texts,
            most=question.most,
            side=question.side,
            adds_special=question.adds_special,
        )
    offsets = None
    if question.with_offsets:
        offsets = [
            tokenizer.offsets(text, adds_special=question.adds_special)[: len(tokens.ids)]
            for text, tokens in zip(question.texts, made, strict=True)
        ]
    ids = [tokens.ids.tolist() for tokens in made]
    return Encoded([], Tokenized(ids, offsets, tokenizer.pad))


def check_ids(ids: Sequence[int], vocabulary: int, param: str) -> None:
    """Refuse token ids that the model has no vector for.

    Raises:
        InputError: with the first of them.
    """
    if not vocabulary:
        raise InputError(
            "token ids are not taken: the model's config.json does not have vocab_size", param
        )
    if ids and not 0 <= min(ids) <= max(ids) < vocabulary:
        place, wrong = next(
            (place, each) for place, each in enumerate(ids) if not 0 <= each < vocabulary
        )
        raise InputError(
            f"the token id {wrong} is not in the model's vocabulary, whose ids are 0 to "
            f"{vocabulary - 1}; tokens must come from this model's tokenizer",
            f"{param}[{place}]",
            "OUT_OF_RANGE",
        )
