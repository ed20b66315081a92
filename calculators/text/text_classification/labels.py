"""Labels of a model, and the function of its scores, from its config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.text.text_classification.options import ScoreFunction
from graph_runtime import ResourceError

_BY_PROBLEM: Final = {
    "regression": ScoreFunction.NONE,
    "single_label_classification": ScoreFunction.SOFTMAX,
    "multi_label_classification": ScoreFunction.SIGMOID,
}


def read_labels(config: Mapping[str, Any], own: Sequence[str]) -> tuple[str, ...]:
    """Return the labels in the order of the model's outputs; empty if nothing names them.

    Args:
        config: the object in config.json.
        own: the labels of the node's options, which come first.

    Raises:
        ResourceError: the same label twice, or an ``id2label`` that is not of labels by number.
    """
    labels = tuple(own) or _labels_of(config.get("id2label"))
    seen: set[str] = set()
    for label in labels:
        if not label:
            raise ResourceError("labels: a label is empty; each class needs a name")
        if label in seen:
            raise ResourceError(f'labels: "{label}" stands there twice; each class needs its own')
        seen.add(label)
    return labels


def usual_labels(count: int) -> tuple[str, ...]:
    """Return the names that transformers gives to classes without names."""
    return tuple(f"LABEL_{number}" for number in range(count))


def choose_function(
    config: Mapping[str, Any], wanted: ScoreFunction, classes: int
) -> ScoreFunction:
    """Return the function of a model with so many classes, as transformers' pipelines choose it."""
    if wanted is not ScoreFunction.AUTO:
        return wanted
    problem = config.get("problem_type")
    if isinstance(problem, str) and problem in _BY_PROBLEM:
        return _BY_PROBLEM[problem]
    return ScoreFunction.SIGMOID if classes == 1 else ScoreFunction.SOFTMAX


def _labels_of(named: Any) -> tuple[str, ...]:
    if named is None:
        return ()
    try:
        by_number = {int(number): str(label) for number, label in named.items()}
    except (AttributeError, TypeError, ValueError):
        raise _wrong() from None
    if sorted(by_number) != list(range(len(by_number))):
        raise _wrong()
    return tuple(by_number[number] for number in range(len(by_number)))


def _wrong() -> ResourceError:
    return ResourceError(
        "models_path: id2label in config.json must name the classes 0, 1, ... of the model; "
        "labels in the node's options replace it"
    )
