"""Retrieval: the passages of passages.txt that are nearest to a question, by their vectors."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from calculators.kit.requests.http_payload import RequestError
from graphrt import Calculator, CalculatorContext, In, Options, Out, calculator, options
from numpy.typing import NDArray

#: Components of a vector.
DIMENSIONS: Final = 4096
#: Characters. The time of `embed` grows with the length of the text.
LONGEST_QUERY: Final = 2000

Vectors = NDArray[np.float32]


def embed(texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts, (n, DIMENSIONS), each of length 1.

    A vector counts the groups of three letters in the words, so that texts are near which share
    words or parts of words. Put an embedding model in its place to find texts by their meaning.
    """
    vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
        for word in words:
            padded = f" {word} "
            for start in range(len(padded) - 2):
                group = padded[start : start + 3].encode()
                vectors[row, zlib.crc32(group) % DIMENSIONS] += 1
    return unit(vectors)


def unit(vectors: Vectors) -> Vectors:
    """Return vectors with the same directions and the length 1; those of length 0 stay so."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, np.float32(1e-9))
    return scaled


class Index:
    """Passages and their vectors, in memory."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.passages = list(passages)
        # A group of letters that every passage has says nothing about any of them.
        counts = (vectors := embed(self.passages)).astype(bool).sum(axis=0)
        self._weights = np.log(1 + len(self.passages) / np.maximum(counts, 1)).astype(np.float32)
        self._vectors = unit(vectors * self._weights)

    def nearest(self, vector: Vectors, count: int) -> tuple[list[str], list[float]]:
        """Return the ``count`` nearest passages and their cosine similarities, the nearest first.

        Args:
            vector: (DIMENSIONS,), from `embed`.
        """
        scores = self._vectors @ unit(vector * self._weights)
        best = np.argsort(-scores, kind="stable")[:count]
        return [self.passages[place] for place in best], [float(scores[place]) for place in best]


#: Made when the module is imported, and again when the server imports it again.
INDEX: Final = Index(
    Path(__file__).with_name("passages.txt").read_text(encoding="utf-8").strip().splitlines()
)


@calculator("project_name.Embed")
def embed_query(text: str) -> Vectors:
    """Turns a question into its vector, (DIMENSIONS,) float32."""
    if len(text) > LONGEST_QUERY:
        # The client receives the text of a RequestError, with status 400.
        raise RequestError(f"the query has {len(text)} characters; at most {LONGEST_QUERY}")
    vector: Vectors = embed([text])[0]
    return vector


@options("project_name.SearchOptions")
@dataclass(frozen=True)
class SearchOptions:
    """The options that graph.pbtxt sets.

    Attributes:
        count: the number of passages in an answer.
    """

    count: int = 3


@calculator("project_name.Search")
class Search(Calculator):
    """Finds the passages that are nearest to a vector.

    Inputs:
        VECTOR: (DIMENSIONS,) float32.
    Outputs:
        PASSAGES: the passages, the nearest first.
        SCORES: their cosine similarities, from 0 to 1.
    """

    vector = In[Vectors]("VECTOR")
    passages = Out[list[str]]("PASSAGES")
    scores = Out[list[float]]("SCORES")
    options = Options(SearchOptions)

    def process(self, cc: CalculatorContext) -> None:
        """Called for each request."""
        passages, scores = INDEX.nearest(cc.get(self.vector), self.options.count)
        cc.emit(self.passages, passages)
        cc.emit(self.scores, scores)
