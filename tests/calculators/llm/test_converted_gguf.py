"""GGUF models with a cache: converted once, and the same model afterwards."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.gguf_file import Value, q8_0, write_gguf
from bench.random_model import TINY, make_model, metadata, weights
from calculators.kit.checkpoints.gguf_converter import convert
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.model_cache import ModelCache
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.options.node_options import read_node_options
from calculators.llm.servable import LlmServable
from calculators.llm.servable_loading import load_servable
from calculators.llm.task import TASK
from calculators.llm.task_options import LlmSettings
from graph_runtime import (
    REGISTRY,
    LoadProgress,
    Registry,
    ResourceError,
    ResourceSettings,
    load_graph_config,
    validate_graph,
)
from tests.support.conditions import soon

PROMPTS = ("good morning", "a b c d", "Grüße, 你好", " 1 2 3")
SETTINGS = GenerationSettings(max_new_tokens=24, ignore_eos=True, logprobs=True)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf")
    make_model(path, TINY)
    quantized = {name: q8_0(array) if array.ndim == 2 else array for name, array in weights(TINY)}
    facts = {**metadata(TINY), "general.file_type": 7}  # mostly Q8_0
    write_gguf(path / "model.gguf", facts, quantized)
    return path


async def serve(
    directory: Path, cache: ModelCache | None, progress: LoadProgress | None = None
) -> LlmServable:
    registry = Registry(REGISTRY)
    TASK.register(registry)
    plan = validate_graph(load_graph_config(directory / "graph.pbtxt"), registry=registry)
    (node,) = plan.nodes
    options = read_node_options(node, ResourceSettings(directory))
    settings = LlmSettings(request_limit=8)
    return await soon(
        load_servable(options, name="tiny", settings=settings, cache=cache, progress=progress)
    )


async def answers(model: LlmServable) -> list[object]:
    """Return tokens and log-probabilities of each prompt, and all else that the files decide."""
    found: list[object] = [
        model.limits.request.max_model_length,
        model.fingerprint,
        (await model.prompts.chat([{"role": "user", "content": "good morning"}])).text,
    ]
    for prompt in PROMPTS:
        encoded = await model.prompts.encode(prompt)
        ids: list[int] = []
        logprobs: list[float] = []
        generation = model.engine.submit([Add(0, encoded.input_ids, SETTINGS)])
        while not generation.is_finished:
            for _, tokens in await soon(generation.read()):
                ids += tokens.token_ids
                logprobs += tokens.logprobs
        found += [np.frombuffer(encoded.input_ids, np.int64).tolist(), ids, logprobs]
        found.append(model.tokens.decode(ids))
    return found


async def answers_with(directory: Path, cache: ModelCache | None) -> list[object]:
    model = await serve(directory, cache)
    try:
        return await answers(model)
    finally:
        await model.close()


def files(cache: ModelCache) -> dict[str, tuple[int, int]]:
    """Return inode and time of each file of the model in the cache."""
    return {
        file.name: (file.stat().st_ino, file.stat().st_mtime_ns)
        for file in cache.folder.rglob("openvino_*")
    }


def test_the_converted_model_answers_exactly_as_the_file(directory: Path, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)

    async def run() -> None:
        of_file = await answers_with(directory, None)
        first = await answers_with(directory, cache)
        written = files(cache)
        assert set(written) == {
            f"openvino_{part}.{end}"
            for part in ("model", "tokenizer", "detokenizer")
            for end in ("xml", "bin")
        }
        # The second start reads what the first has written.
        second = await answers_with(directory, cache)
        assert files(cache) == written
        assert first == of_file
        assert second == of_file

    asyncio.run(run())
    # Nothing is written beside the model.
    assert sorted(file.name for file in directory.iterdir()) == ["graph.pbtxt", "model.gguf"]


def test_a_base_model_says_what_a_chat_lacks_unless_a_template_lies_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_model(tmp_path / "model", TINY)
    file = tmp_path / "model" / "model.gguf"
    facts = {key: value for key, value in metadata(TINY).items() if "template" not in key}
    write_gguf(file, facts, dict(weights(TINY)))
    cache = ModelCache(tmp_path / "cache")
    chat = [{"role": "user", "content": "a b"}]

    async def run() -> None:
        model = await serve(file.parent, cache)
        with pytest.raises(RequestError, match=r"put the template as chat_template\.jinja beside"):
            await model.prompts.chat(chat)
        assert (await model.prompts.encode("a b")).token_count
        await model.close()
        (file.parent / "chat_template.jinja").write_text("{{ messages[0].content }}!")
        model = await serve(file.parent, cache)
        assert (await model.prompts.chat(chat)).text == "a b!"
        await model.close()

    asyncio.run(run())
    assert "no chats, since it has no usable chat template: its GGUF file has none" in caplog.text


def test_split_files_are_one_model(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    copy.mkdir()
    quantized = {name: q8_0(array) if array.ndim == 2 else array for name, array in weights(TINY)}
    half = len(quantized) // 2
    parts = [dict(list(quantized.items())[:half]), dict(list(quantized.items())[half:])]
    for number, tensors in enumerate(parts):
        facts: dict[str, Value] = {"split.no": number, "split.count": 2}
        if not number:
            facts |= {**metadata(TINY), "general.file_type": 7}
        write_gguf(copy / f"model-{number + 1:05}-of-00002.gguf", facts, tensors)
    text = (directory / "graph.pbtxt").read_text(encoding="utf-8")
    text = text.replace("model.gguf", "model-00001-of-00002.gguf")
    (copy / "graph.pbtxt").write_text(text, encoding="utf-8")
    cache = ModelCache(tmp_path / "cache")

    async def run() -> None:
        whole = await answers_with(directory, cache)
        split = await answers_with(copy, cache)
        # All but the fingerprint, which is the file's.
        assert split[2:] == whole[2:]

    asyncio.run(run())


def test_a_damaged_draft_is_refused_before_the_model_is_converted(
    directory: Path, tmp_path: Path
) -> None:
    for name in ("graph.pbtxt", "model.gguf"):
        shutil.copy(directory / name, tmp_path / name)
    (tmp_path / "draft.gguf").write_bytes((tmp_path / "model.gguf").read_bytes()[:4000])
    graph = (tmp_path / "graph.pbtxt").read_text()
    draft = 'draft_models_path: "draft.gguf" models_path:'
    (tmp_path / "graph.pbtxt").write_text(graph.replace("models_path:", draft))
    cache = ModelCache(tmp_path / "cache")

    with pytest.raises(ResourceError, match=r'"draft\.gguf" is only a part of a GGUF file'):
        asyncio.run(serve(tmp_path, cache))

    assert not list(tmp_path.glob("cache/**/*.xml"))


def test_a_cut_conversion_is_made_again(directory: Path, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)

    async def run() -> None:
        await (await serve(directory, cache)).close()
        written = files(cache)
        (weights,) = cache.folder.rglob("openvino_model.bin")
        size = weights.stat().st_size
        weights.write_bytes(weights.read_bytes()[: size // 2])
        model = await serve(directory, cache)
        assert len(await answers(model)) > len(PROMPTS)
        await model.close()
        assert files(cache).keys() == written.keys()
        assert weights.stat().st_size == size

    asyncio.run(run())


def test_another_file_at_the_same_path_is_another_model(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(directory, copy)
    cache = ModelCache(tmp_path / "cache")

    async def run() -> None:
        await (await serve(copy, cache)).close()
        data = bytearray((copy / "model.gguf").read_bytes())
        data[-4096:] = bytes(4096)
        (copy / "model.gguf").write_bytes(data)
        await (await serve(copy, cache)).close()

    asyncio.run(run())
    assert len(cache.entries()) == 2


def test_two_servers_at_once_convert_once(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cache = ModelCache(tmp_path)

    async def run() -> None:
        both = await asyncio.gather(serve(directory, cache), serve(directory, cache))
        first, second = [await answers(model) for model in both]
        assert first == second
        for model in both:
            await model.close()

    asyncio.run(run())
    assert sum("was converted" in message for message in caplog.messages) == 1
    assert len(cache.entries()) == 1


def test_without_room_the_model_is_converted_for_this_start(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")

    async def run() -> None:
        model = await serve(directory, ModelCache(tmp_path / "file"))
        assert len(await answers(model)) > len(PROMPTS)
        await model.close()

    asyncio.run(run())
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.name for each in warnings] == ["graphrt.cache"]


def test_a_disk_that_is_full_is_named_with_what_the_model_takes(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(ResourceError, match=r'"model.gguf": the disk is full .* take 97 MB'):
        convert(
            directory / "model.gguf", tmp_path, OffsetForm.SCALED, 97_000_000, lambda phase: None
        )


def test_a_model_in_use_stays_in_the_cache(directory: Path, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path, most_bytes=1 << 40)

    async def run() -> None:
        model = await serve(directory, cache)
        assert len(ModelCache(tmp_path, most_bytes=1).entries()) == 1
        ModelCache(tmp_path, most_bytes=1).trim()
        assert len(cache.entries()) == 1
        await model.close()
        ModelCache(tmp_path, most_bytes=1).trim()
        assert not cache.entries()

    asyncio.run(run())


def test_progress_names_the_phases_and_never_falls(directory: Path, tmp_path: Path) -> None:
    progress = LoadProgress()
    seen: list[tuple[float, str]] = []

    async def run() -> None:
        loading = asyncio.create_task(serve(directory, ModelCache(tmp_path), progress))
        while not loading.done():
            seen.append((progress.fraction, progress.phase))
            await asyncio.wait({loading}, timeout=0.002)
        await loading.result().close()

    asyncio.run(run())
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    phases = [phase for _, phase in seen]
    assert "converting the tokenizer of the GGUF file" in phases
    assert "compiling the model" in phases
