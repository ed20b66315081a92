"""The first lesson: seeing which shape of which colour is at each place of a picture.

Words alone teach the vision tower slowly: a picture has 16 places, and an answer only three words.
"""

from __future__ import annotations

import logging
import random

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen2VLForConditionalGeneration

from .batches import Images, images_of
from .conversations import random_size
from .optimizing import Steps
from .pictures import COLOURS, SHAPES, picture
from .vision_language_model import HIDDEN

log = logging.getLogger("training")


class Eye(torch.nn.Module):
    """Reads shape and colour from the vector of each place; used in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = torch.nn.Linear(HIDDEN, len(SHAPES) + 1)
        self.colours = torch.nn.Linear(HIDDEN, len(COLOURS))

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        return self.kinds(seen), self.colours(seen)


def sight_loss(eye: Eye, seen: Tensor, images: Images) -> Tensor:
    kinds, colours = eye(seen)
    truth = images.truth
    return cross_entropy(kinds.float(), truth[:, 0]) + cross_entropy(colours.float(), truth[:, 1])


def learn_to_see(
    model: Qwen2VLForConditionalGeneration,
    eye: Eye,
    rng: random.Random,
    pictures: int,
    steps: int,
    minutes: float,
) -> None:
    """Train the vision tower and ``eye`` on a number of pictures at a time."""
    visual = model.model.visual
    total = 0.0
    lesson = Steps((visual, eye), steps, minutes)
    for step in lesson:
        images = images_of([picture(rng, *random_size(rng)) for _ in range(pictures)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            seen = visual(images.patches, grid_thw=images.grids)
            loss = sight_loss(eye, seen, images)
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
        if step % 50 == 0:
            log.info("sight %5d  %.1f minutes  loss %.4f", step, lesson.minutes, total / 50)
            total = 0.0
