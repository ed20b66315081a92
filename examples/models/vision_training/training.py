"""Trains the model on pictures and conversations that are made during training."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import Qwen2VLForConditionalGeneration

from ..training.tokenizer import saved_tokenizer
from .batches import Batch, Batches
from .optimizing import Steps
from .sight import Eye, learn_to_see, sight_loss
from .tokenizer import train_tokenizer
from .vision_language_model import new_model

log = logging.getLogger("training")
LOOKING = 0.5  # weight of the first lesson during the second


@dataclass(frozen=True)
class Settings:
    """The two lessons, seeing and talking; each is limited by steps and by time."""

    seed: int = 11
    pictures: int = 64  # per step
    sight_steps: int = 1000
    sight_minutes: float = 30.0
    rows: int = 32  # conversations per step
    steps: int = 1500
    minutes: float = 60.0


def train(target: Path, settings: Settings, *, go_on: bool = False) -> None:
    """Write the trained model and tokenizer to ``target``; ``go_on`` resumes from those in it.

    Another seed then makes other data.
    """
    # Steps this small do not gain from more threads, and lose on busy cores.
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    if go_on:
        tokenizer = saved_tokenizer(target)
        model = Qwen2VLForConditionalGeneration.from_pretrained(target)
    else:
        tokenizer = train_tokenizer(settings.seed)
        model = new_model(tokenizer)
    model.train()
    for part in (model.model.language_model, model.model.visual):
        part.config._attn_implementation = "eager"  # the fastest for so few tokens
    log.info("%d parameters", sum(parameter.numel() for parameter in model.parameters()))
    rng = random.Random(f"data {settings.seed}")
    eye = Eye()
    learn_to_see(model, eye, rng, settings.pictures, settings.sight_steps, settings.sight_minutes)
    _learn_to_talk(model, eye, Batches(tokenizer, rng, settings.rows), settings)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _learn_to_talk(
    model: Qwen2VLForConditionalGeneration, eye: Eye, batches: Batches, settings: Settings
) -> None:
    total, right = 0.0, 0.0
    lesson = Steps((model, eye), settings.steps, settings.minutes)
    for step, batch in zip(lesson, batches, strict=False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits, looked = _forward(model, eye, batch)
        wanted = batch.weights[:, 1:].flatten() > 0
        said = logits[:, :-1].flatten(0, 1)[wanted].float()
        truth = batch.ids[:, 1:].flatten()[wanted]
        loss = cross_entropy(said, truth)
        (loss + LOOKING * looked).backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
        right += float((said.argmax(dim=1) == truth).float().mean())
        if step % 25 == 0:
            log.info(
                "talk %5d  %.1f minutes  loss %.4f  tokens right %.1f%%",
                step, lesson.minutes, total / 25, 4 * right,
            )  # fmt: skip
            total, right = 0.0, 0.0


def _forward(
    model: Qwen2VLForConditionalGeneration, eye: Eye, batch: Batch
) -> tuple[Tensor, Tensor]:
    """Return the logits of the next tokens, and the loss of the first lesson."""
    images = batch.images
    if images is None:
        return model(input_ids=batch.ids).logits, torch.zeros(())
    seen = model.model.visual(images.patches, grid_thw=images.grids)
    embeddings = model.model.language_model.embed_tokens(batch.ids)
    marks = (batch.ids == model.config.image_token_id)[..., None]
    embeddings = embeddings.masked_scatter(marks, seen.to(embeddings.dtype))
    places, _ = model.model.get_rope_index(batch.ids, images.grids, None, None)
    logits = model(inputs_embeds=embeddings, position_ids=places).logits
    return logits, sight_loss(eye, seen, images)
