"""`EmbeddingsServable`: an embedding model, and what the options of its node make of vectors."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from calculators.kit.model_initializer import ModelHost
from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.text.embeddings.answers import Answered
from calculators.text.embeddings.node_options import EmbeddingsOptions
from calculators.text.embeddings.question import Cut, Embed
from calculators.text.embeddings.request import EmbeddingsRequest
from calculators.text.embeddings.texts import (
    MAX_ALL_CHARACTERS,
    MAX_CHARACTERS,
    MAX_TEXTS,
    Truncation,
    find_prompt,
)
from calculators.text.embeddings.vectors import Floats, finish
from calculators.text.text_models.large_bodies import off_loop
from calculators.text.text_models.placed_text_model import text_model
from graph_runtime import Code, LoadProgress

_log: Final = logging.getLogger("graphrt.embeddings")


class Embedded(NamedTuple):
    """Vectors of texts, shape ``[texts, size]``, and the number of tokens of all."""

    vectors: Floats
    tokens: int


class EmbeddingsServable:
    """A model in a supervised process.

    Attributes:
        model: the process.
        max_tokens: the most tokens of one text.
    """

    def __init__(self, options: EmbeddingsOptions, host: ModelHost) -> None:
        self._options = options
        self.max_tokens = options.model.max_tokens
        self._size = 0
        self.model = text_model(
            "calculators.text.embeddings.process",
            options.model,
            head=options.head,
            kind="embedding",
            host=host,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        ready = await self.model.start(progress)
        self._size = ready.columns

    def with_options(self, options: EmbeddingsOptions) -> EmbeddingsServable:
        """Return a servable of the same process, for a node with other options of its model."""
        servable = copy.copy(self)
        servable._options = options
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

    async def answer(self, request: EmbeddingsRequest, write: Callable[[Answered], bytes]) -> bytes:
        """Return the answer to a request, as ``write`` puts it.

        Raises:
            RequestError: a text is too long for the model; too many wait; the process is down.
        """
        options = self._options
        self._check_dimensions(request.dimensions, self._size)
        texts = request.texts
        outputs = await self.model.ask(
            Embed(
                texts.values,
                texts.ids,
                request.prompt(options.prompts, options.default_prompt),
                self._cut(request.truncation),
                request.truncation.most,
                texts.param,
                texts.is_list,
                request.adds_special,
            ),
            characters=texts.size,
            param=texts.param,
        )
        self._check_dimensions(request.dimensions, outputs.values.shape[1])
        normalizes = options.normalizes if request.normalizes is None else request.normalizes

        def written() -> bytes:
            vectors = self._finished(outputs.values, request.dimensions, normalizes=normalizes)
            return write(Answered(request, vectors, sum(outputs.tokens)))

        return await off_loop(outputs.values.size, written)

    async def embed(
        self, texts: Sequence[str], *, cuts: bool | None = None, use: str = ""
    ) -> Embedded:
        """Return the vectors of texts, as the node's options say; no texts have none.

        Args:
            cuts: cut off what is too long for the model; None: as the node does.
            use: of the texts, such as "query" or "passage": the model's prompt for it is put before
                each, if it has one.

        Raises:
            RequestError: a text is too long for the model; too many wait; the process is down.
        """
        if not texts:
            return Embedded(np.empty((0, self._size), np.float32), 0)
        _check_size(texts)
        options = self._options
        prompt = self.prompt(use)
        cut = self._cut(Truncation(cuts))
        outputs = await self.model.ask(
            Embed(list(texts), [], prompt, cut, None, "texts", is_list=True),
            characters=sum(map(len, texts)),
            param="texts",
        )
        vectors = self._finished(outputs.values, None, normalizes=options.normalizes)
        return Embedded(vectors, sum(outputs.tokens))

    def prompt(self, use: str) -> str:
        """Return the text that is put before texts of a use, "" for none; see `embed`."""
        options = self._options
        return find_prompt({"input_type": use}, options.prompts, options.default_prompt)

    def _finished(self, values: Floats, dimensions: int | None, *, normalizes: bool) -> Floats:
        if not np.isfinite(values).all():
            _log.error("the model's output has numbers that are not finite")
            raise RequestError(
                "the model's output has numbers that are not finite", code=Code.INTERNAL
            )
        return finish(values, dimensions, normalizes=normalizes)

    def _cut(self, truncation: Truncation) -> Cut:
        cuts = self._options.truncates if truncation.cuts is None else truncation.cuts
        return truncation.side if cuts else ""

    @staticmethod
    def _check_dimensions(dimensions: int | None, size: int) -> None:
        if dimensions is not None and not 1 <= dimensions <= (size or math.inf):
            raise RequestError(
                f"dimensions must be between 1 and {size or 'those of the model'}, not "
                f"{fields.describe(dimensions)}",
                param="dimensions",
            )


def _check_size(texts: Sequence[str]) -> None:
    if len(texts) > MAX_TEXTS:
        raise fields.invalid("texts", f"{len(texts)} texts are above the maximum {MAX_TEXTS}")
    longest, total = max(map(len, texts)), sum(map(len, texts))
    if longest > MAX_CHARACTERS or total > MAX_ALL_CHARACTERS:
        raise fields.invalid(
            "texts",
            f"{total} characters, {longest} in one text, are above the maximum "
            f"{MAX_ALL_CHARACTERS}, {MAX_CHARACTERS} in one text",
        )
