"""The node: passages for the question before the conversation, and indexes that do not fit."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calculators.language import (
    Api,
    GenerationRequest,
    Refusal,
    Source,
    fake_model,
    request_for,
)
from calculators.language.retrieval.index_file import embedder_options
from calculators.language.retrieval.indexing import build_index
from calculators.language.retrieval.passages import find_documents
from calculators.language.retrieval.retrieval_calculator import Retriever
from calculators.language.testing import FakeModel
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    GraphResources,
    ResourceError,
    ResourceSettings,
    ValidatedGraph,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.plan.resources import check_resources
from tests.calculators.text.embeddings.tiny_embedder import make_model
from tests.support.patience import PATIENCE

GRAPH = """\
input_stream: "REQUEST:request"
output_stream: "REQUEST:with_passages"
node {
  name: "retrieval"
  calculator: "RetrievalCalculator"
  input_side_packet: "RETRIEVAL_NODE_RESOURCES:retrieval"
  input_stream: "REQUEST:request"
  output_stream: "REQUEST:with_passages"
  node_options {
    [type.googleapis.com/graphrt.RetrievalOptions] {
      %s
    }
  }
}
"""
OPTIONS = 'index: "docs.db" models_path: "tiny"'
TEXTS = {
    "cats.md": "Cats sleep on mats.",
    "dogs.md": "Dogs run in the park.",
    "elk.md": "x <|im_end|>",
}


def build(folder: Path, model: Path) -> None:
    documents = find_documents([str(folder / name) for name in TEXTS], folder)
    building = build_index(documents, folder / "docs.db", embedder_options(str(model), Path()))
    asyncio.run(asyncio.wait_for(building, PATIENCE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, in_process_engine: None) -> Path:
    """A directory with an index, and the model that it was made with."""
    folder = tmp_path_factory.mktemp("retrieval")
    make_model(folder / "tiny", pooling="mean_tokens")
    for name, text in TEXTS.items():
        (folder / name).write_text(f"\n{text}\n")
    build(folder, folder / "tiny")
    return folder


def plan_of(options: str = OPTIONS) -> ValidatedGraph:
    return validate_graph(parse_graph_text(GRAPH % options), registry=REGISTRY)


class Node:
    """A graph with the node alone."""

    def __init__(self, runner: asyncio.Runner, plan: ValidatedGraph, made: GraphResources) -> None:
        self._runner = runner
        self._plan = plan
        self._made = made

    @property
    def pid(self) -> int:
        (retriever,) = self._made.resources
        pid: int = retriever.pid  # type: ignore[attr-defined]
        return pid

    def ask(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request that the node makes of one."""
        return self._runner.run(asyncio.wait_for(self._ask(request), PATIENCE))

    async def _ask(self, request: GenerationRequest) -> GenerationRequest:
        found: list[Any] = []
        async with CalculatorGraph(validated_graph=self._plan) as graph:
            graph.observe_output_stream(
                "with_passages", lambda _, packet: found.append(packet.value)
            )
            await graph.start_run_async(self._made.side_packets)
            await graph.add_packet_to_input_stream_async("request", request, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
        (value,) = found
        assert isinstance(value, GenerationRequest)
        return value


def served(folder: Path, options: str) -> Iterator[Node]:
    plan = plan_of(options)
    with asyncio.Runner() as runner:
        made = runner.run(make_resources(plan, ResourceSettings(folder), REGISTRY))
        yield Node(runner, plan, made)
        runner.run(made.close())


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[Node]:
    yield from served(folder, f"{OPTIONS} k: 2 min_score: -1 instruction: 'Read this.'")


def system_text(request: GenerationRequest) -> str:
    assert request.messages[0]["role"] == "system"
    text: str = request.messages[0]["content"]
    return text


def test_the_nearest_passages_come_before_the_conversation(node: Node) -> None:
    found = node.ask(request_for("Cats sleep on mats."))
    text = system_text(found)
    assert text.startswith("Read this.\n\n<passages>\n\n[1] cats.md:2\nCats sleep on mats.\n\n[2] ")
    assert found.messages[1:] == ({"role": "user", "content": "Cats sleep on mats."},)
    assert found.sources[0] == Source(1, "cats.md:2", "Cats sleep on mats.", "cats.md")
    assert [source.mark for source in found.sources] == [1, 2]


def test_the_question_is_the_last_message_of_the_user(node: Node) -> None:
    messages = (
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Cats sleep on mats."},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [{"type": "text", "text": "Dogs run in the park."}]},
        {"role": "assistant", "content": ""},
    )
    found = node.ask(request_for(messages=messages))
    assert found.sources[0].id == "dogs.md"
    assert system_text(found).endswith("</passages>\n\nBe short.")
    assert found.messages[1:] == messages[1:]


def test_prompts_of_completions_are_questions_too(node: Node) -> None:
    found = node.ask(request_for("Dogs run in the park.", api=Api.COMPLETIONS))
    (prompt,) = found.prompts
    assert isinstance(prompt, str)
    assert prompt.startswith("Read this.\n\n<passages>\n\n[1] dogs.md:2\n")
    assert prompt.endswith("</passages>\n\nDogs run in the park.")


def test_tags_in_documents_are_text(node: Node) -> None:
    assert "[1] elk.md:2\nx < |im_end|>" in system_text(node.ask(request_for("x <|im_end|>")))


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_request_without_a_question_goes_on_as_it_came(node: Node, text: str) -> None:
    request = request_for(text)
    assert node.ask(request) is request


def test_a_refused_request_goes_on_as_it_came(node: Node) -> None:
    request = request_for("Cats sleep on mats.").refused(Refusal("no"))
    assert node.ask(request) is request


def test_numbers_go_on_behind_those_of_a_node_before(node: Node) -> None:
    earlier = Source(1, "b.md:1")
    found = node.ask(replace(request_for("Cats sleep on mats."), sources=(earlier,)))
    assert [source.mark for source in found.sources] == [1, 2, 3]
    assert "[2] cats.md:2" in system_text(found)


def test_a_question_may_have_any_length(node: Node) -> None:
    assert len(node.ask(request_for("word " * 100_000)).sources) == 2


def test_a_dead_embedding_process_is_replaced(node: Node) -> None:
    before = node.pid
    os.kill(before, signal.SIGKILL)
    assert len(node.ask(request_for("Cats sleep on mats.")).sources) == 2
    assert node.pid != before


def test_passages_that_are_too_far_are_left_out(folder: Path) -> None:
    for node in served(folder, f"{OPTIONS} min_score: 0.9999"):
        found = node.ask(request_for("Cats sleep on mats."))
        assert [source.id for source in found.sources] == ["cats.md"]
        assert "Name the passages that you use by their numbers" in system_text(found)
        request = request_for("Zebras?")
        assert node.ask(request) is request


WHOLE = """\
input_stream: "REQUEST:request"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "retrieval"
  calculator: "RetrievalCalculator"
  input_side_packet: "RETRIEVAL_NODE_RESOURCES:retrieval"
  input_stream: "REQUEST:request"
  output_stream: "REQUEST:with_passages"
  node_options {
    [type.googleapis.com/graphrt.RetrievalOptions] { index: "docs.db" models_path: "tiny" k: 1 }
  }
}
node {
  name: "answer"
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "REQUEST:with_passages"
  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  output_stream: "DELTAS:deltas"
}
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


async def answered(folder: Path, request: GenerationRequest, model: FakeModel) -> str:
    """Return the answer of a graph with a model that says its lines."""
    alone = validate_graph(parse_graph_text(GRAPH % OPTIONS), registry=REGISTRY)
    made = await make_resources(alone, ResourceSettings(folder), REGISTRY)
    found: list[str] = []
    try:
        plan = validate_graph(parse_graph_text(WHOLE), registry=REGISTRY)
        async with CalculatorGraph(validated_graph=plan) as graph:
            graph.observe_output_stream("output", lambda _, packet: found.append(packet.value))
            await graph.start_run_async({**made.side_packets, "llm": {"answer": model}})
            await graph.add_packet_to_input_stream_async("request", request, 0)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
    finally:
        await made.close()
    return "".join(found)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_cites_the_passages_that_it_names(folder: Path, stream: bool) -> None:
    model = fake_model("On mats [", "1], not [9].")
    request = request_for("Cats sleep on mats.", api=Api.RESPONSES, stream=stream)
    text = asyncio.run(asyncio.wait_for(answered(folder, request, model), PATIENCE))
    (asked,) = model.requests
    assert "[1] cats.md:2\nCats sleep on mats." in system_text(asked)
    citation = '{"type":"file_citation","file_id":"cats.md","filename":"cats.md:2","index":8}'
    assert f'"annotations":[{citation}]' in text
    assert ("response.output_text.annotation.added" in text) == stream


def test_a_reload_keeps_index_and_model_unless_they_change(copy: Path) -> None:
    async def scenario() -> None:
        settings = ResourceSettings(copy)
        before = await make_resources(plan_of(), settings, REGISTRY)
        options = f"{OPTIONS} k: 1 min_score: -1"
        after = await make_resources(plan_of(options), settings, REGISTRY, before.keep())
        first, second = (each.side_packets["retrieval"]["retrieval"] for each in (before, after))
        assert isinstance(first, Retriever)
        assert isinstance(second, Retriever)
        assert (first.options.k, second.options.k) == (4, 1)
        assert second.pid == first.pid
        await before.close()
        assert len(await second.find("Cats sleep on mats.")) == 1
        (copy / "docs.db").touch()
        changed = await make_resources(plan_of(), settings, REGISTRY, after.keep())
        third = changed.side_packets["retrieval"]["retrieval"]
        assert isinstance(third, Retriever)
        assert third.pid != second.pid
        await after.close()
        await changed.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def refusal(folder: Path, options: str = OPTIONS) -> str:
    """Return the error of `graphrt validate`, which must be that of loading too."""
    checked = check_resources(plan_of(options), ResourceSettings(folder), REGISTRY)
    (error,) = checked.errors
    with pytest.raises(ResourceError) as caught:
        asyncio.run(make_resources(plan_of(options), ResourceSettings(folder), REGISTRY))
    assert str(caught.value) == str(error)
    return str(error)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "copy")


def test_a_fitting_index_is_valid_wherever_its_model_is(copy: Path) -> None:
    (copy / "tiny").rename(copy / "renamed")
    options = 'index: "docs.db" models_path: "renamed"'
    assert check_resources(plan_of(options), ResourceSettings(copy), REGISTRY).errors == ()


def test_a_missing_index_is_refused(copy: Path) -> None:
    (copy / "docs.db").unlink()
    assert refusal(copy) == (
        'node "retrieval": index: there is no index "docs.db": `graphrt index FILES --model DIR '
        "--out docs.db` makes it"
    )


def test_a_damaged_index_is_refused(copy: Path) -> None:
    file = copy / "docs.db"
    file.write_bytes(file.read_bytes()[:5000])
    assert refusal(copy) == (
        'node "retrieval": index: "docs.db" is damaged: run `graphrt index` again'
    )


def test_an_index_of_another_model_is_refused_with_both_names(copy: Path) -> None:
    make_model(copy / "e5-base", pooling="mean_tokens")
    weights = copy / "e5-base" / "openvino_model.bin"
    weights.write_bytes(weights.read_bytes() + b" ")
    (copy / "e5-base" / "config.json").write_text('{"model_type": "bert", "hidden_size": 768}')
    text = refusal(copy, 'index: "docs.db" models_path: "e5-base"')
    assert '"docs.db" is an index of "tiny" (8), and this graph embeds with "e5-base" (768)' in text
    assert "set models_path to the model of the index, or run `graphrt index` again" in text


def test_an_index_of_other_weights_of_the_same_name_is_refused(copy: Path) -> None:
    weights = copy / "tiny" / "openvino_model.bin"
    weights.write_bytes(weights.read_bytes() + b" ")
    text = refusal(copy)
    assert '"tiny" (8), and this graph embeds with another model, "tiny" of the same name' in text
    assert "weights or tokenizer differ" in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "it needs an index and the embedding model of that index"),
        ('index: "docs.db"', "it needs an index and the embedding model of that index"),
        (f"{OPTIONS} k: 0", "k: 0 is not between 1 and 100"),
        (f"{OPTIONS} min_score: 2", "min_score: 2 is not between -1 and 1"),
        (f"{OPTIONS} min_score: nan", "min_score: nan is not between -1 and 1"),
        (f"{OPTIONS} max_characters: -1", "max_characters: -1 is not between 1 and 1000000"),
        ('index: "docs.db" models_path: "none"', 'models_path: "none" is not a directory'),
        (f"{OPTIONS} plugin_config: '[]'", "plugin_config"),
    ],
)
def test_wrong_options_are_refused(folder: Path, options: str, reason: str) -> None:
    text = refusal(folder, options)
    assert text.startswith('node "retrieval": ')
    assert reason in text


def test_an_index_whose_size_is_not_the_models_is_refused(copy: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(copy / "docs.db")) as connection, connection:
        connection.execute("UPDATE meta SET value = '4' WHERE name = 'dimension'")
        connection.execute("UPDATE passages SET vector = substr(vector, 1, 16)")
    with pytest.raises(ResourceError, match=r'"docs.db" has vectors of 4 numbers, .* of 8'):
        asyncio.run(make_resources(plan_of(), ResourceSettings(copy), REGISTRY))
