"""The index and its two nodes, without a server."""

import numpy as np
import pytest
from graphrt import RunError
from graph_runtime.testing import CalculatorRunner

from retrieval import INDEX, LONGEST_QUERY, Index, Search, SearchOptions, embed, embed_query


def test_vectors_have_the_length_1() -> None:
    assert np.linalg.norm(embed(["a graph", "Ünïcode: 3 words"]), axis=1) == pytest.approx([1, 1])


def test_a_text_without_a_word_has_no_direction() -> None:
    assert not embed(["...", ""]).any()


def test_the_nearest_passage_is_first() -> None:
    index = Index(["cats sleep all day", "dogs bark at night", "the sun is a star"])
    passages, scores = index.nearest(embed(["Why does a dog bark?"])[0], 2)
    assert passages[0] == "dogs bark at night"
    assert scores == sorted(scores, reverse=True)


def test_a_question_goes_through_both_nodes() -> None:
    embedder = CalculatorRunner(embed_query)
    embedder.push(0, "Where do I see metrics?", at=0)
    (vector,) = embedder.run().outputs[0].values
    search = CalculatorRunner(Search, options=SearchOptions(count=2))
    search.push("VECTOR", vector, at=0)
    search.run()
    (passages,) = search.outputs["PASSAGES"].values
    assert len(passages) == 2
    assert "Prometheus" in passages[0]


def test_every_passage_finds_itself() -> None:
    for passage in INDEX.passages:
        assert INDEX.nearest(embed([passage])[0], 1)[0] == [passage]


def test_a_question_that_is_too_long_is_refused() -> None:
    runner = CalculatorRunner(embed_query)
    runner.push(0, "a" * (LONGEST_QUERY + 1), at=0)
    with pytest.raises(RunError, match="at most 2000"):
        runner.run()
