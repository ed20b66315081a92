"""A GGUF file as ``models_path``: engine, tokenizer and chat template come from one file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.gguf_file import Value, write_gguf
from bench.random_model import TINY, make_model, metadata, vocabulary, weights
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.options.node_options import read_node_options
from calculators.llm.servable import LlmServable
from calculators.llm.servable_loading import load_servable
from calculators.llm.task import TASK
from calculators.llm.task_options import LlmSettings
from graph_runtime import (
    REGISTRY,
    Registry,
    ResourceError,
    ResourceSettings,
    load_graph_config,
    validate_graph,
)
from tests.support.conditions import soon

END = 2


async def serve(directory: Path) -> LlmServable:
    """Load the model of a directory's graph as the server does."""
    registry = Registry(REGISTRY)
    TASK.register(registry)
    plan = validate_graph(load_graph_config(directory / "graph.pbtxt"), registry=registry)
    (node,) = plan.nodes
    options = read_node_options(node, ResourceSettings(directory))
    return await soon(load_servable(options, name="tiny", settings=LlmSettings(request_limit=8)))


async def generate(model: LlmServable, prompt: bytes, settings: GenerationSettings) -> list[int]:
    generation = model.engine.submit([Add(0, prompt, settings)])
    ids: list[int] = []
    while not generation.is_finished:
        for _, tokens in await soon(generation.read()):
            ids += tokens.token_ids
    return ids


@pytest.fixture(scope="module")
def model(
    runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LlmServable]:
    directory = tmp_path_factory.mktemp("gguf")
    make_model(directory, TINY)
    served = runner.run(serve(directory))
    yield served
    runner.run(served.close())


def test_the_prompt_uses_the_files_template_and_vocabulary(
    model: LlmServable, runner: asyncio.Runner
) -> None:
    prompt = runner.run(model.prompts.chat([{"role": "user", "content": "good morning"}]))
    assert prompt.text == "<|im_start|>user\ngood morning<|im_end|>\n<|im_start|>assistant\n"
    ids = np.frombuffer(prompt.input_ids, dtype=np.int64).tolist()
    assert model.tokens.decode(ids, skip_special_tokens=False) == prompt.text
    tokens, _ = vocabulary(TINY.vocabulary)
    assert ids[0] == tokens.index("<|im_start|>")
    assert len(ids) < len(prompt.text) / 2


def test_a_gguf_model_generates(model: LlmServable, runner: asyncio.Runner) -> None:
    async def answer() -> tuple[list[int], str]:
        prompt = await model.prompts.encode("good morning")
        settings = GenerationSettings(max_new_tokens=12, ignore_eos=True)
        ids = await generate(model, prompt.input_ids, settings)
        return ids, await model.prompts.decode(ids)

    ids, text = runner.run(answer())
    assert len(ids) == 12
    assert model.tokens.decode(ids) == text


def test_a_gguf_model_generates_the_same_one_request_at_a_time(
    model: LlmServable, runner: asyncio.Runner, tmp_path: Path
) -> None:
    make_model(tmp_path, TINY)
    graph = tmp_path / "graph.pbtxt"
    text = graph.read_text(encoding="utf-8")
    graph.write_text(text.replace("models_path:", "pipeline_type: LM models_path:"), "utf-8")
    settings = GenerationSettings(max_new_tokens=12, ignore_eos=True)

    async def answer() -> list[int]:
        prompt = (await model.prompts.encode("good morning")).input_ids
        alone = await serve(tmp_path)
        ids = await generate(alone, prompt, settings)
        assert ids == await generate(model, prompt, settings)
        await alone.close()
        return ids

    assert len(runner.run(answer())) == 12


def test_a_gguf_file_can_be_a_draft_model(
    model: LlmServable, runner: asyncio.Runner, tmp_path: Path
) -> None:
    make_model(tmp_path, TINY)
    graph = tmp_path / "graph.pbtxt"
    text = graph.read_text(encoding="utf-8")
    drafted = text.replace("models_path:", 'draft_models_path: "model.gguf" models_path:')
    graph.write_text(drafted, "utf-8")
    settings = GenerationSettings(max_new_tokens=12, ignore_eos=True, num_assistant_tokens=3)

    async def answer() -> None:
        prompt = (await model.prompts.encode("good morning")).input_ids
        assisted = await serve(tmp_path)
        alone = msgspec.structs.replace(settings, num_assistant_tokens=0)
        assert await generate(assisted, prompt, settings) == await generate(model, prompt, alone)
        await assisted.close()

    runner.run(answer())


