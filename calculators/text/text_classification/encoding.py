"""`Classify`: texts, and their conversion to windows of tokens in the model's process."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import numpy as np

from calculators.text.text_models.text_tokenizer import (
    Encoded,
    InputError,
    TextTokenizer,
    TextTokens,
)


class Classify(msgspec.Struct, frozen=True, tag="classify", array_like=True):
    """Compute the model's outputs for texts.

    The answer has a row for each window of each text. Its note is a pair of lists: the windows and
    the tokens of each text, special tokens included, without repetitions.

    Attributes:
        texts: at least one.
        places: the member of the request that each text comes from, for errors.
        seconds: the second texts of pairs, one for each of ``texts``; None for a text alone.
            Empty: all stand alone.
        cut: the end that is cut off a text that is too long; None: it is split into windows.
    """

    texts: list[str]
    places: list[str]
    seconds: list[str | None] = []
    cut: Literal["left", "right"] | None = None


#: Neighbours share at least this part of a window, so that a phrase at a border is seen whole.
_SHARED: Final = 8


def window_starts(length: int, room: int) -> list[int]:
    """Return the first tokens of windows of ``room`` tokens over ``length`` tokens.

    All windows have the same size, so that each counts the same in a mean; the last one ends with
    the text. A text that fits has one window.
    """
    if length <= room:
        return [0]
    step = max(room - room // _SHARED, 1)
    count = -(-(length - room) // step)
    return [round(place * (length - room) / count) for place in range(count + 1)]


def encode(tokenizer: TextTokenizer, question: Classify) -> Encoded:
    """Return the windows of all texts, one text after the other; see `Classify` for the note."""
    sequences: list[TextTokens] = []
    windows: list[int] = []
    counts: list[int] = []
    seconds = question.seconds or [None] * len(question.texts)
    alone = [text for text, second in zip(question.texts, seconds, strict=True) if second is None]
    whole = iter(tokenizer.encode(alone) if alone else ())
    for text, second, place in zip(question.texts, seconds, question.places, strict=True):
        if second is None:
            found, count = _windows(tokenizer, text, next(whole), question.cut)
        else:
            (found,) = tokenizer.encode_pairs(text, [second], chunks=question.cut is None)
            count = sum(len(each.ids) for each in found)
        if not count:
            raise InputError("the text has no tokens", param=place)
        sequences += found
        windows.append(len(found))
        counts.append(count)
    return Encoded(sequences, (windows, counts))


def _windows(
    tokenizer: TextTokenizer, text: str, whole: TextTokens, cut: Literal["left", "right"] | None
) -> tuple[list[TextTokens], int]:
    """Return the windows of a text, each with all special tokens, and the number of its tokens."""
    length = len(whole.ids)
    if length <= tokenizer.max_tokens:
        return [whole], length
    if cut is not None:
        (short,) = tokenizer.encode_cut([text], side=cut)
        return [short], len(short.ids)
    (plain,) = tokenizer.encode([text], adds_special=False)
    room = tokenizer.max_tokens - (length - len(plain.ids))
    if room < 1:
        raise InputError("the model has no room for a text beside its special tokens")
    before = _place(whole, plain)
    head, tail = whole.ids[:before], whole.ids[before + len(plain.ids) :]
    windows = [
        TextTokens(np.concatenate([head, plain.ids[start : start + room], tail]))
        for start in window_starts(len(plain.ids), room)
    ]
    return windows, length


def _place(whole: TextTokens, plain: TextTokens) -> int:
    """Return the place of a text's own tokens among those with the special ones."""
    extra = len(whole.ids) - len(plain.ids)
    for before in range(extra + 1):
        if np.array_equal(whole.ids[before : before + len(plain.ids)], plain.ids):
            return before
    return extra  # a tokenizer that encodes a text differently beside special tokens
