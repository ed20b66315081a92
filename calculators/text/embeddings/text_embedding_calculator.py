"""`TextEmbeddingCalculator`: texts in, vectors out, for graphs that go on with the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calculators.kit.tasks.node_resource import node_resource
from calculators.text.embeddings.servable import EmbeddingsServable
from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn


class TextEmbeddingCalculator(Calculator):
    """Turns each text, or each list of texts, into a matrix with a row for each text.

    Options and model are those of `EmbeddingsCalculatorOV`; further packets are computed while
    earlier ones wait for their batch. Over KServe a graph with this node takes BYTES, one element
    or several, and answers with FP32 of the shape [texts, size].

    ::

        node {
          name: "embed"
          calculator: "TextEmbeddingCalculator"
          input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings"
          input_stream: "TEXT:text"
          output_stream: "EMBEDDINGS:embeddings"
          node_options {
            [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
              models_path: "./"
              pooling: MEAN
            }
          }
        }
    """

    text = In[str | list[str]]("TEXT")
    embeddings = Out[np.ndarray[tuple[int, int], np.dtype[np.float32]]]("EMBEDDINGS")
    resources = SideIn[dict[str, Any]]("EMBEDDINGS_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        self._servable: EmbeddingsServable = node_resource(cc, self.resources, "embeddings")

    async def process(self, cc: CalculatorContext) -> None:
        value = cc.get(self.text)
        texts = [value] if isinstance(value, str) else value
        vectors: NDArray[np.float32] = (await self._servable.embed(texts)).vectors
        cc.emit(self.embeddings, vectors)
