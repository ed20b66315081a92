"""The nodes that classify texts.

`TextClassificationCalculatorOV` answers requests, `TextClassificationCalculator` takes packets of
texts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.node_options import TextClassificationCalculatorOVOptions
from calculators.text.text_classification.request import (
    parse_classify_request,
    parse_moderation_request,
    parse_predict_request,
)
from calculators.text.text_models.encoder_task import INFO
from calculators.text.text_models.info_endpoint import about_labels, answer_info
from graph_runtime import Calculator, CalculatorContext, Code, In, Options, Out, SideIn
from protos import messages

_CLASSIFICATIONS: Final[Any] = messages.ClassificationList


class TextClassificationCalculator(Calculator):
    """Gives the classes of a text, the one with the highest score first.

    Inputs: TEXT (str).
    Outputs: CLASSIFICATIONS (mediapipe.ClassificationList): all classes with index, score and
        label. The scores of a text that is longer than the model takes are means over its windows.
    Options (graphrt.TextClassificationCalculatorOVOptions): as TextClassificationCalculatorOV.

    ::

        node {
          name: "Mood"
          calculator: "TextClassificationCalculator"
          input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
          input_stream: "TEXT:text"
          output_stream: "CLASSIFICATIONS:classes"
          node_options {
            [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
              models_path: "mood"
            }
          }
        }
    """

    text = In[str]("TEXT")
    classifications = Out[_CLASSIFICATIONS]("CLASSIFICATIONS")
    resources = SideIn[dict[str, Any]]("TEXT_CLASSIFICATION_NODE_RESOURCES")
    options = Options(TextClassificationCalculatorOVOptions)

    def open(self, cc: CalculatorContext) -> None:
        self._classifier: TextClassifier = node_resource(cc, self.resources, "text classification")

    async def process(self, cc: CalculatorContext) -> None:
        scores = await self._classifier.scores_of(cc.get(self.text))
        labels = self._classifier.classes.labels
        found = _CLASSIFICATIONS()
        for index in np.argsort(-scores, kind="stable").tolist():
            found.classification.add(index=index, score=float(scores[index]), label=labels[index])
        cc.emit(self.classifications, found)


class TextClassificationCalculatorOV(PayloadCalculator):
    """Answers ``/v1/moderations``, ``/v1/classify`` and ``/v1/predict``, and the same under /v3.

    Texts are tokenized and computed in the model's own process; no thread waits. Each of the two
    tags may have HTTP_ before it.

    ::

        node {
          name: "TextClassificationExecutor"
          calculator: "TextClassificationCalculatorOV"
          input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
          input_stream: "REQUEST_PAYLOAD:input"
          output_stream: "RESPONSE_PAYLOAD:output"
          node_options {
            [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
              models_path: "./"
              categories { label: "insult" category: "harassment" }
              categories { label: "threat" category: "violence" threshold: 0.3 }
            }
          }
        }
    """

    resources = SideIn[dict[str, Any]]("TEXT_CLASSIFICATION_NODE_RESOURCES")
    options = Options(TextClassificationCalculatorOVOptions)

    def open(self, cc: CalculatorContext) -> None:
        self._classifier: TextClassifier = node_resource(cc, self.resources, "text classification")

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        cc.emit(response, await self._answer(payload))

    async def _answer(self, payload: HttpPayload) -> bytes:
        path = payload.uri.partition("?")[0]
        if path == INFO.path:
            about = about_labels(self._classifier.classes.labels)
            return answer_info(payload, self._classifier.max_tokens, "classifier", about)
        body = payload.json()
        match path.rpartition("/")[2]:
            case "moderations":
                return await self._classifier.moderate(parse_moderation_request(body))
            case "classify":
                return await self._classifier.classify(parse_classify_request(body))
            case "predict":
                return await self._classifier.predict(parse_predict_request(body))
            case _:
                raise RequestError(
                    "a model that classifies texts answers /v1/moderations, /v1/classify and "
                    "/v1/predict",
                    code=Code.NOT_FOUND,
                )
