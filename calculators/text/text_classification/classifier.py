"""`TextClassifier`: a model that classifies texts, as the resource of its node.

A text that is longer than the model takes has several windows, each with a row of outputs. A
function makes scores of outputs; classes get the mean over the windows of a text, and moderations
the highest score of any window. The answers are JSON in the forms of vLLM, OpenAI and Hugging
Face's text-embeddings-inference.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, Self, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np
from numpy.typing import NDArray

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests.http_payload import RequestError
from calculators.text.text_classification.encoding import Classify
from calculators.text.text_classification.node_options import (
    CATEGORIES,
    Classes,
    ClassifierOptions,
    LabelRule,
    ScoreFunction,
    read_classifier_options,
)
from calculators.text.text_classification.request import (
    ClassifiedTexts,
    ClassifyRequest,
    ModerationRequest,
    PredictRequest,
)
from calculators.text.text_models.text_model import (
    Outputs,
    TextModelInitializer,
    TextServable,
    off_loop,
)
from graph_runtime import Code, LoadProgress, NodePlan, ResourceError, ResourceSettings

Floats: TypeAlias = NDArray[np.float32]

#: e to the power of this is near the largest 32-bit float.
_LARGEST: Final = 80.0


def apply(function: ScoreFunction, outputs: Floats) -> Floats:
    """Return scores of the same shape, ``[windows, classes]``. ``function``: not AUTO."""
    scores: NDArray[np.floating[Any]] = outputs
    if function is ScoreFunction.SIGMOID:
        scores = 1 / (1 + np.exp(-np.clip(outputs, -_LARGEST, _LARGEST)))
    elif function is ScoreFunction.SOFTMAX:
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
    return np.asarray(scores, np.float32)


def mean_of_windows(scores: Floats, windows: Sequence[int]) -> Floats:
    """Return the mean over the windows of each text, ``[texts, classes]``."""
    starts = _starts(windows)
    total = np.add.reduceat(scores, starts, axis=0)
    return np.asarray(total / np.asarray(windows, np.float32)[:, np.newaxis], np.float32)


def highest_of_windows(scores: Floats, windows: Sequence[int]) -> Floats:
    """Return the highest score over the windows of each text, ``[texts, classes]``."""
    highest: Floats = np.maximum.reduceat(scores, _starts(windows), axis=0)
    return highest


def _starts(windows: Sequence[int]) -> NDArray[np.int64]:
    """Return the first row of each text. Every text has at least one window."""
    return np.concatenate([[0], np.cumsum(windows)[:-1]]).astype(np.int64)


#: Bytes of a number in an answer, about.
_BYTES_OF_NUMBER: Final = 16


class TextClassifier(TextServable[ClassifierOptions]):
    """A model in a supervised process, and its answers as JSON.

    Attributes:
        classes: the model's classes; from `start` on.
    """

    classes: Classes

    def __init__(self, options: ClassifierOptions, host: ModelHost) -> None:
        self._name = host.name
        super().__init__(
            "calculators.text.text_classification.process",
            options,
            kind="text classification",
            host=host,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded, or its classes do not match the options;
                nothing is left running.
        """
        await super().start(progress)
        try:
            self.classes = self._options.classes_of(self._columns)
        except ResourceError:
            await self.close()
            raise

    def with_options(self, options: ClassifierOptions) -> Self:
        """Return a classifier of the same process, for a node with other options of its model.

        Raises:
            ResourceError: the model's classes do not match the options.
        """
        classifier = super().with_options(options)
        classifier.classes = options.classes_of(self._columns)
        return classifier

    async def classify(self, request: ClassifyRequest) -> bytes:
        """Answer in vLLM's form; the scores of a text are the means over its windows.

        Raises:
            RequestError: the texts cannot be classified; too many wait; the process is down.
        """
        outputs = await self._ask(request.texts)

        def make() -> bytes:
            scores, tokens = self._means(outputs, has_scores=request.has_scores)
            return classify_answer(request.model or self._name, self.classes.labels, scores, tokens)

        return await off_loop(_BYTES_OF_NUMBER * outputs.values.size, make)

    async def predict(self, request: PredictRequest) -> bytes:
        """Answer in the form of text-embeddings-inference; see `classify`."""
        outputs = await self._ask(request.texts)

        def make() -> bytes:
            scores, _ = self._means(outputs, has_scores=request.has_scores)
            labels = self.classes.labels
            return predict_answer(labels, scores, is_batch=request.is_batch)

        return await off_loop(_BYTES_OF_NUMBER * outputs.values.size, make)

    async def moderate(self, request: ModerationRequest) -> bytes:
        """Answer in OpenAI's form; the scores of a text are the highest of its windows.

        Raises:
            RequestError: as `classify`, and where no label stands for a category (NOT_FOUND).
        """
        if not self.classes.rules:
            raise RequestError(
                "the model has no labels for categories of moderations: set categories in the "
                "options of the graph's node, or use /v1/classify",
                code=Code.NOT_FOUND,
            )
        outputs = await self._ask(request.texts)

        def make() -> bytes:
            windows, _ = outputs.note
            scores = apply(self.classes.function, outputs.values)
            scores = highest_of_windows(scores, [sum(windows)] if request.is_one else windows)
            return moderation_answer(request.model or self._name, self.classes.rules, scores)

        return await off_loop(_BYTES_OF_NUMBER * outputs.values.size, make)

    async def flagged(self, texts: Sequence[str]) -> list[str]:
        """Return the categories of moderations that any of the texts has, the highest score first.

        ``texts``: at least one, none of them empty.

        Raises:
            RequestError: as `classify`.
        """
        read = [text.encode(errors="replace").decode() for text in texts]
        outputs = await self._ask(ClassifiedTexts(texts=read, places=["text"] * len(read)))
        scores = apply(self.classes.function, outputs.values).max(axis=0)
        found: dict[str, float] = {}
        for rule in self.classes.rules:
            score = float(scores[rule.label])
            if score >= rule.threshold:
                found[rule.category] = max(score, found.get(rule.category, score))
        return sorted(found, key=lambda category: -found[category])

    async def scores_of(self, text: str) -> Floats:
        """Return the scores of a text, ``[classes]``; the means over its windows.

        Raises:
            RequestError: as `classify`.
        """
        outputs = await self._ask(ClassifiedTexts(texts=[text], places=["text"]))
        scores, _ = self._means(outputs, has_scores=True)
        first: Floats = scores[0]
        return first

    async def _ask(self, texts: ClassifiedTexts) -> Outputs:
        question = Classify(list(texts.texts), list(texts.places), list(texts.seconds), texts.cut)
        outputs = await self.model.ask(question, characters=texts.characters, param=texts.member)
        if outputs.values.shape[1] != len(self.classes.labels):
            raise RequestError("the model has other classes than labels", code=Code.INTERNAL)
        if not np.isfinite(outputs.values).all():
            raise RequestError("the model's outputs are not finite numbers", code=Code.INTERNAL)
        return outputs

    def _means(self, outputs: Outputs, *, has_scores: bool) -> tuple[Floats, list[int]]:
        """Return the scores of each text, and its number of tokens."""
        windows, tokens = outputs.note
        function = self.classes.function if has_scores else ScoreFunction.NONE
        return mean_of_windows(apply(function, outputs.values), windows), tokens


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


RESOURCES_TAG: Final = "TEXT_CLASSIFICATION_NODE_RESOURCES"


class TextClassificationResourceInitializer(
    TextModelInitializer[ClassifierOptions, TextClassifier]
):
    """Loads the model of every node that classifies texts."""

    tag = RESOURCES_TAG
    family = "text_classification"
    calculators = (
        "TextClassificationCalculatorOV",
        "TextClassificationCalculator",
        "RequestLabelCalculator",
    )

    def read(self, node: NodePlan, settings: ResourceSettings) -> ClassifierOptions:
        return read_classifier_options(node, settings)

    def resource(
        self, options: ClassifierOptions, host: ModelHost, settings: ResourceSettings
    ) -> TextClassifier:
        return TextClassifier(options, host)
