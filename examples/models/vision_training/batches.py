"""Training batches: token ids with a weight for each, and the patches of their pictures."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from ..training.conversation import TURN_END, TURN_START
from ..training.tokenizer import token_id
from .conversations import Seen, conversation, random_size
from .patches import PATCH, patches, tokens, truth
from .pictures import Picture
from .tokenizer import IMAGE_PAD, VISION_END, VISION_START

POOL = 512  # conversations that are sorted by length together
_IMAGE = re.compile(r"<ov_genai_image_(\d+)>")


@dataclass(frozen=True)
class Images:
    """All pictures of a batch, one after the other."""

    patches: Tensor  # [patches, values of a patch]
    grids: Tensor  # [pictures, 3]: 1, patches down, patches across
    truth: Tensor  # [tokens, 2]: shape and colour at that place


@dataclass(frozen=True)
class Batch:
    """``ids`` and ``weights`` are [rows, length]."""

    ids: Tensor
    weights: Tensor
    images: Images | None


class Batches:
    """An endless, repeatable supply."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, rng: random.Random, rows: int) -> None:
        self.tokenizer = tokenizer
        self.rng = rng
        self.rows = rows
        self.turn_start = token_id(tokenizer, TURN_START)
        self.turn_end = token_id(tokenizer, TURN_END)
        self.assistant: list[int] = tokenizer.encode("assistant\n")

    def __iter__(self) -> Iterator[Batch]:
        while True:
            pool = [conversation(self.rng, *random_size(self.rng)) for _ in range(POOL)]
            texts = [native(one) for one in pool]
            ids = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
            pairs = sorted(zip(pool, ids, strict=True), key=lambda pair: len(pair[1]))
            groups = [pairs[place : place + self.rows] for place in range(0, POOL, self.rows)]
            self.rng.shuffle(groups)
            for group in groups:
                yield self._batch(*zip(*group, strict=True))

    def _batch(self, seen: tuple[Seen, ...], rows: tuple[list[int], ...]) -> Batch:
        length = max(len(row) for row in rows)
        ids = torch.full((len(rows), length), self.tokenizer.pad_token_id)
        weights = torch.zeros((len(rows), length))
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            weights[number, : len(row)] = torch.tensor(self._weights(row))
        pictures = [picture for one in seen for picture in one.pictures]
        return Batch(ids, weights, images_of(pictures) if pictures else None)

    def _weights(self, row: list[int]) -> list[float]:
        """Return 1 for the assistant's text with its end token, 0 for the rest."""
        weights = [0.0] * len(row)
        width = len(self.assistant)
        inside, begin = False, 0
        for place, token in enumerate(row):
            if token == self.turn_start:
                inside = row[place + 1 : place + 1 + width] == self.assistant
                begin = place + 1 + width
            elif inside and place >= begin:
                weights[place] = 1.0
                inside = token != self.turn_end
        return weights


def images_of(pictures: list[Picture]) -> Images:
    sizes = [picture.pixels.shape for picture in pictures]
    return Images(
        torch.from_numpy(np.concatenate([patches(picture.pixels) for picture in pictures])),
        torch.tensor([(1, size[0] // PATCH, size[1] // PATCH) for size in sizes]),
        torch.from_numpy(np.concatenate([truth(picture) for picture in pictures])),
    )


def native(seen: Seen) -> str:
    """Return the text with the model's own tokens in place of its pictures."""

    def marks(found: re.Match[str]) -> str:
        count = tokens(seen.pictures[int(found[1])].pixels)
        return VISION_START + IMAGE_PAD * count + VISION_END

    return _IMAGE.sub(marks, seen.text)