def test_text_is_decoded_with_the_files_vocabulary(
    model: LlmServable, runner: asyncio.Runner
) -> None:
    tokens, _ = vocabulary(TINY.vocabulary)
    ids = [tokens.index("a"), tokens.index("\u00e4"), tokens.index("b")]  # the byte E4
    assert model.tokens.is_exact
    assert model.tokens.decode(ids) == "a\ufffdb"
    assert runner.run(model.prompts.decode(ids)) == "a\ufffdb"


def test_the_files_end_token_ends_an_answer(runner: asyncio.Runner, tmp_path: Path) -> None:
    make_model(tmp_path, TINY)
    likely_end = dict(weights(TINY))
    for array in likely_end.values():
        if array.ndim == 2:
            array[:] = 0
    likely_end["token_embd.weight"][:] = 0.1
    likely_end["token_embd.weight"][END] = 0.3
    write_gguf(tmp_path / "model.gguf", metadata(TINY), likely_end)

    async def answer() -> list[int]:
        model = await serve(tmp_path)
        prompt = await model.prompts.encode("good morning")
        ids = await generate(model, prompt.input_ids, GenerationSettings(max_new_tokens=12))
        await model.close()
        return ids

    assert runner.run(answer()) == [END]


def test_the_files_length_limits_requests(model: LlmServable) -> None:
    assert model.limits.request.max_model_length == TINY.context


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def no_gguf(file: Path) -> None:
    file.write_bytes(b"not a model" * 1000)


def other_architecture(file: Path) -> None:
    facts: dict[str, Value] = {
        key.replace("qwen3", "unheard"): value for key, value in metadata(TINY).items()
    }
    facts["general.architecture"] = "unheard"
    write_gguf(file, facts, dict(weights(TINY)))


def without_tokenizer(file: Path) -> None:
    facts = {key: value for key, value in metadata(TINY).items() if "tokenizer" not in key}
    write_gguf(file, facts, dict(weights(TINY)))


def other_words(file: Path) -> None:
    facts = {**metadata(TINY), "tokenizer.ggml.pre": "unheard"}
    write_gguf(file, facts, dict(weights(TINY)))


def with_value(key: str, value: Value, types: int | None = None) -> Callable[[Path], None]:
    """Return what writes a file with another value, and so many types of tokens."""

    def write(file: Path) -> None:
        facts = {**metadata(TINY), key: value}
        if types is not None:
            facts["tokenizer.ggml.token_type"] = [1] * types
        write_gguf(file, facts, dict(weights(TINY)))

    return write


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut, r'"model.gguf" is only a part of a GGUF file: it has \d+ bytes, and its weights end'),
        (cut_short, '"model.gguf" is only a part of a GGUF file: it ends within its metadata'),
        (empty, '"model.gguf" is not a GGUF file: it is empty'),
        (no_gguf, '"model.gguf" is not a GGUF file: it does not begin with the letters GGUF'),
        (other_architecture, 'of the architecture "unheard", which is not known; known are'),
        (without_tokenizer, '"model.gguf" has no tokenizer'),
        (other_words, 'needs the pre-tokenizer "unheard"'),
        (with_value("tokenizer.ggml.tokens", ["a"] * 99, types=99), "has 99 texts, and the tensor"),
        (with_value("tokenizer.ggml.eos_token_id", 4096), 'eos_token_id" is 4096, of 1024 tokens'),
        (with_value("tokenizer.ggml.merges", ["a b", "ab"]), "no pair of texts at place 1: 'ab'"),
        (with_value("general.sampling.temp", "hot"), "must be a number, not 'hot'"),
        (with_value("tokenizer.chat_template", "{% if %}"), "tokenizer.chat_template:1: Expected"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    runner: asyncio.Runner, tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(make_model(tmp_path, TINY))
    with pytest.raises(ResourceError, match=reason):
        runner.run(serve(tmp_path))
