"""`Embed`: the question to the process of an embedding model."""

from __future__ import annotations

from typing import Literal

import msgspec

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
