"""AnswerCacheCalculator with ``similarity``: questions are compared by the embedder that ships."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import GenerationRequest, fake_model, request_for, text_of
from calculators.language.answer_cache.answer_cache import AnswerCache
from graph_runtime import (
    REGISTRY,
    ResourceError,
    ResourceSettings,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.language.scripted_graphs import model_node, run_requests
from tests.support.checkout import ROOT

MODEL = (
    "node_options { [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] "
    '{ models_path: "examples/models/docs_embedder" } }'
)


def node(options: str) -> str:
    return f"""
        node {{
          name: "cache" calculator: "AnswerCacheCalculator" input_stream: "REQUEST:request"
          input_stream: "DELTAS:made" output_stream: "REQUEST:missed"
          output_stream: "DELTAS:answer" input_side_packet: "ANSWER_CACHE:cache" {options}
        }}
    """


def similar_by(least: float) -> str:
    return (
        "node_options { [type.googleapis.com/graphrt.AnswerCacheOptions] "
        f"{{ similarity: {least} }} }}"
    )


async def made(options: str) -> Any:
    """Make the resources of a node with these options."""
    ends = 'input_stream: "REQUEST:request" input_stream: "DELTAS:made" '
    plan = validate_graph(parse_graph_text(ends + node(options)), registry=REGISTRY)
    return await make_resources(plan, ResourceSettings(ROOT), REGISTRY)


class Cached:
    """A cache before a scripted model."""

    def __init__(self, runner: asyncio.Runner, cache: AnswerCache) -> None:
        self.model = fake_model(lambda request: ["to ", request.last_text()])
        self._runner = runner
        self._cache = cache

    def ask(self, request: GenerationRequest) -> str:
        sides = {"cache": {"cache": self._cache}}
        graph = node("") + model_node("llm_node", "made", "missed")
        models = {"llm_node": self.model}
        return text_of(self._runner.run(run_requests(graph, models, request, sides=sides)))


@pytest.fixture
def cached(in_process_engine: None) -> Iterator[Cached]:
    with asyncio.Runner() as runner:
        resources = runner.run(made(similar_by(0.9) + MODEL))
        try:
            yield Cached(runner, resources.side_packets["cache"]["cache"])
        finally:
            runner.run(resources.close())


def asked(text: str, **fields: Any) -> GenerationRequest:
    return request_for(text, **{"sampling": {"temperature": 0}, **fields})


FIRST = "How do I install the server?"
NEAR = "how do I install the server"
FAR = "Which metrics does it publish?"


def test_a_similar_question_gets_the_kept_answer_and_another_one_its_own(cached: Cached) -> None:
    record = RequestRecord("r")
    assert cached.ask(asked(FIRST)) == f"to {FIRST}"
    assert cached.ask(asked(NEAR, record=record)) == f"to {FIRST}"
    assert cached.ask(asked(FAR)) == f"to {FAR}"
    assert len(cached.model.requests) == 2
    [route] = record.routes
    assert route.name == "cache"
    assert route.why.startswith("similar by 0.9")
    assert "install" not in repr(record.routes)


@pytest.mark.parametrize(
    "other",
    [
        asked(NEAR, sampling={"temperature": 0, "max_tokens": 5}),
        asked(NEAR, model="another"),
        asked(NEAR).with_system("Answer in French."),
        asked("").with_messages(
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": NEAR},
        ),
    ],
    ids=["sampling", "model", "system", "conversation"],
)
def test_all_but_the_question_must_be_equal(cached: Cached, other: GenerationRequest) -> None:
    cached.ask(asked(FIRST))
    assert cached.ask(other) == f"to {NEAR}"


def test_an_answer_that_is_drawn_at_random_is_given_to_nobody(cached: Cached) -> None:
    cached.ask(asked(FIRST, sampling={"temperature": 1}))
    assert cached.ask(asked(NEAR, sampling={"temperature": 1})) == f"to {NEAR}"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (similar_by(1.5) + MODEL, "similarity: 1.5 is not between 0 and 1"),
        (similar_by(0.9), "similarity: add the model that compares questions"),
        (MODEL, "similarity: set it, such as 0.95"),
    ],
    ids=["no cosine", "no model", "no similarity"],
)
def test_wrong_options_are_refused_with_the_node(options: str, told: str) -> None:
    with pytest.raises(ResourceError) as raised:
        asyncio.run(made(options))
    assert told in str(raised.value)
    assert '"cache"' in str(raised.value)
