"""The nodes that rank texts.

`RerankCalculatorOV` answers requests, `TextRerankCalculator` takes packets of texts."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from calculators.text.rerank.request import (
    MAX_QUERY_CHARACTERS,
    Ranking,
    RerankForm,
    RerankRequest,
    ScoreRequest,
    check_text,
    parse_rerank_request,
    parse_score_request,
    texts_of,
)
from calculators.text.rerank.servable import Floats, RerankServable, Scores
from calculators.text.text_models.encoder_task import INFO
from calculators.text.text_models.info_endpoint import answer_info
from calculators.text.text_models.text_model import off_loop
from calculators.text.text_models.tokenize_endpoint import answer_detokenize, answer_tokenize
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

    Options and side packet are as for `RerankCalculatorOV`.

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


#: Documents of one unit of Cohere's bills.
_UNIT: Final = 100


def rerank_answer(request: RerankRequest, scores: Scores, model: str, api_version: str) -> bytes:
    """The answer to a request: the best documents first, in the order of the request if equal.

    Takes time for as many texts as an answer may repeat: for a thread, unless there are few.
    ``model``: its name; ``api_version``: Cohere's, for ``meta``.
    """
    shown = scores.logits if request.raw_scores else scores.scores()
    # Ordered by the model's own numbers: sigmoids of large ones are all 1.
    order = np.argsort(-scores.logits, kind="stable")[: request.top_n].tolist()
    if request.form is RerankForm.TEI:
        return _json(_tei_results(request, shown, order))
    results = _results(request, shown, order)
    if request.form is RerankForm.VOYAGE:
        return _json(
            {
                "object": "list",
                "data": results,
                "model": model,
                "usage": {"total_tokens": scores.tokens},
            }
        )
    units = -(-len(request.documents) // _UNIT)
    return _json(
        {
            "id": f"rerank-{uuid.uuid4().hex}",
            "model": model,
            "results": results,
            "usage": _usage(scores),
            "meta": {
                "api_version": {"version": api_version},
                "billed_units": {"search_units": units},
                "tokens": {"input_tokens": scores.tokens, "output_tokens": 0},
            },
        }
    )


def score_answer(request: ScoreRequest, scores: Scores, model: str) -> bytes:
    """vLLM's answer: a score for each pair, in the order of the request."""
    shown = scores.logits if request.raw_scores else scores.scores()
    return _json(
        {
            "id": f"score-{uuid.uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": [
                {"index": place, "object": "score", "score": score}
                for place, score in enumerate(shown.tolist())
            ],
            "usage": _usage(scores),
        }
    )


def _json(answer: object) -> bytes:
    try:
        return orjson.dumps(answer)
    except orjson.JSONEncodeError:
        # A document that is returned may have numbers and texts that only Python's library takes.
        return json.dumps(answer).encode()


def _tei_results(
    request: RerankRequest, scores: Floats, order: Sequence[int]
) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = [
        {"index": place, "score": float(scores[place])} for place in order
    ]
    if request.returns_documents:
        for result in results:
            result["text"] = request.ranking.documents[result["index"]]
    return results


def _results(request: RerankRequest, scores: Floats, order: Sequence[int]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = [
        {"index": place, "relevance_score": float(scores[place])} for place in order
    ]
    if request.returns_documents:
        for result in results:
            document = request.documents[result["index"]]
            is_wrapped = isinstance(document, str) and request.form is RerankForm.RESULTS
            result["document"] = {"text": document} if is_wrapped else document
    return results


def _usage(scores: Scores) -> dict[str, int]:
    return {"prompt_tokens": scores.tokens, "total_tokens": scores.tokens}


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
        if path == INFO.path:
            return answer_info(payload, self._servable.max_tokens, "reranker", {})
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
