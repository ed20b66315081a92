"""`TextClassifier`: the resource of a node that classifies texts."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests.http_payload import RequestError
from calculators.text.text_classification import answers
from calculators.text.text_classification.classify_request import ClassifyRequest
from calculators.text.text_classification.messages import Classify
from calculators.text.text_classification.moderation_request import ModerationRequest
from calculators.text.text_classification.node_options import Classes, ClassifierOptions
from calculators.text.text_classification.options import ScoreFunction
from calculators.text.text_classification.predict_request import PredictRequest
from calculators.text.text_classification.scores import (
    Floats,
    apply,
    highest_of_windows,
    mean_of_windows,
)
from calculators.text.text_classification.texts import Texts
from calculators.text.text_models.placed_text_model import text_model
from calculators.text.text_models.text_model import Outputs
from graph_runtime import Code, LoadProgress, ResourceError

#: Numbers of an answer that is made on the event loop; a larger one is made in a thread.
_FEW: Final = 4096


class TextClassifier:
    """A model in a supervised process, and its answers as JSON.

    Attributes:
        classes: the model's classes; from `start` on.
    """

    classes: Classes

    def __init__(self, options: ClassifierOptions, host: ModelHost) -> None:
        self._options = options
        self._name = host.name
        #: The outputs of the model; 0: it does not say.
        self._columns = 0
        self.max_tokens = options.model.max_tokens
        self._model = text_model(
            "calculators.text.text_classification.process",
            options.model,
            head=options.head,
            kind="text classification",
            host=host,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded, or its classes are not those of the options;
                nothing is left running.
        """
        ready = await self._model.start(progress)
        self._columns = ready.columns
        try:
            self.classes = self._options.classes_of(ready.columns)
        except ResourceError:
            await self._model.close()
            raise

    def with_options(self, options: ClassifierOptions) -> TextClassifier:
        """Return a classifier of the same process, for a node with other options of its model.

        Raises:
            ResourceError: the model's classes are not those of the options.
        """
        classifier = copy.copy(self)
        classifier._options = options
        classifier.classes = options.classes_of(self._columns)
        return classifier

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self._model.pid

    @property
    def unavailable_reason(self) -> str:
        return self._model.unavailable_reason

    async def close(self) -> None:
        await self._model.close()

    async def classify(self, request: ClassifyRequest) -> bytes:
        """Answer in vLLM's form; the scores of a text are the means over its windows.

        Raises:
            RequestError: the texts cannot be classified; too many wait; the process is down.
        """
        outputs = await self._ask(request.texts)

        def made() -> bytes:
            scores, tokens = self._means(outputs, has_scores=request.has_scores)
            return answers.classify_answer(
                request.model or self._name, self.classes.labels, scores, tokens
            )

        return await _made(made, outputs)

    async def predict(self, request: PredictRequest) -> bytes:
        """Answer in the form of text-embeddings-inference; see `classify`."""
        outputs = await self._ask(request.texts)

        def made() -> bytes:
            scores, _ = self._means(outputs, has_scores=request.has_scores)
            labels = self.classes.labels
            return answers.predict_answer(labels, scores, is_batch=request.is_batch)

        return await _made(made, outputs)

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

        def made() -> bytes:
            windows, _ = outputs.note
            scores = apply(self.classes.function, outputs.values)
            scores = highest_of_windows(scores, [sum(windows)] if request.is_one else windows)
            return answers.moderation_answer(
                request.model or self._name, self.classes.rules, scores
            )

        return await _made(made, outputs)

    async def flagged(self, texts: Sequence[str]) -> list[str]:
        """Return the categories of moderations that any of the texts has, the highest score first.

        ``texts``: at least one, none of them empty.

        Raises:
            RequestError: as `classify`.
        """
        read = [text.encode(errors="replace").decode() for text in texts]
        outputs = await self._ask(Texts(texts=read, places=["text"] * len(read)))
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
        outputs = await self._ask(Texts(texts=[text], places=["text"]))
        scores, _ = self._means(outputs, has_scores=True)
        first: Floats = scores[0]
        return first

    async def _ask(self, texts: Texts) -> Outputs:
        question = Classify(list(texts.texts), list(texts.places), list(texts.seconds), texts.cut)
        outputs = await self._model.ask(question, characters=texts.characters, param=texts.member)
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


async def _made(make: Callable[[], bytes], outputs: Outputs) -> bytes:
    return make() if outputs.values.size <= _FEW else await asyncio.to_thread(make)
