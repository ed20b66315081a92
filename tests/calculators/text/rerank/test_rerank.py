"""Reranking: models made by hand, in their real processes, with exact scores."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.rerank.servable import RerankServable
from graph_runtime import REGISTRY, Code, ResourceError
from servers.config import find_graph
from servers.serving.loaded_graph import LoadedGraph, load_graph
from tests.calculators import graph_answers
from tests.calculators.graph_answers import with_graph
from tests.calculators.text.rerank.tiny_rerankers import (
    COUNTED,
    DOCUMENTS,
    LOGITS,
    MAX_TOKENS,
    ORDER,
    QUERY,
    graph,
    make_bert,
    make_decoder,
    make_roberta,
    sigmoid,
)
from tests.support.patience import PATIENCE

Ask = Callable[..., Awaitable[Any]]


async def asked(loaded: LoadedGraph, uri: str = "/v3/rerank", **body: Any) -> Any:
    """Return the parsed answer of a graph; raise the calculator's own error."""
    return await graph_answers.asked(loaded, uri, {"model": "tiny", **body})


def served(directory: Path, scenario: Callable[[LoadedGraph, Ask], Awaitable[None]]) -> None:
    """Run a scenario with the graph of a directory."""
    with_graph(directory, lambda loaded: scenario(loaded, partial(asked, loaded)))


def ranked(answer: Any) -> list[tuple[int, Any]]:
    """Return indices and scores in the order of the answer."""
    return [(each["index"], each["relevance_score"]) for each in answer["results"]]


EXPECTED = [(place, pytest.approx(sigmoid(LOGITS[place]), abs=1e-6)) for place in ORDER]


@pytest.mark.parametrize(
    "make", [make_bert, partial(make_bert, labels=2), make_roberta], ids=["bert", "two", "roberta"]
)
def test_a_graph_of_openvino_model_server_ranks_documents(
    tmp_path: Path, make: Callable[..., Path]
) -> None:
    make(tmp_path, graph())

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(query=QUERY, documents=DOCUMENTS)
        assert ranked(answer) == EXPECTED
        # Alone a document has the same score as beside longer ones: padding does not count.
        alone = await ask(query=QUERY, documents=[DOCUMENTS[1]])
        assert ranked(alone) == [(0, EXPECTED[0][1])]

    served(tmp_path, scenario)


def test_qwen3_says_yes_or_no(tmp_path: Path) -> None:
    make_decoder(tmp_path, graph())
    documents = ["a dog", f"a{COUNTED}{COUNTED}{COUNTED}", f"one{COUNTED}"]

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(query="what?", documents=documents)
        wanted = [(1, 2.0), (2, 0.0), (0, -1.0)]
        assert ranked(answer) == [
            (place, pytest.approx(sigmoid(logit), abs=1e-6)) for place, logit in wanted
        ]
        instructed = await ask(query="what?", documents=documents, instruction=f"find{COUNTED}")
        assert [score for _, score in ranked(instructed)] == [
            pytest.approx(sigmoid(logit + 1), abs=1e-6) for _, logit in wanted
        ]

    served(tmp_path, scenario)


class Ranker:
    """A graph that is served for several tests."""

    def __init__(self, runner: asyncio.Runner, loaded: LoadedGraph) -> None:
        self._runner = runner
        self._loaded = loaded

    def ask(self, uri: str = "/v3/rerank", **body: Any) -> Any:
        """Return the answer of the served graph; see `asked`."""
        return self._runner.run(asyncio.wait_for(asked(self._loaded, uri, **body), PATIENCE))


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranker]:
    directory = make_bert(tmp_path_factory.mktemp("bert"), graph(max_allowed_chunks=200))
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield Ranker(runner, loaded)
        runner.run(loaded.close())


