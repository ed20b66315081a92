"""Measures how well the exported model finds shapes in pictures that it never saw."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import openvino

from .anchors import anchors, decoded, iou
from .pictures import LABELS, picture

PICTURES = 500
_SEED = 1_000_003  # a seed that training does not use
_SCORE, _OVERLAP, _MATCH = 0.5, 0.4, 0.5


def check(model: Path) -> bool:
    """Print a table. Return True if 9 of 10 shapes are found and 9 of 10 finds are right.

    A shape is found where a box of its label overlaps it by half (intersection over union).
    """
    compiled = openvino.Core().compile_model(model / "1" / "model.xml", "CPU")
    boxes = anchors()
    rng = np.random.default_rng(_SEED)
    there, right, said = (np.zeros(len(LABELS), int) for _ in range(3))
    overlaps: list[float] = []
    for _ in range(PICTURES):
        pixels, truths = picture(rng)
        image = pixels[None].astype(np.float32) / 127.5 - 1
        corrections, logits = compiled(image).values()
        corners, labels = _kept(decoded(corrections[0], boxes), logits[0])
        taken: set[int] = set()
        for corner, label in zip(corners, labels, strict=True):
            said[label] += 1
            for index, truth in enumerate(truths):
                overlap = float(iou(corner[None], np.array([truth[1:]], np.float32))[0, 0])
                if index not in taken and truth.label == label and overlap >= _MATCH:
                    right[label] += 1
                    overlaps.append(overlap)
                    taken.add(index)
                    break
        for truth in truths:
            there[truth.label] += 1
    lines = ["| shape | there | found | right among the finds |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {there[i]} | {right[i] / there[i]:.1%} | {right[i] / max(1, said[i]):.1%} |"
        for i, name in enumerate(LABELS)
    ]
    lines.append(f"\nMean overlap of the right finds: {np.mean(overlaps):.2f}.")
    sys.stdout.write("\n".join(lines) + "\n")
    return bool((right >= 0.9 * there).all() and (right >= 0.9 * said).all())


def _kept(
    corners: npt.NDArray[np.float32], logits: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the boxes that remain: confident ones that no more confident one overlaps."""
    scores = 1 / (1 + np.exp(-logits))
    labels, best = scores.argmax(axis=1), scores.max(axis=1)
    kept: list[int] = []
    for index in np.argsort(-best):
        if best[index] < _SCORE:
            break
        if not kept or iou(corners[index][None], corners[kept]).max() <= _OVERLAP:
            kept.append(int(index))
    return corners[kept], labels[kept]
