"""Optimizers: Muon for matrices between hidden layers, AdamW for the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

import torch

HIDDEN_RATE = 0.006
OTHER_RATE = 0.002
WARM_UP = 30  # steps


class Steps:
    """Steps of a lesson, limited by number and by time.

    Between two steps the caller computes the gradients. The rates rise at the start, and then fall
    along a cosine.
    """

    def __init__(self, modules: Iterable[torch.nn.Module], steps: int, minutes: float) -> None:
        hidden: list[torch.nn.Parameter] = []
        other: list[torch.nn.Parameter] = []
        for module in modules:
            for name, parameter in module.named_parameters():
                is_hidden = parameter.ndim == 2 and "embed" not in name
                (hidden if is_hidden else other).append(parameter)
        self._parameters = hidden + other
        self._optimizers = [
            torch.optim.Muon(
                hidden, lr=HIDDEN_RATE, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
            ),
            torch.optim.AdamW(other, lr=OTHER_RATE, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self._steps = steps
        self._minutes = minutes
        self._begun = time.monotonic()

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self._begun) / 60

    def __iter__(self) -> Iterator[int]:
        """Yield the number of each step, from 1, before it is made."""
        step, done = 1, 0.0
        while done < 1:
            fallen = max(0.01, 0.5 * (1 + math.cos(math.pi * done)))
            self._set_rates(min(step / WARM_UP, fallen))
            yield step
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
            for optimizer in self._optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            done = max(step / self._steps, self.minutes / self._minutes)
            step += 1

    def _set_rates(self, share: float) -> None:
        for optimizer, rate in zip(self._optimizers, (HIDDEN_RATE, OTHER_RATE), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
