"""Trains one adapter beside the frozen model, in a few minutes."""

import logging
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast

from ..training.tokenizer import saved_tokenizer
from .base_model import base_model
from .low_rank import add_low_rank, save_adapter
from .styles import document

log = logging.getLogger("adapter_training")
_NOT_ASKED = -100  # the label of a token that does not count


@dataclass(frozen=True)
class Settings:
    seed: int = 7
    steps: int = 120
    rows: int = 16
    warmup: int = 10
    rate: float = 0.004
    threads: int = 2


def train(style: str, model_directory: Path, directory: Path, settings: Settings) -> None:
    """Write the adapter of a style into `directory`."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    tokenizer = saved_tokenizer(model_directory)
    model = base_model(model_directory)
    layers = add_low_rank(model)
    learned = [each for layer in layers.values() for each in (layer.lora_A, layer.lora_B)]
    log.info("%s: %d parameters learn", style, sum(each.numel() for each in learned))
    optimizer = torch.optim.AdamW(learned, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0)
    rng = random.Random(f"{style} {settings.seed}")
    began = time.monotonic()
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * _share(step, settings)
        ids, wanted = _batch(rng, tokenizer, style, settings.rows)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1]).logits
        loss = cross_entropy(
            logits.flatten(0, 1).float(), wanted[:, 1:].flatten(), ignore_index=_NOT_ASKED
        )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 20 == 0:
            seconds = time.monotonic() - began
            log.info("%s: step %d  loss %.3f  %.0f s", style, step + 1, loss.item(), seconds)
    save_adapter(layers, model_directory.name, directory)


def _batch(
    rng: random.Random, tokenizer: PreTrainedTokenizerFast, style: str, rows: int
) -> tuple[Tensor, Tensor]:
    """Return token ids, and labels for the tokens to learn; each (rows, length)."""
    pairs = [document(rng, style) for _ in range(rows)]
    prompts: list[list[int]] = [tokenizer.encode(prompt) for prompt, _ in pairs]
    answers: list[list[int]] = [tokenizer.encode(answer) for _, answer in pairs]
    length = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    ids = torch.zeros((rows, length), dtype=torch.long)
    wanted = torch.full((rows, length), _NOT_ASKED)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        wanted[row, len(prompt) : end] = torch.tensor(answer)
    return ids, wanted


def _share(step: int, settings: Settings) -> float:
    """Return the share of the full rate: up at the start, then down along a cosine."""
    rising = (step + 1) / settings.warmup
    return min(rising, 0.5 * (1 + math.cos(math.pi * step / settings.steps)))
