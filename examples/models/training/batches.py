"""Training batches: token ids with a weight each; texts of similar length together."""

import random
from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from .conversation import TURN_END, TURN_START
from .mixture import document, twice
from .tokenizer import token_id

POOL = 1024  # documents that are sorted by length together
TWICE_POOLS = 1  # learn to look back first: copying and tool calls build on it
DRILL_POOLS = 8
LONGEST = 640  # tokens
PROMPT_WEIGHT = 0.1


class Batches:
    """An endless, repeatable supply. `pool` counts the batches used, for a later resume."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, seed: int, tokens: int) -> None:
        self.tokenizer = tokenizer
        self.seed = seed
        self.tokens = tokens
        self.turn_start = token_id(tokenizer, TURN_START)
        self.turn_end = token_id(tokenizer, TURN_END)
        self.assistant: list[int] = tokenizer.encode("assistant\n")

    def from_pool(self, pool: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (ids, weights), each [rows, length], without end."""
        while True:
            rng = random.Random(f"batches {self.seed} {pool}")
            if pool < TWICE_POOLS:
                texts = [twice(rng) for _ in range(POOL)]
            else:
                drills = 0.2 if pool < DRILL_POOLS else 0.0
                texts = [document(rng, drills) for _ in range(POOL)]
            size = self.tokens // 2 if pool < TWICE_POOLS else self.tokens
            rows = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
            rows = sorted((row for row in rows if len(row) <= LONGEST), key=len)
            groups: list[list[list[int]]] = [[]]
            for row in rows:
                if groups[-1] and (len(groups[-1]) + 1) * len(row) > size:
                    groups.append([])
                groups[-1].append(row)
            rng.shuffle(groups)
            for group in groups:
                yield self._padded(group)
            pool += 1

    def _padded(self, group: list[list[int]]) -> tuple[Tensor, Tensor]:
        length = max(len(row) for row in group)
        ids = torch.zeros((len(group), length), dtype=torch.long)
        weights = torch.zeros((len(group), length))
        for number, row in enumerate(group):
            ids[number, : len(row)] = torch.tensor(row)
            weights[number, : len(row)] = torch.tensor(self._weights(row))
        return ids, weights

    def _weights(self, row: list[int]) -> list[float]:
        """Return 1 for the assistant's text with its end token, and little for the rest."""
        weights = [PROMPT_WEIGHT] * len(row)
        if self.turn_start not in row:
            return [1.0] * len(row)
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
