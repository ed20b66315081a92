"""`RerankServable`: a reranking model as the resource of its node, and the node's options.

A request becomes questions of bounded size to the model's process, a few at a time, so that other
requests are tokenized in between. A document may have several rows, one for each chunk; the
highest of them is its score.

Names, defaults and their meaning in `RerankOptions` are OpenVINO Model Server's
(``rerank/rerank_servable.hpp``, ``sidepacket_servable.cpp``); the words are ours where it has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.tasks.nodes import find_model_options, naming_node
from calculators.text.rerank.encoding import CHARACTERS_AT_A_TIME, RankQuestion, too_many_chunks
from calculators.text.rerank.request import Ranking
from calculators.text.text_models.model_options import TextModelOptions, read_text_model
from calculators.text.text_models.text_model import TextModelInitializer, TextServable
from graph_runtime import Code, GraphError, NodePlan, ResourceError, ResourceSettings
from protos import messages

OPTIONS_TYPE = messages.RerankCalculatorOVOptions

#: Tokens of a pair where ``config.json`` does not say how many the model takes.
_USUAL_LENGTH: Final = 512
#: The tokens that OpenVINO Model Server puts around a pair.
_SPECIAL_TOKENS: Final = 4
_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """The options of one node.

    Attributes:
        model: the model's directory and its properties.
        max_allowed_chunks: documents of a request at most, and chunks of all its documents.
        warnings: texts for the log.
    """

    model: TextModelOptions
    max_allowed_chunks: int
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> Mapping[str, Any]:
        """The settings of the model's head: a part of what is compiled."""
        return {"kind": "rerank"}


def read_rerank_options(node: NodePlan, settings: ResourceSettings) -> RerankOptions:
    """Check the options of a node, and the files that they name. Reads files: for a thread.

    Raises:
        ResourceError: with the node's name, the field, what is wrong, and what would be right.
    """
    with naming_node(node):
        options = find_model_options(node, OPTIONS_TYPE)
        if not options.max_allowed_chunks:
            raise ResourceError("max_allowed_chunks: must be at least 1")
        wanted: int | None = None
        if options.HasField("max_position_embeddings"):
            wanted = options.max_position_embeddings
            _check_length(wanted)
        model = read_text_model(
            options.models_path,
            options.target_device,
            options.plugin_config,
            settings.directory,
            usual_max_tokens=min(wanted or _USUAL_LENGTH, _LARGEST),
            exported_with="optimum-cli export openvino --task text-classification",
            settings=settings,
        )
        _check_length(model.max_tokens)
        warnings: tuple[str, ...] = ()
        if wanted is not None and wanted > model.max_tokens:
            warnings = (
                f"max_position_embeddings: the model takes {model.max_tokens} tokens, not {wanted}",
            )
        elif wanted is not None:
            model = replace(model, max_tokens=wanted)
        return RerankOptions(
            model=model,
            max_allowed_chunks=min(options.max_allowed_chunks, _LARGEST),
            warnings=warnings,
        )


def _check_length(max_tokens: int) -> None:
    if max_tokens <= 2 * _SPECIAL_TOKENS:
        raise ResourceError(
            "max_position_embeddings should be larger than 2 * NUMBER_OF_SPECIAL_TOKENS, which is "
            f"{2 * _SPECIAL_TOKENS}; it is {max_tokens}"
        )


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


class RerankServable(TextServable[RerankOptions]):
    """A model in a supervised process, and the scores of its pairs."""

    def __init__(self, options: RerankOptions, host: ModelHost) -> None:
        super().__init__("calculators.text.rerank.process", options, kind="rerank", host=host)

    @property
    def _most(self) -> int:
        return self._options.max_allowed_chunks

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
            raise GraphError("the model's scores are not finite numbers", code=Code.INTERNAL)
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


RESOURCES_TAG: Final = "RERANK_NODE_RESOURCES"


class RerankResourceInitializer(TextModelInitializer[RerankOptions, RerankServable]):
    """Loads the model of every node that ranks texts."""

    tag = RESOURCES_TAG
    family = "rerank"
    calculators = ("RerankCalculatorOV", "TextRerankCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> RerankOptions:
        return read_rerank_options(node, settings)

    def warnings(self, options: RerankOptions) -> Sequence[str]:
        return options.warnings

    def resource(
        self, options: RerankOptions, host: ModelHost, settings: ResourceSettings
    ) -> RerankServable:
        return RerankServable(options, host)
