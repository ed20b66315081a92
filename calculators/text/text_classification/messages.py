"""Questions to the process of a model that classifies texts; MessagePack."""

from __future__ import annotations

from typing import Literal

import msgspec


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