def test_the_answer_has_what_clients_of_several_servers_read(ranker: Ranker) -> None:
    answer = ranker.ask(query=QUERY, documents=DOCUMENTS, top_n=2)
    assert ranked(answer) == EXPECTED[:2]
    # [CLS] the cat sat [SEP] document [SEP]
    tokens = sum(len(document.split()) + 6 for document in DOCUMENTS)
    assert answer["id"].startswith("rerank-")
    assert answer["model"] == "tiny"
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert answer["meta"] == {
        "api_version": {"version": "1"},
        "billed_units": {"search_units": 1},
        "tokens": {"input_tokens": tokens, "output_tokens": 0},
    }
    assert "document" not in answer["results"][0]
    newer = ranker.ask("/v2/rerank", query=QUERY, documents=DOCUMENTS)
    assert newer["meta"]["api_version"] == {"version": "2"}
    assert ranked(ranker.ask(query=QUERY, documents=DOCUMENTS, top_n=99)) == EXPECTED


def test_documents_come_back_as_they_were_sent(ranker: Ranker) -> None:
    best = ranker.ask(query=QUERY, documents=DOCUMENTS, return_documents=True)["results"][0]
    assert best["document"] == {"text": DOCUMENTS[1]}
    objects = [{"title": "dog", "text": text, "id": str(i)} for i, text in enumerate(DOCUMENTS)]
    answer = ranker.ask(query=QUERY, documents=objects, return_documents=True)
    assert ranked(answer) == EXPECTED
    assert [each["document"] for each in answer["results"]] == [objects[place] for place in ORDER]
    answer = ranker.ask(query="dog", documents=objects, rank_fields=["title"])
    assert ranked(answer) == [(place, pytest.approx(sigmoid(-1))) for place in range(4)]


def test_equal_scores_keep_the_order_of_the_request(ranker: Ranker) -> None:
    answer = ranker.ask(query="cat", documents=["dog", "cat", "ran", "cat", "bird"])
    assert [place for place, _ in ranked(answer)] == [1, 3, 0, 2, 4]


def test_tei_gets_its_own_form(ranker: Ranker) -> None:
    answer = ranker.ask("/rerank", query=QUERY, texts=DOCUMENTS)
    assert [(each["index"], each["score"]) for each in answer] == EXPECTED
    answer = ranker.ask(query=QUERY, texts=DOCUMENTS, raw_scores=True, return_text=True)
    assert answer == [
        {"index": place, "score": LOGITS[place], "text": DOCUMENTS[place]} for place in ORDER
    ]


def test_voyage_gets_its_own_form(ranker: Ranker) -> None:
    body = {"query": QUERY, "documents": DOCUMENTS, "top_k": 1, "truncation": True}
    answer = ranker.ask("/v1/rerank", **body, return_documents=True)
    assert answer["object"] == "list"
    assert answer["usage"].keys() == {"total_tokens"}
    assert answer["data"] == [
        {"index": 1, "relevance_score": EXPECTED[0][1], "document": DOCUMENTS[1]}
    ]


def test_pairs_are_scored_in_the_order_of_the_request(ranker: Ranker) -> None:
    answer = ranker.ask("/v1/score", text_1=QUERY, text_2=list(DOCUMENTS))
    assert (answer["object"], answer["model"]) == ("list", "tiny")
    assert [each["index"] for each in answer["data"]] == [0, 1, 2, 3]
    assert {each["object"] for each in answer["data"]} == {"score"}
    scores = [each["score"] for each in answer["data"]]
    np.testing.assert_allclose(scores, [sigmoid(logit) for logit in LOGITS], atol=1e-6)
    each = ranker.ask("/score", queries=["cat", "dog"], documents=["dog", "dog"], activation=False)
    assert [pair["score"] for pair in each["data"]] == [-2.0, -1.0]
    single = ranker.ask("/v3/score", data_1="cat", data_2="cat", use_activation=False)
    assert [pair["score"] for pair in single["data"]] == [-1.0]


