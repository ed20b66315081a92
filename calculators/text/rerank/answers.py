"""Bodies of answers: one form for OpenVINO Model Server, Cohere, Jina and vLLM; TEI's; Voyage's."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from calculators.text.rerank.rerank_request import RerankForm, RerankRequest
from calculators.text.rerank.score_request import ScoreRequest
from calculators.text.rerank.servable import Floats, Scores

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
