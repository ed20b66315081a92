"""The options of a node that classifies texts, as graphs write them and checked.

`TextClassificationCalculatorOVOptions` is what a graph has. `read_classifier_options` checks it
against the model's files, and `ClassifierOptions.classes_of` against the model's outputs. The
labels that stand for OpenAI's categories of moderations become a `LabelRule` each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from calculators.kit.tasks.nodes import find_model_options, naming_node
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from graph_runtime import NodePlan, ResourceError, ResourceSettings, options
from graph_runtime.errors import did_you_mean

OPTIONS_TYPE: Final = "graphrt.TextClassificationCalculatorOVOptions"


class ScoreFunction(Enum):
    """The function from a model's outputs to scores.

    Attributes:
        AUTO: the one that the model's config.json implies.
        SIGMOID: each class by itself, for texts of several classes.
        SOFTMAX: the scores of all classes add up to 1.
        NONE: the outputs as they are, for regression.
    """

    AUTO = 0
    SIGMOID = 1
    SOFTMAX = 2
    NONE = 3


@options("graphrt.ModerationCategory")
class ModerationCategory:
    """One of the model's labels as a category of moderations.

    A label may stand for several categories, and a category for several labels: its score is the
    highest of theirs.
    """

    label: str = field(metadata={"doc": "the model's label", "number": 1})
    category: str = field(metadata={"doc": "OpenAI's category, such as self-harm", "number": 2})
    threshold: float | None = field(
        default=None,
        metadata={"doc": "the score from which it is flagged; default the node's", "number": 3},
    )


@options(OPTIONS_TYPE)
class TextClassificationCalculatorOVOptions:
    """The options of ``TextClassificationCalculatorOV`` and ``TextClassificationCalculator``."""

    models_path: str = field(
        metadata={
            "doc": "the model's directory; absolute, or relative to the graph's directory",
            "number": 1,
        }
    )
    target_device: str = field(default="", metadata={"doc": "default CPU", "number": 2})
    plugin_config: str = field(
        default="", metadata={"doc": "OpenVINO's properties, as a JSON object", "number": 3}
    )
    labels: tuple[str, ...] = field(
        default=(), metadata={"doc": "instead of id2label in config.json", "number": 4}
    )
    function: ScoreFunction = field(default=ScoreFunction.AUTO, metadata={"number": 5})
    threshold: float = field(
        default=0.5,
        metadata={"doc": "the score from which a category is flagged", "number": 6},
    )
    categories: tuple[ModerationCategory, ...] = field(
        default=(),
        metadata={
            "doc": "moderations; default the labels that are named like OpenAI's categories, or as "
            "is usual",
            "number": 7,
        },
    )
    label_threshold: float | None = field(
        default=None,
        metadata={
            "doc": "the score from which RequestLabelCalculator gives the best class; default 0.5 "
            "where classes have scores of their own, and any where scores add up to 1",
            "number": 8,
        },
    )


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
        label_threshold: the score from which a text has its best class.
    """

    labels: tuple[str, ...]
    function: ScoreFunction
    rules: tuple[LabelRule, ...]
    label_threshold: float


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
        least = self.node.label_threshold
        if least is None:
            least = _INDEPENDENT if function is ScoreFunction.SIGMOID else -math.inf
        rules = read_rules(self.node.categories, labels, self.node.threshold)
        return Classes(labels, function, rules, least)


def read_classifier_options(node: NodePlan, settings: ResourceSettings) -> ClassifierOptions:
    """Check the options of a node, and the files that they name.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        options = find_model_options(node, TextClassificationCalculatorOVOptions)
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
        if options.label_threshold is not None:
            _check_threshold(options.label_threshold, "label_threshold")
        return ClassifierOptions(model, labels, options)


#: The score from which a text has a class whose score does not depend on the others'. Of a text
#: without any class the best one is the least unlikely: 0.047 with examples/models/guard.
_INDEPENDENT: Final = 0.5

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


#: Names that classifiers of Jigsaw's data and their like have for OpenAI's categories, without case
#: and signs.
_USUAL_LABELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("insult", "toxic", "toxicity", "severetoxic", "severetoxicity", "abusive", "offensive"),
        "harassment",
    ),
    "threat": "harassment/threatening",
    **dict.fromkeys(("hatespeech", "identityhate", "identityattack"), "hate"),
    **dict.fromkeys(("obscene", "nsfw", "sexualexplicit"), "sexual"),
    "selfharm": "self-harm",
}


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
    """Return the rules of a node's options; without a ``mapping``, the rules of the labels' names,
    OpenAI's or usual ones.

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
            if _plain(label) == _plain(category) or _USUAL_LABELS.get(_plain(label)) == category
        )
    rules = []
    for each in mapping:
        if each.label not in labels:
            raise ResourceError(
                f'categories: "{each.label}" is not a label of the model: {_listed(labels)}.'
                + did_you_mean(each.label, labels)
            )
        if each.category not in CATEGORIES:
            raise ResourceError(
                f'categories: "{each.category}" is not a category of moderations: '
                f"{_listed(CATEGORIES)}.{did_you_mean(each.category, CATEGORIES)}"
            )
        own = threshold if each.threshold is None else each.threshold
        _check_threshold(own, f'categories: the threshold of "{each.label}"')
        rules.append(LabelRule(list(labels).index(each.label), each.category, own))
    return tuple(rules)


def _check_threshold(value: float, name: str) -> None:
    if not -1e6 <= value <= 1e6:  # NaN too
        raise ResourceError(f"{name}: {value} is not a score; most models give scores from 0 to 1")


def _plain(name: str) -> str:
    """Return a name without case and signs: self_harm/intent is Self-Harm/Intent."""
    return "".join(character for character in name.casefold() if character.isalnum())


_SHOWN: Final = 20


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
