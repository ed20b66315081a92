"""Bodies of requests to reranking models: their forms, and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.rerank.request import (
    MAX_ALL_CHARACTERS,
    MAX_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    Cutting,
    RerankForm,
    RerankRequest,
    parse_rerank_request,
    parse_score_request,
)


def rerank(**members: Any) -> RerankRequest:
    """Read a body with a query and two documents, and ``members``."""
    return parse_rerank_request({"model": "m", "query": "q", "documents": ["a", "b"], **members})


def refused(body: object, parse: Any = parse_rerank_request) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse(body)
    return caught.value


@pytest.mark.parametrize(
    ("members", "message", "param"),
    [
        # OpenVINO Model Server's errors, word for word.
        ({"query": None}, "query field is missing in request", "query"),
        ({"query": 3}, "query is not a string", "query"),
        ({"documents": None}, "documents field is missing in request", "documents"),
        ({"documents": "a"}, "documents is not an array", "documents"),
        ({"documents": []}, "documents array should not be empty", "documents"),
        (
            {"documents": ["a", 5]},
            "documents array element is neither string nor object",
            "documents[1]",
        ),
        (
            {"documents": ["a", {"text": "b"}]},
            "all documents have to be the same type (string or objects)",
            "documents[1]",
        ),
        ({"documents": [{"title": "a"}]}, "document text field is missing", "documents[0].text"),
        (
            {"documents": [{"text": 5}]},
            "document text field have to be string",
            "documents[0].text",
        ),
        ({"top_n": "3"}, "top_n accepts integer values", "top_n"),
        ({"top_n": 1.5}, "top_n accepts integer values", "top_n"),
        ({"top_n": True}, "top_n accepts integer values", "top_n"),
        ({"rank_fields": "text"}, "rank_fields is not an array", "rank_fields"),
        ({"rank_fields": [1]}, "rank_fields array element is not a string", "rank_fields[0]"),
        ({"return_documents": 1}, "return_documents accepts boolean values", "return_documents"),
        (
            {"max_chunks_per_doc": "1"},
            "max_chunks_per_doc accepts integer values",
            "max_chunks_per_doc",
        ),
    ],
)
def test_errors_of_openvino_model_server_are_its_own(
    members: dict[str, Any], message: str, param: str
) -> None:
    error = refused({"model": "m", "query": "q", "documents": ["a"], **members})
    assert (str(error), error.param) == (message, param)


@pytest.mark.parametrize(
    ("members", "words", "param"),
    [
        ({"top_n": 0}, "0 is below the minimum 1", "top_n"),
        ({"top_n": -1}, "-1 is below the minimum 1", "top_n"),
        ({"top_n": 2**40}, "above the maximum", "top_n"),
        ({"top_k": 2, "top_n": 2}, "two names of one member", "top_k"),
        ({"texts": ["a"]}, "two names of one member", "texts"),
        ({"query": "q" * (MAX_QUERY_CHARACTERS + 1)}, "above the maximum", "query"),
        ({"documents": ["a", "b" * (MAX_CHARACTERS + 1)]}, "above the maximum", "documents[1]"),
        (
            {"documents": ["b" * MAX_CHARACTERS] * (MAX_ALL_CHARACTERS // MAX_CHARACTERS + 1)},
            f"in all are above the maximum {MAX_ALL_CHARACTERS}",
            "documents",
        ),
        ({"rank_fields": ["a"], "documents": [{"b": "c"}]}, "none of the members", "documents[0]"),
        ({"rank_fields": ["a"] * 65}, "above the maximum 64", "rank_fields"),
        ({"truncate_prompt_tokens": 0}, "leaves nothing", "truncate_prompt_tokens"),
        ({"truncate_prompt_tokens": -2}, "below the minimum -1", "truncate_prompt_tokens"),
        ({"truncate": "MIDDLE"}, "expected true, false, or one of", "truncate"),
        ({"truncate": []}, "got an array of 0", "truncate"),
        ({"truncation_direction": "Up"}, "expected one of", "truncation_direction"),
        ({"truncation_direction": {}}, "got an object", "truncation_direction"),
        ({"max_tokens_per_doc": 0}, "below the minimum 1", "max_tokens_per_doc"),
        ({"instruction": 5}, "expected a string", "instruction"),
        ({"instruction": "i" * 16_385}, "above the maximum", "instruction"),
        ({"relevant_spans": {"mode": "enabled"}}, "is not supported", "relevant_spans"),
        ({"documets": ["a"]}, 'Did you mean "documents"', "documets"),
    ],
)
def test_a_wrong_member_is_refused_with_what_would_be_right(
    members: dict[str, Any], words: str, param: str
) -> None:
    error = refused({"model": "m", "query": "q", "documents": ["a"], **members})
    assert words in str(error)
    assert error.param == param


@pytest.mark.parametrize("body", [[], "text", 5, None])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    assert "JSON object" in str(refused(body))
    assert "JSON object" in str(refused(body, parse_score_request))


def test_null_means_absent() -> None:
    names = "top_n top_k return_documents rank_fields max_chunks_per_doc texts truncate raw_scores"
    assert rerank(**dict.fromkeys(names.split())) == rerank()


def test_members_decide_the_form_of_the_answer() -> None:
    body = {"query": "q", "texts": ["a"]}
    assert rerank().form is RerankForm.RESULTS
    assert parse_rerank_request(body).form is RerankForm.TEI
    assert rerank(top_k=1).form is RerankForm.VOYAGE
    assert rerank(top_k=1).top_n == 1
    assert rerank(truncation=False).form is RerankForm.VOYAGE


def test_the_text_of_an_object_is_its_text_or_the_ranked_fields() -> None:
    documents = [{"title": "T", "text": "x", "year": "1999"}, {"text": "y", "year": None}]
    assert rerank(documents=documents).ranking.documents == ["x", "y"]
    ranked = rerank(documents=documents, rank_fields=["title", "text"])
    assert ranked.ranking.documents == ["title: T\ntext: x", "text: y"]
    assert ranked.documents == documents


@pytest.mark.parametrize(
    ("members", "cutting"),
    [
        ({}, Cutting()),
        ({"truncate": False}, Cutting()),
        ({"truncate": "NONE"}, Cutting()),
        ({"truncate": True}, Cutting(chunks=1)),
        ({"truncate": "END"}, Cutting(chunks=1)),
        ({"truncate": "end"}, Cutting(chunks=1)),
        ({"truncate": "START"}, Cutting(chunks=1, keeps_end=True)),
        ({"truncate": True, "truncation_direction": "Left"}, Cutting(chunks=1, keeps_end=True)),
        ({"truncation": True}, Cutting(chunks=1)),
        ({"truncate_prompt_tokens": 40}, Cutting(max_tokens=40, chunks=1)),
        (
            {"truncate_prompt_tokens": -1, "truncation_side": "left"},
            Cutting(chunks=1, keeps_end=True),
        ),
        ({"max_chunks_per_doc": 3}, Cutting(chunks=3)),
        (
            {"max_tokens_per_doc": 3, "max_tokens_per_query": 2},
            Cutting(document_tokens=3, query_tokens=2),
        ),
    ],
)
def test_all_ways_to_shorten_texts_are_one(members: dict[str, Any], cutting: Cutting) -> None:
    assert rerank(**members).ranking.cutting == cutting


def test_scores_may_be_raw_under_each_servers_name() -> None:
    assert not rerank().raw_scores
    assert not rerank(use_activation=True, raw_scores=False).raw_scores
    for members in ({"raw_scores": True}, {"activation": False}, {"softmax": False}):
        assert rerank(**members).raw_scores


@pytest.mark.parametrize(
    "names", [("text_1", "text_2"), ("queries", "documents"), ("data_1", "data_2")]
)
def test_pairs_are_one_text_with_each_or_two_lists(names: tuple[str, str]) -> None:
    first, second = names
    one = parse_score_request({first: "q", second: "a"}).ranking
    assert (one.queries, one.documents) == (["q"], ["a"])
    several = parse_score_request({first: ["q"], second: ["a", "b"]}).ranking
    assert (several.queries, several.documents) == (["q"], ["a", "b"])
    each = parse_score_request({first: ["q", "r"], second: ["a", "b"]}).ranking
    assert (each.queries, each.documents) == (["q", "r"], ["a", "b"])
    error = refused({first: ["q", "r"], second: ["a"]}, parse_score_request)
    assert "2 texts cannot be paired with the 1" in str(error)
    assert error.param == first


@pytest.mark.parametrize(
    ("body", "words", "param"),
    [
        ({}, "Missing required member", "text_1"),
        ({"text_1": "q"}, "Missing required member", "text_2"),
        ({"text_1": "q", "data_2": "b"}, "or other names", "data_2"),
        ({"text_1": [], "text_2": "a"}, "should not be empty", "text_1"),
        ({"text_1": "q", "text_2": [{"text": "a"}]}, "expected a string", "text_2[0]"),
        ({"text_1": "q", "text_2": 5}, "expected a string or an array", "text_2"),
        ({"text_1": "q" * (MAX_QUERY_CHARACTERS + 1), "text_2": "a"}, "above", "text_1"),
    ],
)
def test_wrong_pairs_are_refused(body: dict[str, Any], words: str, param: str) -> None:
    error = refused(body, parse_score_request)
    assert words in str(error)
    assert error.param == param
