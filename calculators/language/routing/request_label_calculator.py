"""`RequestLabelCalculator`: the class of a request to a language model, for routes."""

from __future__ import annotations

import logging
from typing import Any, Final

from calculators.kit.tasks.nodes import node_resource
from calculators.language import GenerationRequest, RequestError
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.node_options import TextClassificationCalculatorOVOptions
from graph_runtime import Calculator, CalculatorContext, In, Options, Out, SideIn

_log: Final = logging.getLogger("graphrt.text_classification")
#: The characters at the beginning of the user's last message that are classified.
MOST_READ: Final = 16_384


class RequestLabelCalculator(Calculator):
    """Gives the class with the highest score of the user's last message.

    A request that is refused, has no text, or comes while the classifier is down has the label "",
    so that a router's last route takes it.

    Inputs: REQUEST (GenerationRequest).
    Outputs: LABEL (str), with the request's timestamp: for a RouterCalculator.
    Options (graphrt.TextClassificationCalculatorOVOptions): as TextClassificationCalculatorOV.

    ::

        node {
          name: "topic"
          calculator: "RequestLabelCalculator"
          input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
          input_stream: "REQUEST:request"
          output_stream: "LABEL:topic"
          node_options {
            [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
              models_path: "topics"
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST")
    label = Out[str]("LABEL")
    resources = SideIn[dict[str, Any]]("TEXT_CLASSIFICATION_NODE_RESOURCES")
    options = Options(TextClassificationCalculatorOVOptions)

    def open(self, cc: CalculatorContext) -> None:
        self._classifier: TextClassifier = node_resource(cc, self.resources, "text classification")

    async def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        text = request.last_text()[:MOST_READ]
        label = ""
        if text.strip() and request.refusal is None:
            # Half of a surrogate pair has no UTF-8.
            text = text.encode(errors="replace").decode()
            try:
                scores = await self._classifier.scores_of(text)
                label = self._classifier.classes.labels[int(scores.argmax())]
            except RequestError as error:
                _log.warning("%s: a request has no label: %s", cc.node_name, error.message)
        cc.emit(self.label, label)
