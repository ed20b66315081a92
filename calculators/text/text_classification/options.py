"""The options of a node that classifies texts, as graphs write them."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Final

from graph_runtime import options

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
            "doc": "moderations; default the labels that are named like OpenAI's categories",
            "number": 7,
        },
    )
