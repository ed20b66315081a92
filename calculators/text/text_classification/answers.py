"""Answers about classes of texts, as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import uuid4

import msgspec
import numpy as np

from calculators.text.text_classification.categories import CATEGORIES, LabelRule
from calculators.text.text_classification.scores import Floats

_encode = msgspec.json.Encoder().encode


def classify_answer(
    model: str, labels: Sequence[str], scores: Floats, tokens: Sequence[int]
) -> bytes:
    """Return vLLM's answer. ``scores``: ``[texts, classes]``."""
    best = scores.argmax(axis=1)
    count = sum(tokens)
    return _encode(
        {
            "id": f"classify-{uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": [
                {
                    "index": place,
                    "label": labels[best[place]],
                    "probs": row,
                    "num_classes": len(labels),
                }
                for place, row in enumerate(scores.tolist())
            ],
            "usage": {"prompt_tokens": count, "total_tokens": count, "completion_tokens": 0},
        }
    )


def predict_answer(labels: Sequence[str], scores: Floats, *, is_batch: bool) -> bytes:
    """Return the answer of text-embeddings-inference: the classes of a text by their scores."""
    orders = np.argsort(-scores, axis=1, kind="stable")
    texts = [
        [{"score": float(row[place]), "label": labels[place]} for place in order]
        for row, order in zip(scores, orders, strict=True)
    ]
    return _encode(texts if is_batch else texts[0])


def moderation_answer(model: str, rules: Sequence[LabelRule], scores: Floats) -> bytes:
    """Return OpenAI's answer, with a result for each row of ``scores``, ``[texts, classes]``."""
    return _encode(
        {
            "id": f"modr-{uuid4().hex}",
            "model": model,
            "results": [_moderation(rules, row) for row in scores],
        }
    )


def _moderation(rules: Sequence[LabelRule], scores: Floats) -> dict[str, object]:
    highest = dict.fromkeys(CATEGORIES, 0.0)
    flags = dict.fromkeys(CATEGORIES, False)
    for rule in rules:
        score = float(scores[rule.label])
        highest[rule.category] = max(highest[rule.category], score)
        flags[rule.category] |= score >= rule.threshold
    applied = {rule.category for rule in rules}
    return {
        "flagged": any(flags.values()),
        "categories": flags,
        "category_scores": highest,
        "category_applied_input_types": {
            category: ["text"] if category in applied else [] for category in CATEGORIES
        },
    }