def test_the_best_chunk_is_the_score_of_a_long_document(ranker: Ranker) -> None:
    filler = "dog " * (2 * MAX_TOKENS)
    long = f"{filler} the cat sat on"
    whole = ranker.ask(query=QUERY, documents=[long, "cat"], raw_scores=True)
    assert ranked(whole) == [(0, 1.0), (1, -1.0)]
    for members in ({"truncate": True}, {"max_chunks_per_doc": 1}, {"max_tokens_per_doc": 5}):
        begin = ranker.ask(query=QUERY, documents=[long, "cat"], raw_scores=True, **members)
        assert ranked(begin) == [(1, -1.0), (0, -2.0)]
    end = ranker.ask(query=QUERY, texts=[long], truncate=True, truncation_direction="Left")
    assert end[0]["score"] == pytest.approx(sigmoid(1.0))


def test_many_documents_are_ranked_in_one_request(ranker: Ranker) -> None:
    documents = ["dog " * (number % 9) + ("cat" if number % 2 else "") for number in range(200)]
    answer = ranker.ask(query="cat", documents=documents, raw_scores=True)
    order = [*range(1, 200, 2), *range(0, 200, 2)]
    assert ranked(answer) == [(place, -1.0 if place % 2 else -2.0) for place in order]


def test_many_pairs_keep_their_order(ranker: Ranker) -> None:
    queries = ["cat" if number % 3 else "dog" for number in range(150)]
    answer = ranker.ask("/v1/score", text_1=queries, text_2=["cat ran"] * 150, activation=False)
    scores = [pair["score"] for pair in answer["data"]]
    assert scores == [-1.0 if number % 3 else -2.0 for number in range(150)]


def test_requests_that_share_batches_get_their_own_scores(tmp_path: Path) -> None:
    make_bert(tmp_path, graph())
    documents = [[*DOCUMENTS[:1] * number, "cat", "cat sat"] for number in range(20)]

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answers = await asyncio.gather(
            *(ask(query=QUERY, documents=each, raw_scores=True) for each in documents)
        )
        for number, answer in enumerate(answers):
            rest = [(place, -2.0) for place in range(number)]
            assert ranked(answer) == [(number + 1, 0.0), (number, -1.0), *rest]

    served(tmp_path, scenario)


def test_documents_and_chunks_are_limited(ranker: Ranker) -> None:
    with pytest.raises(RequestError, match="Number of documents exceeds max_allowed_chunks") as no:
        ranker.ask(query="cat", documents=["dog"] * 201)
    assert no.value.param == "documents"
    with pytest.raises(RequestError, match="exceeding max_allowed_chunks after chunking") as no:
        ranker.ask(query="cat", documents=["dog " * MAX_TOKENS * 3] * 100)
    assert no.value.param == "documents"
    assert ranked(ranker.ask(query=QUERY, documents=DOCUMENTS)) == EXPECTED


