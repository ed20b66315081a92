"""Trains the draft model: to predict the trained model's tokens at a sixth of its size."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import kl_div
from transformers import Qwen3ForCausalLM

from .batches import Batches
from .language_model import DRAFT, new_model
from .tokenizer import saved_tokenizer
from .training_run import Settings, make_optimizers, rate_at

log = logging.getLogger("draft")


@dataclass(frozen=True)
class DraftSettings(Settings):
    seed: int = 8
    steps: int = 1300
    batch_tokens: int = 2048
    minutes: float = 60.0
    threads: int = 1  # more are not faster for matrices of this size


def train_draft(directory: Path, settings: DraftSettings) -> None:
    """Train from ``directory/model``, without a pause; the draft model is in ``directory/draft``.

    Both models read the same texts, and the draft model learns the distribution that the main model
    gives to every next token, rather than the texts.
    """
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    tokenizer = saved_tokenizer(directory / "model")
    teacher = Qwen3ForCausalLM.from_pretrained(directory / "model").eval()
    model = new_model(tokenizer, DRAFT)
    log.info("%d parameters", sum(parameter.numel() for parameter in model.parameters()))
    optimizers = make_optimizers(model, settings)
    supply = Batches(tokenizer, settings.seed, settings.batch_tokens).from_pool(0)
    step, seen, began = 0, 0, time.monotonic()
    agreed, total, done = 0.0, 0.0, 0.0
    model.train()
    while done < 1:
        rate = rate_at(step, done, settings)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full_rate"] * rate
        ids, weights = next(supply)
        ids, weights = ids[:, :-1], weights[:, 1:].flatten()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                wanted = teacher(input_ids=ids).logits.flatten(0, 1).float()
            logits = model(input_ids=ids).logits.flatten(0, 1).float()
        losses = kl_div(
            logits.log_softmax(-1), wanted.log_softmax(-1), reduction="none", log_target=True
        ).sum(-1)
        loss = (losses * weights).sum() / weights.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        answered = weights == 1.0
        agreed += float(((logits.argmax(-1) == wanted.argmax(-1)) & answered).sum())
        total += float(answered.sum())
        step += 1
        seen += ids.numel()
        minutes = (time.monotonic() - began) / 60
        done = max(step / settings.steps, minutes / settings.minutes)
        if step % 25 == 0 or done >= 1:
            log.info(
                "step %5d/%d  same token %.1f%%  %d tokens  %.1f minutes",
                step, settings.steps, 100 * agreed / total, seen, minutes,
            )  # fmt: skip
            agreed, total = 0.0, 0.0
    model.save_pretrained(directory / "draft")
    tokenizer.save_pretrained(directory / "draft")
