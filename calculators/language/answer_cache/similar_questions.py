"""`SimilarQuestions`: kept answers to questions that mean nearly the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calculators.language import GenerationRequest, RequestError
from calculators.language.answer_cache.request_key import request_key

if TYPE_CHECKING:
    from calculators.text.embeddings.servable import EmbeddingsServable

_log: Final = logging.getLogger("graphrt.answer_cache")
#: Characters of a question; a longer one is compared by its digest only.
MOST_CHARACTERS: Final = 4096
#: Questions of one kind that are compared, the newest.
MOST_COMPARED: Final = 1000
_BLANK: Final[dict[str, Any]] = {"role": "user", "content": ""}


class Question(NamedTuple):
    """A question by its meaning.

    Attributes:
        context: the digest of the request without the question.
        vector: float32, of length 1.
    """

    context: bytes
    vector: NDArray[np.float32]


class SimilarQuestions:
    """Questions with kept answers, by the digests of their requests. Not safe for threads."""

    def __init__(self, embedder: EmbeddingsServable, least: float) -> None:
        """``least``: the cosine from which on two questions count as one."""
        self.embedder = embedder
        self.least = least
        self._by_context: dict[bytes, dict[bytes, NDArray[np.float32]]] = {}
        self._contexts: dict[bytes, bytes] = {}

    async def question_of(self, request: GenerationRequest) -> Question | None:
        """Return the question of a request; None if it is no single one, or cannot be embedded.

        A conversation, a question with images and one of more than `MOST_CHARACTERS` are compared
        by their digests only.
        """
        *before, last = request.messages or (None,)
        if last is None or last.get("role") != "user" or request.prompts or request.images:
            return None
        text = last.get("content")
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_CHARACTERS:
            return None
        if any(message.get("role") not in ("system", "developer") for message in before):
            return None
        try:
            context = request_key(replace(request, messages=(*before, _BLANK)))
            embedded = await self.embedder.embed([text])
        except ValueError:
            return None
        except RequestError as error:
            _log.warning("a question is not compared with others: %s", error.message)
            return None
        vector = np.asarray(embedded.vectors[0], np.float32)
        length = float(np.linalg.norm(vector))
        return Question(context, vector / length) if length else None

    def nearest(self, question: Question) -> tuple[bytes, float] | None:
        """Return the key of the nearest question and its cosine, if it is near enough."""
        kept = self._by_context.get(question.context)
        if not kept:
            return None
        keys = list(islice(reversed(kept), MOST_COMPARED))
        scores = np.stack([kept[key] for key in keys]) @ question.vector
        best = int(scores.argmax())
        score = float(scores[best])
        return (keys[best], score) if score >= self.least else None

    def add(self, key: bytes, question: Question) -> None:
        """Remember a question whose answer is kept under ``key``."""
        self.forget(key)
        self._contexts[key] = question.context
        self._by_context.setdefault(question.context, {})[key] = question.vector

    def forget(self, key: bytes) -> None:
        """Forget the question whose answer was kept under ``key``, if there was one."""
        context = self._contexts.pop(key, None)
        if context is not None:
            kept = self._by_context[context]
            del kept[key]
            if not kept:
                del self._by_context[context]
