"""The options of a node that classifies texts, checked against the model's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.tasks.options import find_model_options, naming_node
from calculators.text.text_classification.categories import LabelRule, read_rules
from calculators.text.text_classification.options import (
    OPTIONS_TYPE,
    ScoreFunction,
    TextClassificationCalculatorOVOptions,
)
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from graph_runtime import NodePlan, ResourceError, ResourceSettings, find_options

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


#: Tokens of a text where config.json does not say how many the model takes.
_USUAL_LENGTH: Final = 512


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a model.

    Attributes:
        labels: their names, in the order of the model's outputs.
        function: makes scores of outputs; not AUTO.
        rules: the labels that stand for categories of moderations; empty if none does.
    """

    labels: tuple[str, ...]
    function: ScoreFunction
    rules: tuple[LabelRule, ...]


@dataclass(frozen=True, slots=True)
class ClassifierOptions:
    """The options of one node.

    Attributes:
        model: the options for the model's process.
        labels: the labels, as far as options and config.json name them.
        node: the options as the graph has them.
    """

    model: TextModelOptions
    labels: tuple[str, ...]
    node: TextClassificationCalculatorOVOptions

    @property
    def head(self) -> Mapping[str, Any]:
        """The settings of the model's head, of which there are none."""
        return {}

    def classes_of(self, columns: int) -> Classes:
        """Return the classes of the model, which has so many outputs; 0: it does not say.

        Raises:
            ResourceError: the number of labels is another.
        """
        columns = columns or len(self.labels)
        if not columns:
            raise ResourceError(
                "labels: neither the model nor config.json says how many classes there are; set "
                "labels to the names of all classes, in the order of the model's outputs"
            )
        labels = self.labels or usual_labels(columns)
        if len(labels) != columns:
            raise ResourceError(
                f"labels: the model has {columns} classes, and "
                f"{'labels' if self.node.labels else 'id2label in config.json'} names "
                f"{len(labels)}; set labels to the names of all classes, in the order of the "
                f"model's outputs"
            )
        function = choose_function(self.model.config, self.node.function, columns)
        return Classes(
            labels, function, read_rules(self.node.categories, labels, self.node.threshold)
        )


def read_classifier_options(node: NodePlan, settings: ResourceSettings) -> ClassifierOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        find_model_options(node, OPTIONS_TYPE)
        options = find_options(node.config, TextClassificationCalculatorOVOptions)
        model = read_text_model(
            options.models_path,
            options.target_device,
            options.plugin_config,
            settings.directory,
            usual_max_tokens=_USUAL_LENGTH,
            exported_with="optimum-cli export openvino --task text-classification",
        )
        labels = read_labels(model.config, options.labels)
        if labels:
            read_rules(options.categories, labels, options.threshold)
        return ClassifierOptions(model, labels, options)
