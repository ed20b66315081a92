"""`TextRerankCalculator`: scores of documents as packets, for graphs that search and answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from calculators.text.rerank.documents import check_text, texts_of
from calculators.text.rerank.ranking import MAX_QUERY_CHARACTERS, Ranking
from calculators.text.rerank.servable import RerankServable
from graph_runtime import Calculator, CalculatorContext, Code, GraphError, In, Out, SideIn


class TextRerankCalculator(Calculator):
    """Scores documents by their relevance to a query.

    Inputs:
        QUERY: str.
        DOCUMENTS: list[str]; an empty list has no scores.

    Outputs:
        SCORES: numpy.ndarray, float32 ``[documents]``: between 0 and 1, in the order of the
            documents.
        ORDER: numpy.ndarray, int64 ``[documents]``: indices of the documents, the best one first;
            equal ones in their order.

    Options and side packet are those of `RerankCalculatorOV`.

    ::

        node {
          name: "ranker"
          calculator: "TextRerankCalculator"
          input_side_packet: "RERANK_NODE_RESOURCES:servables"
          input_stream: "QUERY:question"
          input_stream: "DOCUMENTS:found"
          output_stream: "ORDER:order"
          node_options {
            [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] { models_path: "reranker" }
          }
        }
    """

    query = In[str]("QUERY")
    documents = In[list[str]]("DOCUMENTS")
    scores = Out[np.ndarray[Any, Any]]("SCORES", optional=True)
    order = Out[np.ndarray[Any, Any]]("ORDER", optional=True)
    resources = SideIn[dict[str, Any]]("RERANK_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        servable = cc.side(self.resources).get(cc.node_name)
        if servable is None:
            raise GraphError(
                f"the node {cc.node_name} has no model: its graph was started without resources",
                code=Code.FAILED_PRECONDITION,
            )
        self._servable: RerankServable = servable

    async def process(self, cc: CalculatorContext) -> None:
        if cc.is_empty(self.query) or cc.is_empty(self.documents):
            return
        query, documents = cc.take(self.query), cc.take(self.documents)
        logits = scores = np.zeros(0)
        if documents:
            check_text(query, "QUERY", MAX_QUERY_CHARACTERS)
            texts = texts_of(documents, (), "DOCUMENTS")
            found = await self._servable.score(
                Ranking(queries=(query,), documents=texts, path="DOCUMENTS")
            )
            logits, scores = found.logits, found.scores()
        if cc.is_connected(self.scores):
            cc.emit(self.scores, scores.astype(np.float32))
        if cc.is_connected(self.order):
            cc.emit(self.order, np.argsort(-logits, kind="stable").astype(np.int64))
