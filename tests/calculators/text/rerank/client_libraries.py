"""Rerankers as client libraries see them: ``python -m
tests.calculators.text.rerank.client_libraries``.

Takes the name of a library and a server's URL. Prints each answer as JSON: the order of the
documents, and their scores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tests.calculators.text.rerank.tiny_rerankers import DOCUMENTS, QUERY

MODEL = "tiny"
KEY = "unused"
ASKED: dict[str, Any] = {"query": QUERY, "documents": list(DOCUMENTS)}


def cohere_clients(url: str) -> dict[str, Any]:
    import cohere

    def seen(answer: Any) -> list[tuple[int, float]]:
        assert answer.id
        assert answer.meta.billed_units.search_units == 1
        return [(each.index, each.relevance_score) for each in answer.results]

    newer = cohere.ClientV2(KEY, base_url=url)
    older = cohere.Client(KEY, base_url=url)
    with_documents = older.rerank(model=MODEL, **ASKED, return_documents=True)
    objects = [{"text": text, "title": "t"} for text in DOCUMENTS]
    facts: dict[str, Any] = {
        "v2": seen(newer.rerank(model=MODEL, **ASKED)),
        "v2_top": seen(newer.rerank(model=MODEL, **ASKED, top_n=1, max_tokens_per_doc=64)),
        "v1": seen(with_documents),
        "documents": [each.document.text for each in with_documents.results],
        "objects": seen(
            older.rerank(model=MODEL, query=QUERY, documents=objects, rank_fields=["text"])
        ),
    }
    try:
        newer.rerank(model=MODEL, query=QUERY, documents=[])
    except cohere.BadRequestError as error:
        facts["error"] = error.body["error"]["message"]
    return facts


def litellm_providers(url: str) -> dict[str, Any]:
    import litellm

    def ranked(provider: str, base: str, **members: Any) -> list[tuple[int, float]]:
        answer = litellm.rerank(
            model=f"{provider}/{MODEL}", api_base=url + base, api_key=KEY, **ASKED, **members
        )
        assert answer.results is not None
        return [(each["index"], each["relevance_score"]) for each in answer.results]

    return {
        "cohere": ranked("cohere", ""),
        "jina_ai": ranked("jina_ai", ""),
        "hosted_vllm": ranked("hosted_vllm", "/v1", return_documents=True),
        "voyage_top": ranked("voyage", "/v1", top_n=1),
        "infinity": ranked("infinity", "/v1", return_documents=False),
        "huggingface": ranked("huggingface", ""),
    }


LIBRARIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "cohere": cohere_clients,
    "litellm": litellm_providers,
}

if __name__ == "__main__":
    library, address = sys.argv[1:]
    print(json.dumps(LIBRARIES[library](address)))
