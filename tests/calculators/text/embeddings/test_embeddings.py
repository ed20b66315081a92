"""Embeddings: models made by hand, in their real processes, compared with NumPy."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.text.embeddings.servable import EmbeddingsServable
from graph_runtime import REGISTRY, Code, ResourceError
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from tests.calculators.text.embeddings.embedded_model import (
    Ask,
    EmbeddedModel,
    asked,
    served,
    vectors,
)
from tests.calculators.text.embeddings.tiny_embedder import (
    MAX_TOKENS,
    SIZE,
    expected,
    graph,
    make_model,
    tokens,
)

TEXTS = ["The cat sat on the mat.", "Dogs", "A third text, which is a little longer than those"]
TOKENIZER_FILES = ("tokenizer.json", "openvino_tokenizer.xml")


@pytest.mark.parametrize("pooling", ["CLS", "LAST", "MEAN"])
@pytest.mark.parametrize("normalize", ["true", "false"])
def test_a_graph_of_openvino_model_server_answers_with_the_models_vectors(
    tmp_path: Path, pooling: str, normalize: str
) -> None:
    make_model(tmp_path, graph(pooling=pooling, normalize=normalize))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=TEXTS)
        assert (answer["object"], answer["model"]) == ("list", "tiny")
        assert {each["object"] for each in answer["data"]} == {"embedding"}
        wanted = [expected(text, pooling, normalize=normalize == "true") for text in TEXTS]
        np.testing.assert_allclose(vectors(answer), wanted, atol=1e-4)
        count = sum(len(tokens(text)) for text in TEXTS)
        assert answer["usage"] == {"prompt_tokens": count, "total_tokens": count}
        # A text has the same vector alone as beside longer ones: padding does not count.
        alone = await ask(input=TEXTS[1])
        np.testing.assert_allclose(vectors(alone), [wanted[1]], atol=1e-4)

    served(tmp_path, scenario)


def test_pooling_is_the_models_own_unless_the_graph_sets_it(tmp_path: Path) -> None:
    make_model(tmp_path, graph(), pooling="mean_tokens")

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=TEXTS[0])
        np.testing.assert_allclose(vectors(answer), [expected(TEXTS[0], "MEAN")], atol=1e-4)

    served(tmp_path, scenario)


def test_base64_and_dimensions_are_the_same_numbers(tmp_path: Path) -> None:
    make_model(tmp_path, graph(pooling="MEAN"))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        plain = vectors(await ask(input=TEXTS, encoding_format="float"))
        encoded = await ask(input=TEXTS, encoding_format="base64")
        raw = [base64.b64decode(each["embedding"]) for each in encoded["data"]]
        np.testing.assert_allclose([np.frombuffer(each, "<f4") for each in raw], plain, atol=1e-6)
        short = vectors(await ask(input=TEXTS, dimensions=3))
        wanted = plain[:, :3] / np.linalg.norm(plain[:, :3], axis=1, keepdims=True)
        np.testing.assert_allclose(short, wanted, atol=1e-5)

    served(tmp_path, scenario)


def test_many_texts_are_answered_in_their_order(tmp_path: Path) -> None:
    make_model(tmp_path, graph(pooling="LAST"))
    texts = [f"{'word ' * (number % 7)}number {number}" for number in range(100)]

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=texts)
        np.testing.assert_allclose(
            vectors(answer), [expected(text, "LAST") for text in texts], atol=1e-4
        )

    served(tmp_path, scenario)


def test_a_text_that_is_too_long_is_refused_or_cut_off(tmp_path: Path) -> None:
    long = "word " * (2 * MAX_TOKENS)
    make_model(tmp_path / "strict", graph(pooling="CLS"))
    make_model(tmp_path / "cutting", graph(pooling="CLS", truncate="true"))

    async def refused(loaded: LoadedGraph, ask: Ask) -> None:
        with pytest.raises(RequestError, match=f"longer than allowed {MAX_TOKENS}") as caught:
            await ask(input=["short", long])
        assert caught.value.param == "input[1]"
        assert caught.value.code is Code.OUT_OF_RANGE

    async def cut(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=long)
        assert answer["usage"]["prompt_tokens"] == MAX_TOKENS

    served(tmp_path / "strict", refused)
    served(tmp_path / "cutting", cut)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({}, "input", "input field is required"),
        ({"input": None}, "input", "input field is required"),
        ({"input": []}, "input", "input array should not be empty"),
        ({"input": [[]]}, "input[0]", "inner arrays in input should not be empty"),
        ({"input": [[1], []]}, "input[1]", "inner arrays in input should not be empty"),
        ({"input": 5}, "input", "input should be string, array of strings or array of integers"),
        ({"input": {"text": "a"}}, "input", "input should be string, array of strings"),
        ({"input": ["a", 7]}, "input[1]", "input must be homogeneous"),
        ({"input": [7, "a"]}, "input[1]", "input must be homogeneous"),
        ({"input": [[1], "a"]}, "input[1]", "input must be homogeneous"),
        ({"input": [1.5]}, "input[0]", "every element in input array should be either string or"),
        ({"input": ["a", None]}, "input[1]", "every element in input array should be either"),
        ({"input": [1, True]}, "input[1]", "every element in input array should be either"),
        (
            {"input": [["a"]]},
            "input[0][0]",
            "input must be either array of strings or array of array of integers",
        ),
        ({"input": [1, -1]}, "input[1]", "not a token id"),
        ({"input": [1, 2**40]}, "input[1]", "not a token id"),
        ({"input": [1, 2**31 - 1]}, "input[1]", "not in the model's vocabulary"),
        ({"input": [[1], [2, 99999]]}, "input[1][1]", "not in the model's vocabulary"),
        ({"input": [1] * 33}, "input", f"Input length 33 longer than allowed {MAX_TOKENS}"),
        ({"input": ["a"] * 2049}, "input", "above the maximum 2048"),
        ({"input": "a" * 200_000}, "input", "200000 characters"),
        ({"input": ["a" * 100_000] * 20}, "input", "in all"),
        ({"input": "\ud800"}, "input", "not Unicode"),
        ({"input": "a", "encoding_format": "int4"}, "encoding_format", "either base64 or float"),
        ({"input": "a", "encoding_format": 4}, "encoding_format", "should be string"),
        *(
            (
                {"input": "a", "dimensions": wrong},
                "dimensions",
                f"dimensions must be between 1 and {SIZE}",
            )
            for wrong in (0, -1, SIZE + 1, 70000, 10**400)
        ),
        ({"input": "a", "dimensions": 2.5}, "dimensions", "expected an integer"),
        ({"input": "a", "truncate": "MIDDLE"}, "truncate", '"START" or "END"'),
        ({"input": "a", "prompt_name": "query"}, "prompt_name", "it has none"),
        ({"input": "a", "late_chunking": True}, "late_chunking", "not supported"),
    ],
)
def test_a_wrong_request_is_refused_with_what_would_be_right(
    model: EmbeddedModel, body: dict[str, Any], param: str, words: str
) -> None:
    pid = model.pid
    with pytest.raises(RequestError) as caught:
        model.ask(**body)
    assert caught.value.param == param
    assert words in str(caught.value)
    assert len(model.ask(input="still there")["data"]) == 1
    assert model.pid == pid  # nothing of it ended the process


def test_other_paths_are_refused_with_the_one_that_exists(model: EmbeddedModel) -> None:
    with pytest.raises(RequestError, match="answers /v3/embeddings") as caught:
        model.ask(uri="/v3/chat/completions", input="a")
    assert caught.value.code is Code.NOT_FOUND


def test_null_means_absent(model: EmbeddedModel) -> None:
    answer = model.ask(input="a", encoding_format=None, dimensions=None, user=None)
    assert len(answer["data"][0]["embedding"]) == SIZE


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_is_restarted(tmp_path: Path) -> None:
    make_model(tmp_path, graph(pooling="CLS"))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        (servable,) = loaded._resources.resources
        assert isinstance(servable, EmbeddingsServable)
        before = await ask(input="a text")
        assert servable.pid is not None
        os.kill(servable.pid, signal.SIGKILL)
        assert await ask(input="a text") == before

    served(tmp_path, scenario)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda model: [(model / name).unlink() for name in TOKENIZER_FILES],
            r"has neither tokenizer\.json nor openvino_tokenizer\.xml",
        ),
        (lambda model: (model / "tokenizer.json").write_text("{}"), "tokenizer.json cannot be"),
        (lambda model: (model / "openvino_model.bin").unlink(), "has no openvino_model.bin"),
        (lambda model: (model / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda model: (model / "openvino_model.xml").write_text("<"), "cannot be loaded"),
    ],
)
def test_a_broken_model_is_refused_with_the_file_at_fault(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    change(make_model(tmp_path, graph()))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('models_path: "./"', 'models_path: "nowhere"', '"nowhere" is not a directory'),
        ('target_device: "CPU"', 'target_device: "TPU"', '"TPU" is not a device'),
        ("""'{"NUM_STREAMS":"1"}'""", "'[1]'", "must be a JSON object"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    make_model(tmp_path, graph().replace(old, new))
    with pytest.raises(ResourceError, match=words):
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))


def test_the_compiled_model_is_kept_for_the_next_start(tmp_path: Path) -> None:
    make_model(tmp_path / "model", graph(pooling="MEAN"))
    cache = tmp_path / "cache"

    async def start() -> list[Any]:
        settings = GraphSettings(cache_dir=str(cache))
        loaded = await load_graph(find_graph(tmp_path / "model"), REGISTRY, settings)
        try:
            return [each["embedding"] for each in (await asked(loaded, input="cat"))["data"]]
        finally:
            await loaded.close()

    def written() -> list[tuple[str, int]]:
        return [(file.name, file.stat().st_mtime_ns) for file in cache.rglob("*.blob")]

    first = asyncio.run(start())
    kept = written()
    # The model is compiled twice where it may have several streams.
    assert len(kept) in (1, 2)
    assert asyncio.run(start()) == first
    assert written() == kept
