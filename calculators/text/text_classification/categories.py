"""OpenAI's categories of moderations, and the labels of a model that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calculators.text.text_classification.options import ModerationCategory
from graph_runtime import ResourceError
from graph_runtime.errors import did_you_mean

#: In the order of OpenAI's answers.
CATEGORIES: Final = (
    "harassment",
    "harassment/threatening",
    "sexual",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm/intent",
    "self-harm/instructions",
    "self-harm",
    "sexual/minors",
    "violence",
    "violence/graphic",
)


@dataclass(frozen=True, slots=True)
class LabelRule:
    """A label that stands for a category.

    Attributes:
        label: its index among the model's labels.
        category: one of `CATEGORIES`.
        threshold: the category is flagged at this score of the label.
    """

    label: int
    category: str
    threshold: float


def read_rules(
    mapping: Sequence[ModerationCategory], labels: Sequence[str], threshold: float
) -> tuple[LabelRule, ...]:
    """Return the rules of a node's options; without a ``mapping``, those of labels' names.

    Raises:
        ResourceError: a label is not the model's, a category is not OpenAI's, or a threshold is
            not a number.
    """
    _check_threshold(threshold, "threshold")
    if not mapping:
        return tuple(
            LabelRule(place, category, threshold)
            for place, label in enumerate(labels)
            for category in CATEGORIES
            if _plain(label) == _plain(category)
        )
    rules = []
    for each in mapping:
        if each.label not in labels:
            raise ResourceError(
                f'categories: "{each.label}" is no label of the model: {_listed(labels)}.'
                + did_you_mean(each.label, labels)
            )
        if each.category not in CATEGORIES:
            raise ResourceError(
                f'categories: "{each.category}" is no category of moderations: '
                f"{_listed(CATEGORIES)}.{did_you_mean(each.category, CATEGORIES)}"
            )
        own = threshold if each.threshold is None else each.threshold
        _check_threshold(own, f'categories: the threshold of "{each.label}"')
        rules.append(LabelRule(list(labels).index(each.label), each.category, own))
    return tuple(rules)


def _check_threshold(value: float, name: str) -> None:
    if not -1e6 <= value <= 1e6:  # NaN too
        raise ResourceError(f"{name}: {value} is no score; those of most models are from 0 to 1")


def _plain(name: str) -> str:
    """Return a name without case and signs: self_harm/intent is Self-Harm/Intent."""
    return "".join(character for character in name.casefold() if character.isalnum())


_SHOWN: Final = 20


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
