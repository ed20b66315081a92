"""Embeddings of all-MiniLM-L6-v2: those of transformers with the same weights."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from bench.downloads import minilm_path
from tests.process.http_client import HttpClient
from tests.process.server_process import ServerProcess

_FILE: Final = Path(__file__).with_name("minilm_vectors.json")
REFERENCE: Final[list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))["texts"]
TEXTS: Final = [each["text"] for each in REFERENCE]


@pytest.fixture(scope="module", params=["f32", "int8"])
def minilm(request: pytest.FixtureRequest, child_program: None) -> Iterator[HttpClient]:
    path = minilm_path(int8=request.param == "int8")
    if not path.is_dir():
        pytest.skip(
            "MiniLM is not here: `python -m bench.downloads minilm` makes it (84 MB to download)"
        )
    with ServerProcess(path, "--model_name", "minilm") as server:
        yield server.client


@pytest.fixture
def least(minilm: HttpClient, request: pytest.FixtureRequest) -> float:
    """Return the least cosine between vectors of the same text."""
    return 0.999 if request.node.callspec.params["minilm"] == "f32" else 0.998


def embedded(client: HttpClient, **members: Any) -> Any:
    reply = client.post("/v3/embeddings", model="minilm", **members)
    assert reply.status == 200, reply.body
    return reply.json


def wanted() -> Any:
    return np.array(
        [np.frombuffer(base64.b64decode(each["vector"]), "<f2").astype(float) for each in REFERENCE]
    )


def test_vectors_are_those_of_transformers(minilm: HttpClient, least: float) -> None:
    answer = embedded(minilm, input=TEXTS, encoding_format="base64")
    raw = [base64.b64decode(each["embedding"]) for each in answer["data"]]
    vectors = np.array([np.frombuffer(each, "<f4") for each in raw])
    assert (vectors * wanted()).sum(axis=1).min() >= least
    assert answer["usage"]["prompt_tokens"] == sum(each["tokens"] for each in REFERENCE)


def test_a_text_has_the_same_vector_alone_and_in_any_batch(
    minilm: HttpClient, least: float
) -> None:
    texts = [*TEXTS, *(f"{text} {'and so on ' * n}" for n in range(40) for text in TEXTS), *TEXTS]
    answer = embedded(minilm, input=texts)
    vectors = np.array([each["embedding"] for each in answer["data"]])
    alone = np.array([embedded(minilm, input=text)["data"][0]["embedding"] for text in TEXTS])
    for part in (vectors[: len(TEXTS)], vectors[-len(TEXTS) :]):
        assert (part * alone).sum(axis=1).min() >= least


def test_a_question_finds_its_answer(minilm: HttpClient) -> None:
    answer = embedded(minilm, input=TEXTS)
    question, reply, weather, _ = np.array([each["embedding"] for each in answer["data"]])
    assert question @ reply > question @ weather + 0.2
