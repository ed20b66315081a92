"""The embedder: a small BERT, and its training by pairs."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import BertConfig, BertModel

from .documents import Section, training_pair

log = logging.getLogger("training")

#: Tokens of a text, special ones included.
MAX_TOKENS = 256
SIZE = 128


@dataclass(frozen=True)
class Settings:
    seed: int = 5
    steps: int = 600
    minutes: float = 6.0
    batch: int = 48
    rate: float = 2e-3
    #: Divisor of similarities: the smaller, the more near misses count.
    temperature: float = 0.05


def make_embedder(vocabulary: int, padding: int) -> BertModel:
    """Return an untrained model of 2 layers and `SIZE` numbers a token."""
    return BertModel(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=SIZE,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=2 * SIZE,
            max_position_embeddings=MAX_TOKENS,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=padding,
        ),
        add_pooling_layer=False,
    )


def train(
    model: BertModel, tokenizer: Tokenizer, sections: list[Section], settings: Settings
) -> None:
    """Train on all sections but the held-out ones; a batch's other texts are its wrong answers."""
    torch.set_num_threads(2)
    source = random.Random(settings.seed)
    known = [section for section in sections if not section.is_held_out]
    optimizer = torch.optim.AdamW(model.parameters(), settings.rate, weight_decay=0.01)
    begun = time.monotonic()
    done, step, running = 0.0, 0, 0.0
    while done < 1.0:
        # The rate falls to zero by time or by steps, whichever ends first.
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * min(1.0, (step + 1) / 10) * (1 - done)
        chosen = source.sample(known, min(settings.batch, len(known)))
        questions, texts = zip(*(training_pair(each, source) for each in chosen), strict=True)
        asked = embed(model, tokenizer, list(questions), 20)
        found = embed(model, tokenizer, list(texts), 80)
        likeness = asked @ found.T / settings.temperature
        wanted = torch.arange(len(chosen))
        loss = functional.cross_entropy(likeness, wanted)
        loss = loss + functional.cross_entropy(likeness.T, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = (
            float(loss.detach()) if step == 0 else 0.95 * running + 0.05 * float(loss.detach())
        )
        step += 1
        spent = (time.monotonic() - begun) / 60
        done = max(step / settings.steps, spent / settings.minutes)
        if step % 20 == 0:
            right, near = hits(model, tokenizer, sections)
            log.info(
                "step %d, %.1f minutes, loss %.2f; held-out hit@1 %.2f, hit@5 %.2f",
                *(step, spent, running, right, near),
            )


def embed(model: BertModel, tokenizer: Tokenizer, texts: list[str], longest: int) -> torch.Tensor:
    """Return the vectors of texts, which are cut to so many tokens, each of length 1."""
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(texts)
    ids = torch.tensor([each.ids for each in encoded])
    mask = torch.tensor([each.attention_mask for each in encoded])
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    shown = mask.unsqueeze(-1)
    return functional.normalize((hidden * shown).sum(1) / shown.sum(1), dim=-1)


@torch.no_grad()
def hits(model: BertModel, tokenizer: Tokenizer, sections: list[Section]) -> tuple[float, float]:
    """Return the parts of held-out titles whose section is the first, or among the first five."""
    held_out = [section for section in sections if section.is_held_out]
    asked = embed(model, tokenizer, [each.title for each in held_out], 32)
    found = embed(model, tokenizer, [each.text[:500] for each in held_out], 128)
    order = (asked @ found.T).argsort(dim=1, descending=True)
    rank = (order == torch.arange(len(held_out)).unsqueeze(1)).nonzero()[:, 1]
    return float((rank == 0).float().mean()), float((rank < 5).float().mean())


def save_weights(model: BertModel, file: Path) -> None:
    """Write the weights for `export`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), file)
