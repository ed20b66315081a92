"""Trains the detector on pictures that are made during training."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from .anchors import anchors, targets
from .detector import Detector
from .pictures import LABELS, picture

log = logging.getLogger("training")


@dataclass(frozen=True)
class Settings:
    seed: int = 5
    steps: int = 4000
    minutes: float = 8.0
    batch: int = 32
    rate: float = 3e-3


def train(target: Path, settings: Settings) -> None:
    """Write the weights to ``target``."""
    torch.manual_seed(settings.seed)
    # Steps this small do not gain from more threads, and lose on busy cores.
    torch.set_num_threads(1)
    rng = np.random.default_rng(settings.seed)
    boxes = anchors()
    model = Detector().train()
    optimizer = torch.optim.AdamW(model.parameters(), settings.rate, weight_decay=1e-3)
    begun = time.monotonic()
    done, running = 0.0, 0.0
    step = 0
    while done < 1.0:
        # The rate falls to zero by time or by steps, whichever ends first.
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * min(1.0, (step + 1) / 100) * (1 - done)
        images, labels, corrections = _batch(rng, settings.batch, boxes)
        loss = _loss(*model(images), labels, corrections)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        running = 0.98 * running + 0.02 * float(loss.detach())
        step += 1
        spent = (time.monotonic() - begun) / 60
        done = max(step / settings.steps, spent / settings.minutes)
        if step % 200 == 0:
            log.info("step %d, %.1f minutes, loss %.3f", step, spent, running)
    target.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), target)


def _batch(
    rng: np.random.Generator, size: int, boxes: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    pictures = [picture(rng) for _ in range(size)]
    wanted = [targets(one.truths, boxes) for one in pictures]
    pixels = np.stack([one.pixels for one in pictures]).astype(np.float32) / 127.5 - 1
    return (
        torch.from_numpy(pixels),
        torch.from_numpy(np.stack([labels for labels, _ in wanted])),
        torch.from_numpy(np.stack([corrections for _, corrections in wanted])),
    )


def _loss(
    found: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, corrections: torch.Tensor
) -> torch.Tensor:
    """Focal loss of the scores, and smooth L1 loss of the corrections where there is a shape."""
    there = labels >= 0
    count = there.sum().clamp(min=1)
    wanted = functional.one_hot(labels.clamp(min=0), len(LABELS)) * there[..., None]
    wanted = wanted.to(scores.dtype)
    errors = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
    sure = torch.sigmoid(scores)
    sure = wanted * sure + (1 - wanted) * (1 - sure)
    weight = (wanted * 0.5 + (1 - wanted) * 0.5) * (1 - sure) ** 2
    classes = (errors * weight * (labels != -2)[..., None]).sum() / count
    boxes = functional.smooth_l1_loss(found[there], corrections[there], reduction="sum") / count
    return 2.0 * classes + 0.5 * boxes
