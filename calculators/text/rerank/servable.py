"""`RerankServable`: the resource of a reranking node."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests.http_payload import RequestError
from calculators.text.rerank.messages import CHARACTERS_AT_A_TIME, RankQuestion, too_many_chunks
from calculators.text.rerank.node_options import RerankOptions
from calculators.text.rerank.ranking import Ranking
from calculators.text.text_models.placed_text_model import text_model
from graph_runtime import Code, GraphError, LoadProgress

Floats: TypeAlias = NDArray[np.float64]

#: A request goes to the process in parts, so that others are tokenized in between.
_DOCUMENTS: Final = 64
#: Parts of one request that are asked at a time: one is tokenized while another is computed.
_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Scores:
    """The answer to a `Ranking`.

    Attributes:
        logits: a number for each document, ``[documents]``; larger is more relevant.
        tokens: tokens of all sequences, special ones included.
    """

    logits: Floats
    tokens: int

    def scores(self) -> Floats:
        """Return the numbers between 0 and 1: sigmoids."""
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(-self.logits)), np.float64)


class RerankServable:
    """A model in a supervised process, and the scores of its pairs."""

    def __init__(self, options: RerankOptions, host: ModelHost) -> None:
        self._most = options.max_allowed_chunks
        #: The most tokens of a pair.
        self.max_tokens = options.model.max_tokens
        self.model = text_model(
            "calculators.text.rerank.process",
            options.model,
            head=options.head,
            kind="rerank",
            host=host,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        await self.model.start(progress)

    def with_options(self, options: RerankOptions) -> RerankServable:
        """Return a servable of the same process, for a node with other options of its model."""
        servable = copy.copy(self)
        servable._most = options.max_allowed_chunks
        return servable

    @property
    def pid(self) -> int | None:
        """The model's process, while there is one."""
        return self.model.pid

    @property
    def unavailable_reason(self) -> str:
        return self.model.unavailable_reason

    async def close(self) -> None:
        await self.model.close()

    async def score(self, ranking: Ranking) -> Scores:
        """Score all pairs of a request. Its parts are asked a few at a time.

        Raises:
            RequestError: too many documents or chunks; no room beside a query; too much waits;
                there is no process.
        """
        if len(ranking.documents) > self._most:
            raise RequestError("Number of documents exceeds max_allowed_chunks", param=ranking.path)
        questions = list(_parts(ranking, self._most))
        parts = iter(questions)
        found: dict[int, tuple[Floats, int]] = {}
        chunks = 0

        async def work() -> None:
            nonlocal chunks
            for part in parts:
                logits, counts, tokens = await self._ask(part)
                chunks += sum(counts)
                if chunks > self._most:
                    raise RequestError(too_many_chunks(self._most, chunks), param=ranking.path)
                starts = np.cumsum([0, *counts[:-1]])
                found[part.first] = np.maximum.reduceat(logits, starts), tokens

        if len(questions) == 1:
            await work()
        else:
            await _all_of(work, _PARTS)
        ordered = [found[first] for first in sorted(found)]
        logits = np.concatenate([part for part, _ in ordered])
        if not np.isfinite(logits).all():
            raise GraphError("the model's scores are no finite numbers", code=Code.INTERNAL)
        return Scores(logits, sum(tokens for _, tokens in ordered))

    async def _ask(self, question: RankQuestion) -> tuple[Floats, list[int], int]:
        outputs = await self.model.ask(
            question,
            characters=sum(map(len, question.documents)) + sum(map(len, question.queries)),
            param=question.path,
        )
        return (
            outputs.values[:, 0].astype(np.float64),
            list(outputs.note),
            sum(outputs.tokens),
        )


def _parts(ranking: Ranking, most: int) -> Iterator[RankQuestion]:
    """Yield the questions of a request, each with at least one document."""
    first = 0
    documents = ranking.documents
    while first < len(documents):
        last = first + 1
        characters = len(documents[first])
        while last < len(documents) and last - first < _DOCUMENTS:
            characters += len(documents[last])
            if characters > CHARACTERS_AT_A_TIME:
                break
            last += 1
        queries = ranking.queries if len(ranking.queries) == 1 else ranking.queries[first:last]
        cutting = ranking.cutting
        yield RankQuestion(
            queries=list(queries),
            documents=list(documents[first:last]),
            path=ranking.path,
            first=first,
            instruction=ranking.instruction,
            max_chunks=most,
            max_tokens=cutting.max_tokens,
            query_tokens=cutting.query_tokens,
            document_tokens=cutting.document_tokens,
            chunks=cutting.chunks,
            keeps_end=cutting.keeps_end,
        )
        first = last


async def _all_of(work: Callable[[], Coroutine[Any, Any, None]], workers: int) -> None:
    """Run ``work`` several times at once. The first error ends all, and is raised."""
    running = [asyncio.create_task(work()) for _ in range(workers)]
    try:
        await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
