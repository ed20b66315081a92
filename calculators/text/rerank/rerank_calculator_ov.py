"""`RerankCalculatorOV`: endpoints that order texts by their relevance to a query."""

from __future__ import annotations

from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.payload_calculator import PayloadCalculator
from calculators.kit.tasks.node_resource import node_resource
from calculators.text.rerank.answers import rerank_answer, score_answer
from calculators.text.rerank.rerank_request import parse_rerank_request
from calculators.text.rerank.score_request import parse_score_request
from calculators.text.rerank.servable import RerankServable
from calculators.text.text_models.large_bodies import off_loop
from calculators.text.text_models.tokenize_endpoint import answer_detokenize, answer_tokenize
from graph_runtime import (
    CalculatorContext,
    Code,
    Out,
    SideIn,
)


class RerankCalculatorOV(PayloadCalculator):
    """Answers requests to ``/v3/rerank``, ``/v1/score``, ``/v3/tokenize`` and ``/v3/detokenize``.

    Pairs are tokenized and computed in the model's own process; no thread waits. The tags are
    OpenVINO Model Server's; those with HTTP_ before them are taken too.

    ::

        node {
          name: "RerankExecutor"
          calculator: "RerankCalculatorOV"
          input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
          input_stream: "REQUEST_PAYLOAD:input"
          output_stream: "RESPONSE_PAYLOAD:output"
          node_options {
            [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] {
              models_path: "./"
              max_allowed_chunks: 10000
            }
          }
        }

    Source: OpenVINO Model Server ``rerank/rerank_calculator_ov.cc``.
    """

    resources = SideIn[dict[str, Any]]("RERANK_NODE_RESOURCES")

    def open(self, cc: CalculatorContext) -> None:
        self._servable: RerankServable = node_resource(cc, self.resources, "rerank")

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        cc.emit(response, await self._answer(payload))

    async def _answer(self, payload: HttpPayload) -> bytes:
        path = payload.uri.partition("?")[0]
        if path.endswith("/detokenize"):
            return await answer_detokenize(self._servable.model, payload)
        if path.endswith("/tokenize"):
            return await answer_tokenize(self._servable.model, payload, adds_special=False)
        if not path.endswith(("/rerank", "/score")):
            raise RequestError(
                "a reranking model answers /v3/rerank and /v3/score, and the same under /v1",
                code=Code.NOT_FOUND,
            )
        body = payload.json()
        size = len(payload.body)
        # A client that names no model gets the name of the only one, which the front has found.
        named = payload.record.model if payload.record is not None else ""
        if path.endswith("/score"):
            pairs = await off_loop(size, parse_score_request, body)
            scores = await self._servable.score(pairs.ranking)
            return await off_loop(size, score_answer, pairs, scores, pairs.model or named)
        query = await off_loop(size, parse_rerank_request, body)
        scores = await self._servable.score(query.ranking)
        version = "2" if path.startswith("/v2/") else "1"
        return await off_loop(size, rerank_answer, query, scores, query.model or named, version)