@pytest.mark.parametrize(
    ("members", "param", "words"),
    [
        ({"documents": []}, "documents", "should not be empty"),
        ({"documents": ["a", "\ud800"]}, "documents[1]", "not Unicode"),
        ({"query": "\udc00"}, "query", "not Unicode"),
        ({"documents": ["a" * 10_000_000]}, "documents[0]", "above the maximum"),
        ({"truncate_prompt_tokens": 2}, "truncate_prompt_tokens", "no space left for chunks"),
        ({"instruction": "find"}, "instruction", "takes no instruction"),
    ],
)
def test_hostile_texts_are_refused_and_the_next_request_is_answered(
    ranker: Ranker, members: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(RequestError) as caught:
        ranker.ask(**{"query": QUERY, "documents": ["cat"], **members})
    assert caught.value.param == param
    assert words in str(caught.value)
    assert ranked(ranker.ask(query=QUERY, documents=DOCUMENTS)) == EXPECTED


def test_special_tokens_and_odd_texts_are_texts(ranker: Ranker) -> None:
    odd = ["[SEP] [SEP] cat", "[PAD] cat", "", "\0", "🐈" * 500, "cat\n\n\tsat"]
    answer = ranker.ask(query=QUERY, documents=odd)
    assert sorted(place for place, _ in ranked(answer)) == list(range(len(odd)))
    # A padding token in a text does not end it.
    assert dict(ranked(answer))[1] == pytest.approx(sigmoid(-1))


def test_an_empty_query_is_a_query(ranker: Ranker) -> None:
    answer = ranker.ask(query="", documents=["cat"], raw_scores=True)
    assert ranked(answer) == [(0, -2.0)]


def test_other_paths_are_refused_with_those_that_exist(ranker: Ranker) -> None:
    with pytest.raises(RequestError, match="answers /v3/rerank and /v3/score") as caught:
        ranker.ask("/v3/embeddings", input="a")
    assert caught.value.code is Code.NOT_FOUND


def test_a_text_is_tokenized_without_special_tokens(ranker: Ranker) -> None:
    answer = ranker.ask("/v3/tokenize", text="the cat sat")
    assert answer["tokens"] == [4, 5, 8]
    asked_for = ranker.ask("/v3/rerank/tokenize", text="cat", add_special_tokens=True)
    assert asked_for["tokens"] == [2, 5, 3]
    assert ranker.ask("/v3/detokenize", tokens=[4, 5])["prompt"] == "the cat"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_restarted(tmp_path: Path) -> None:
    make_bert(tmp_path, graph())

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        (servable,) = loaded._resources.resources
        assert isinstance(servable, RerankServable)
        assert ranked(await ask(query=QUERY, documents=DOCUMENTS)) == EXPECTED
        assert servable.pid is not None
        os.kill(servable.pid, signal.SIGKILL)
        assert ranked(await ask(query=QUERY, documents=DOCUMENTS)) == EXPECTED

    served(tmp_path, scenario)


def test_the_options_length_replaces_that_of_the_model(tmp_path: Path) -> None:
    make_bert(tmp_path, graph(further="max_position_embeddings: 10,"))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        # 3 tokens of the query and 3 special ones leave 4 for each chunk.
        answer = await ask(query=QUERY, documents=["the dog ran on cat sat"], raw_scores=True)
        assert ranked(answer) == [(0, 0.0)]
        assert answer["usage"]["total_tokens"] == 10 + 8

    served(tmp_path, scenario)


@pytest.mark.parametrize(
    ("further", "words"),
    [
        (
            "max_position_embeddings: 8,",
            r"should be larger than 2 \* NUMBER_OF_SPECIAL_TOKENS",
        ),
        ("max_position_embeddings: 0,", "should be larger than 2"),
    ],
)
def test_wrong_options_are_refused_at_the_load(tmp_path: Path, further: str, words: str) -> None:
    make_bert(tmp_path, graph(further=further))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


def test_an_option_cannot_lengthen_a_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_roberta(tmp_path, graph(further="max_position_embeddings: 26,"))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(query=QUERY, documents=["dog " * 18 + "cat"], raw_scores=True)
        # Chunks of 17 words and of the last two.
        assert ranked(answer) == [(0, -1.0)]
        assert answer["usage"]["total_tokens"] == MAX_TOKENS + 9

    served(tmp_path, scenario)
    assert f"the model takes {MAX_TOKENS} tokens, not 26" in caplog.text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('models_path: "./"', 'models_path: "nowhere"', '"nowhere" is not a directory'),
        ('target_device: "CPU"', 'target_device: "TPU"', '"TPU" is not a device'),
        ("""'{"NUM_STREAMS":"1"}'""", "'[1]'", "must be a JSON object"),
        ("max_allowed_chunks: 10000", "max_allowed_chunks: 0", "must be at least 1"),
    ],
)
def test_wrong_options_of_a_graph_are_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    make_bert(tmp_path, graph().replace(old, new))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "qwen2"}, "another model_type than qwen3"),
        ({"max_position_embeddings": 4}, "NUMBER_OF_SPECIAL_TOKENS"),
    ],
)
def test_a_model_that_cannot_rank_is_refused_at_the_load(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    make_decoder(tmp_path, graph())
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}), encoding="utf-8")
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))
