"""`TextClassificationCalculator`: the classes of texts inside a graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calculators.kit.tasks.node_resource import node_resource
from calculators.text.text_classification.classifier import TextClassifier
from calculators.text.text_classification.options import TextClassificationCalculatorOVOptions
from graph_runtime import Calculator, CalculatorContext, In, Options, Out, SideIn
from protos.pool import message_class

_CLASSIFICATIONS: Final[Any] = message_class("mediapipe.ClassificationList")


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
