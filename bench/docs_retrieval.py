"""Retrieval by the models of examples/graphs/rag: do titles of sections find their sections?

    python -m bench.docs_retrieval

The titles are those of sections that the embedder was not trained on. Their sections are searched
for among the held-out ones, and among all sections of the project's Markdown. Embeddings and ranks
come from a server, over HTTP.
"""

from __future__ import annotations

import argparse
import http.client
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.machine import ServerProcess, describe_machine
from examples.models.retrieval_training.documents import Section, read_sections

MODELS: Final = Path(__file__).parents[1] / "examples" / "models"
#: Texts of one request.
_BATCH: Final = 64
#: Characters of a section that are embedded, as in training; and sections that are ranked again.
_CHARACTERS: Final = 500
_RANKED: Final = 12


class Models:
    """The embedder and the ranker, each with its server."""

    def __init__(self, embedder: ServerProcess, ranker: ServerProcess) -> None:
        self._embedder = http.client.HTTPConnection(embedder.address)
        self._ranker = http.client.HTTPConnection(ranker.address)

    def vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, (texts, size), each of length 1."""
        found: list[Any] = []
        for start in range(0, len(texts), _BATCH):
            body = {"model": "docs_embedder", "input": texts[start : start + _BATCH]}
            answer = _post(self._embedder, "/v3/embeddings", body)
            found += [each["embedding"] for each in answer["data"]]
        return np.array(found, np.float32)

    def ranked(self, query: str, documents: list[str]) -> list[int]:
        """Return the places of documents, the best first."""
        body = {"model": "docs_ranker", "query": query, "documents": documents}
        return [each["index"] for each in _post(self._ranker, "/v3/rerank", body)["results"]]


def _post(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> Any:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    with connection.getresponse() as response:
        answer = json.loads(response.read())
    if response.status != 200:
        raise RuntimeError(f"{path} answers {response.status}: {answer}")
    return answer


def places(
    models: Models, asked: list[Section], sections: list[Section], *, ranks: bool
) -> list[int]:
    """Return the place of each section in the order of what its title finds, from 0 on."""
    questions = models.vectors([each.title for each in asked])
    texts = [each.text[:_CHARACTERS] for each in sections]
    orders = np.argsort(-questions @ models.vectors(texts).T, axis=1, kind="stable").tolist()
    found = []
    for section, order in zip(asked, orders, strict=True):
        if ranks:
            first = order[:_RANKED]
            best = models.ranked(section.title, [texts[place] for place in first])
            order = [*(first[place] for place in best), *order[_RANKED:]]
        found.append(order.index(sections.index(section)))
    return found


def main() -> None:
    argparse.ArgumentParser(prog="python -m bench.docs_retrieval").parse_args()
    sections = read_sections()
    held_out = [section for section in sections if section.is_held_out]
    print(describe_machine(), end="\n\n")
    print("| searched among | order | hit@1 | hit@5 |")
    print("|---|---|---|---|")
    with (
        ServerProcess(MODELS / "docs_embedder") as embedder,
        ServerProcess(MODELS / "docs_ranker") as ranker,
    ):
        models = Models(embedder, ranker)
        for among, candidates in (("held-out", held_out), ("all", sections)):
            for order, ranks in (("embedder", False), ("embedder, then ranker", True)):
                found = np.array(places(models, held_out, candidates, ranks=ranks))
                first, near = (found < 1).mean(), (found < 5).mean()
                print(
                    f"| {among} {len(candidates)} sections | {order} | {first:.2f} | {near:.2f} |"
                )


if __name__ == "__main__":
    main()
