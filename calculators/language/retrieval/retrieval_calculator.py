"""`RetrievalCalculator`: passages of documents for a question, put before the conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from calculators.kit.requests.request_record import set_current_record
from calculators.language import GenerationRequest
from calculators.language.retrieval.index_paths import OPTIONS_TYPE
from calculators.language.retrieval.quoting import quote_passages
from calculators.language.retrieval.retriever import Retriever
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Code,
    GraphError,
    In,
    Options,
    Out,
    SideIn,
)


class RetrievalCalculator(Calculator):
    """Finds the passages of an index for the user's question, and quotes them in the request.

    The text of the user's last message is embedded; the nearest passages are put before the
    conversation, into the system message, each with a number, its path and its line. Their list
    goes along as the request's sources: answers of the responses API cite those whose numbers
    they name. ``graphrt index`` makes the index.

    ::

        node {
          name: "retrieval"
          calculator: "RetrievalCalculator"
          input_side_packet: "RETRIEVAL_NODE_RESOURCES:retrieval"
          input_stream: "REQUEST:request"
          output_stream: "REQUEST:with_passages"
          node_options {
            [type.googleapis.com/graphrt.RetrievalOptions] {
              index: "docs.db"
              models_path: "../models/minilm"
              k: 4
            }
          }
        }
    """

    request = In[GenerationRequest]("REQUEST")
    with_passages = Out[GenerationRequest]("REQUEST")
    resources = SideIn[dict[str, Any]]("RETRIEVAL_NODE_RESOURCES")
    options = Options(OPTIONS_TYPE)

    def open(self, cc: CalculatorContext) -> None:
        retriever: Retriever | None = cc.side(self.resources).get(cc.node_name)
        if retriever is None:
            raise GraphError(
                f'the node "{cc.node_name}" has no index: the side packet does not have its name',
                code=Code.FAILED_PRECONDITION,
            )
        self._retriever = retriever

    async def process(self, cc: CalculatorContext) -> None:
        request = cc.get(self.request)
        if request.refusal is None:
            request = await self._with_passages(request)
        cc.emit(self.with_passages, request)

    async def _with_passages(self, request: GenerationRequest) -> GenerationRequest:
        # Clients take turns in the model's process; this task may be anybody's.
        set_current_record(request.record)
        options = self._retriever.options  # of this node, checked
        found = await self._retriever.find(request.last_text())
        # Numbers go on where those of an earlier node of this kind end.
        first = max((source.mark for source in request.sources), default=0) + 1
        text, sources = quote_passages(
            found, options.instruction, options.max_characters, first=first
        )
        if not text:
            return request
        return replace(request.with_system(text), sources=(*request.sources, *sources))
