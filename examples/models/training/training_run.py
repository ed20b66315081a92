"""Trains the model; it can be stopped and resumed."""

import logging
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from .batches import Batches
from .language_model import new_model
from .tokenizer import saved_tokenizer, train_tokenizer

log = logging.getLogger("training")


@dataclass(frozen=True)
class Settings:
    seed: int = 7
    steps: int = 2000
    batch_tokens: int = 4096
    warmup: int = 20
    hidden_rate: float = 0.006  # Muon, for matrices between hidden layers
    other_rate: float = 0.003  # AdamW, for embeddings and norms
    minutes: float = 600.0  # the run ends there even before `steps`; the rates fall with time
    save_every: int = 100
    threads: int = 2


def train(directory: Path, settings: Settings) -> None:
    """Train in `directory`, or resume there; the trained model is in `directory/model`."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    tokenizer = _tokenizer(directory / "tokenizer", settings.seed)
    model = new_model(tokenizer)
    log.info("%d parameters", sum(parameter.numel() for parameter in model.parameters()))
    optimizers = make_optimizers(model, settings)
    batches = Batches(tokenizer, settings.seed, settings.batch_tokens)
    step, pool, seconds, seen = 0, 0, 0.0, 0
    checkpoint = directory / "checkpoint.pt"
    if checkpoint.exists():
        saved: dict[str, Any] = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        step, seconds, seen = saved["step"], saved["seconds"], saved["tokens"]
        pool = 1_000_000 + step  # other data than before: a pool that was used in part is not kept
        log.info("going on at step %d", step)
    done = max(step / settings.steps, seconds / 60 / settings.minutes)
    model.train()
    supply = batches.from_pool(pool)
    total, total_weight = 0.0, 0.0
    while done < 1:
        began = time.monotonic()
        rate = rate_at(step, done, settings)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full_rate"] * rate
        ids, weights = next(supply)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1]).logits
        losses = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
        flat = weights[:, 1:].flatten()
        loss = (losses * flat).sum() / flat.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        answered = flat == 1.0
        total += float((losses.detach() * answered).sum())
        total_weight += float(answered.sum())
        seen += ids.numel()
        seconds += time.monotonic() - began
        done = max(step / settings.steps, seconds / 60 / settings.minutes)
        if step % 25 == 0:
            speed = seen / seconds
            log.info(
                "step %5d/%d  answer loss %.4f  %.0f tokens/s  %.1f minutes",
                step, settings.steps, total / total_weight, speed, seconds / 60,
            )  # fmt: skip
            total, total_weight = 0.0, 0.0
        if step % settings.save_every == 0 or done >= 1:
            state = {
                "model": model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "step": step,
                "seconds": seconds,
                "tokens": seen,
                "settings": asdict(settings),
            }
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
    model.save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")
    log.info("done: %d steps, %d tokens, %.1f minutes", step, seen, seconds / 60)


def _tokenizer(directory: Path, seed: int) -> PreTrainedTokenizerFast:
    if not directory.exists():
        log.info("training the tokenizer")
        train_tokenizer(seed).save_pretrained(directory)
    return saved_tokenizer(directory)


def make_optimizers(model: Qwen3ForCausalLM, settings: Settings) -> list[torch.optim.Optimizer]:
    hidden: list[torch.nn.Parameter] = []
    other: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (hidden if parameter.ndim == 2 and "embed" not in name else other).append(parameter)
    muon = torch.optim.Muon(
        hidden, lr=settings.hidden_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
    )
    adam = torch.optim.AdamW(other, lr=settings.other_rate, betas=(0.9, 0.98), weight_decay=0.0)
    for optimizer, rate in ((muon, settings.hidden_rate), (adam, settings.other_rate)):
        for group in optimizer.param_groups:
            group["full_rate"] = rate
    return [muon, adam]


def rate_at(step: int, done: float, settings: Settings) -> float:
    """Return the share of the full rates: up at the start, then down along a cosine."""
    return min((step + 1) / settings.warmup, max(0.01, 0.5 * (1 + math.cos(math.pi * done))))
