"""Members of requests for embeddings, and the forms of other servers, on a model made by hand."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.serving.loaded_graph import LoadedGraph
from tests.calculators.text.embeddings.embedded_model import Ask, EmbeddedModel, served, vectors
from tests.calculators.text.embeddings.tiny_embedder import (
    MAX_TOKENS,
    SIZE,
    expected,
    graph,
    make_model,
    tokens,
    vector,
    write_prompts,
)
from tests.calculators.text.text_models.word_tokenizer import (
    CLS,
    SEP,
    VOCABULARY,
    ids,
    with_special,
    write_tokenizer,
)

TEXTS = ["The cat sat on the mat.", "Dogs"]
LONG = "the cat sat on a mat " * 10


def words_model(directory: Path, **options: str) -> Path:
    """Make a model with a tokenizer that adds special tokens."""
    make_model(directory, graph(pooling="MEAN", **options))
    write_tokenizer(directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "vocab_size": len(VOCABULARY)}))
    return directory


def close(found: Any, *wanted: Any) -> None:
    np.testing.assert_allclose(found, np.array(wanted), atol=1e-4)


def test_token_ids_are_the_texts_of_the_same_tokens(model: EmbeddedModel) -> None:
    one, two = map(tokens, TEXTS)
    plain = vectors(model.ask(input=TEXTS))
    answer = model.ask(input=[one, two])
    close(vectors(answer), *plain)
    assert answer["usage"]["prompt_tokens"] == len(one) + len(two)
    close(vectors(model.ask(input=one)), plain[0])


def test_an_empty_text_has_its_special_tokens(tmp_path: Path) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=["", "a dog"])
        close(vectors(answer), vector([CLS, SEP], "MEAN"), vector(with_special("a dog"), "MEAN"))
        assert answer["usage"]["prompt_tokens"] == 6
        plain = await ask(input="a dog", add_special_tokens=False)
        close(vectors(plain), vector(ids("a dog"), "MEAN"))
        with pytest.raises(RequestError, match="the text has no tokens"):
            await ask(input=["a dog", ""], add_special_tokens=False)

    served(words_model(tmp_path), scenario)


@pytest.mark.parametrize(
    ("members", "kept"),
    [
        ({"truncate": "END"}, ids(LONG)[: MAX_TOKENS - 2]),
        ({"truncate": True}, ids(LONG)[: MAX_TOKENS - 2]),
        ({"truncation": True}, ids(LONG)[: MAX_TOKENS - 2]),
        ({"truncate": "START"}, ids(LONG)[2 - MAX_TOKENS :]),
        ({"truncate": True, "truncation_direction": "Left"}, ids(LONG)[2 - MAX_TOKENS :]),
        ({"truncate_prompt_tokens": 6}, ids(LONG)[:4]),
        ({"truncate_prompt_tokens": -1}, ids(LONG)[: MAX_TOKENS - 2]),
        ({"truncate_prompt_tokens": 6, "truncation_side": "left"}, ids(LONG)[-4:]),
    ],
)
def test_truncation_keeps_special_tokens_and_the_side_that_is_asked_for(
    tmp_path: Path, members: dict[str, Any], kept: list[int]
) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(input=LONG, **members)
        close(vectors(answer), vector([CLS, *kept, SEP], "MEAN"))
        assert answer["usage"]["prompt_tokens"] == len(kept) + 2

    served(words_model(tmp_path), scenario)


def test_a_request_may_refuse_what_the_node_cuts_off(tmp_path: Path) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        assert (await ask(input=LONG))["usage"]["prompt_tokens"] == MAX_TOKENS
        for refusing in ({"truncate": "NONE"}, {"truncate": False}, {"truncation": False}):
            with pytest.raises(RequestError, match="Input length 62 longer than allowed 32"):
                await ask(input=LONG, **refusing)
        cut = await ask(input=ids(LONG))
        close(vectors(cut), vector(ids(LONG)[:MAX_TOKENS], "MEAN"))

    served(words_model(tmp_path, truncate="true"), scenario)


def test_prompts_are_put_before_the_texts_that_they_are_for(tmp_path: Path) -> None:
    write_prompts(words_model(tmp_path), {"query": "red ", "passage": "blue ", "own": "house "})

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        wanted: dict[str, list[dict[str, Any]]] = {
            "red ": [
                {"input_type": "query"},
                {"input_type": "search_query"},
                {"task": "retrieval.query"},
                {"prompt_name": "query"},
            ],
            "blue ": [{"input_type": "passage"}, {"input_type": "search_document"}],
            "house ": [{"input_type": "own"}, {"prompt_name": "own"}],
            "": [{}, {"input_type": "clustering"}, {"input_type": None}],
        }
        for prompt, several in wanted.items():
            for members in several:
                answer = await ask(input=["cat"], **members)
                close(vectors(answer), vector(with_special(prompt + "cat"), "MEAN"))
        with pytest.raises(RequestError, match='"other" is no prompt of the model: it has "own"'):
            await ask(input="cat", prompt_name="other")
        # Token ids are taken as they are.
        close(vectors(await ask(input=[7, 8], input_type="query")), vector([7, 8], "MEAN"))

    served(tmp_path, scenario)


def test_the_models_default_prompt_is_used_where_none_is_named(tmp_path: Path) -> None:
    write_prompts(words_model(tmp_path), {"query": "red ", "document": ""}, "query")

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        close(vectors(await ask(input="cat")), vector(with_special("red cat"), "MEAN"))
        plain = await ask(input="cat", input_type="passage")
        close(vectors(plain), vector(with_special("cat"), "MEAN"))

    served(tmp_path, scenario)


def test_smaller_types_of_numbers(model: EmbeddedModel) -> None:
    plain = vectors(model.ask(input=TEXTS))
    signs = np.packbits(plain > 0, axis=1)
    wanted = {
        "int8": np.rint(plain * 127),
        "uint8": np.rint(plain * 127) + 128,
        "ubinary": signs,
        "binary": signs.astype(int) - 128,
    }
    for kind, numbers in wanted.items():
        for name in ("encoding_format", "embedding_type", "output_dtype"):
            answer = model.ask(input=TEXTS, **{name: kind})
            assert vectors(answer).tolist() == numbers.tolist()
    packed = model.ask(input=TEXTS, encoding_format="base64", output_dtype="int8")
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert np.frombuffer(raw, np.int8).tolist() == wanted["int8"][0].tolist()


def test_lengths_are_as_the_request_says(tmp_path: Path) -> None:
    make_model(tmp_path / "plain", graph(pooling="MEAN", normalize="false"))
    make_model(tmp_path / "unit", graph(pooling="MEAN"))

    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        raw = expected("cat", "MEAN", normalize=False)
        for name in ("normalized", "normalize"):
            close(vectors(await ask(input="cat", **{name: True})), expected("cat", "MEAN"))
            close(vectors(await ask(input="cat", **{name: False})), raw)
        short = await ask(input="cat", dimensions=3, normalized=False)
        close(vectors(short), raw[:3])
        assert vectors(await ask(input="cat", output_dimension=2)).shape == (1, 2)

    served(tmp_path / "plain", scenario)
    served(tmp_path / "unit", scenario)


def test_the_form_of_text_embeddings_inference(model: EmbeddedModel) -> None:
    answer: Any = model.ask("/v1/embed", inputs=TEXTS)
    close(answer, *(expected(text, "MEAN") for text in TEXTS))
    answer = model.ask("/v3/embed", inputs="Dogs", normalize=False, truncate=True)
    close(answer, expected("Dogs", "MEAN", normalize=False))
    with pytest.raises(RequestError, match="inputs array should not be empty"):
        model.ask("/v1/embed", inputs=[])


def test_the_form_of_cohere(model: EmbeddedModel) -> None:
    answer = model.ask(
        "/v2/embed",
        texts=TEXTS,
        input_type="search_document",
        embedding_types=["float", "int8", "base64"],
    )
    assert set(answer["embeddings"]) == {"float", "int8", "base64"}
    close(answer["embeddings"]["float"], *(expected(text, "MEAN") for text in TEXTS))
    assert answer["texts"] == TEXTS
    assert answer["meta"]["billed_units"]["input_tokens"] == sum(len(tokens(t)) for t in TEXTS)
    parts = [[{"type": "text", "text": each}] for each in TEXTS]
    given = model.ask("/v2/embed", inputs=[{"content": each} for each in parts])
    assert given["texts"] == TEXTS
    assert given["embeddings"]["float"] == answer["embeddings"]["float"]
    for member, path in (
        ({"inputs": [{"content": [{"type": "image_url"}]}]}, "inputs[0].content[0].type"),
        ({"inputs": [{"content": []}]}, "inputs[0].content"),
        ({"inputs": [{}, 5]}, "inputs[0].content"),
        ({"inputs": [{"content": parts[0]}], "texts": TEXTS}, "inputs"),
    ):
        with pytest.raises(RequestError) as caught:
            model.ask("/v2/embed", **member)
        assert caught.value.param == path
    cut = model.ask("/v2/embed", texts=["word " * 100])  # Cohere's default is END
    assert cut["meta"]["billed_units"]["input_tokens"] == MAX_TOKENS
    with pytest.raises(RequestError, match="longer than allowed"):
        model.ask("/v2/embed", texts=["word " * 100], truncate="NONE")
    with pytest.raises(RequestError) as caught:
        model.ask("/v2/embed")
    assert caught.value.param == "texts"
    wrong: Any
    for wrong in ("text", [[1]], [1]):
        with pytest.raises(RequestError) as caught:
            model.ask("/v2/embed", texts=wrong)
        assert caught.value.param == "texts"
    for wrong in ("int4", {}, ["float"], None):
        with pytest.raises(RequestError) as caught:
            model.ask("/v2/embed", texts=["a"], embedding_types=["float", wrong])
        assert caught.value.param == "embedding_types[1]"


@pytest.mark.parametrize("uri", ["/v3/tokenize", "/v3/embeddings/tokenize?x=1", "/v1/tokenize"])
def test_tokens_of_texts_on_the_same_graph(tmp_path: Path, uri: str) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask(uri, text="a dog")
        assert answer["tokens"] == with_special("a dog")
        assert (answer["count"], answer["max_model_len"]) == (4, MAX_TOKENS)
        assert (await ask(uri, text=["a dog"]))["tokens"] == with_special("a dog")
        both = await ask(uri, text=["a dog", "cat"], add_special_tokens=False)
        assert both["tokens"] == [ids("a dog"), ids("cat")]
        cut = await ask(uri, text=LONG, max_length=4)
        assert cut["tokens"] == [CLS, *ids("the cat"), SEP]
        padded = await ask(
            uri, text="cat", max_length=5, pad_to_max_length=True, padding_side="left"
        )
        assert padded["tokens"] == [0, 0, *with_special("cat")]
        assert padded["count"] == 3
        located = await ask(uri, text="a dog", return_offsets=True)
        assert located["offsets"] == [[0, 0], [0, 1], [2, 5], [0, 0]]
        bad: list[dict[str, Any]] = [{"text": []}, {}, {"text": 5}, {"text": "a", "max_length": 0}]
        for wrong in bad:
            with pytest.raises(RequestError):
                await ask(uri, **wrong)

    served(words_model(tmp_path), scenario)


def test_texts_of_tokens_on_the_same_graph(tmp_path: Path) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        answer = await ask("/v3/detokenize", tokens=with_special("a dog"))
        assert answer == {"prompt": "[CLS] a dog [SEP]", "content": "[CLS] a dog [SEP]"}
        plain = await ask("/v1/detokenize", tokens=with_special("a dog"), skip_special_tokens=True)
        assert plain["prompt"] == "a dog"
        assert (await ask("/v3/detokenize", tokens=[]))["prompt"] == ""
        bad: list[tuple[Any, str]] = [([1, 99], "tokens[1]"), ([-1], "tokens[0]"), ("a", "tokens")]
        for wrong, param in bad:
            with pytest.raises(RequestError) as caught:
                await ask("/v3/detokenize", tokens=wrong)
            assert caught.value.param == param

    served(words_model(tmp_path), scenario)


def test_numbers_that_are_not_finite_are_an_error_of_the_model(tmp_path: Path) -> None:
    async def scenario(loaded: LoadedGraph, ask: Ask) -> None:
        with pytest.raises(RequestError, match="not finite") as caught:
            await ask(input="a dog")
        assert caught.value.code is Code.INTERNAL

    make_model(tmp_path, graph(pooling="CLS"), added=np.nan)
    served(tmp_path, scenario)


def test_two_thousand_texts_are_answered_in_their_order(model: EmbeddedModel) -> None:
    texts = [f"{'word ' * (number % 7)}number {number}" for number in range(2048)]
    answer = model.ask(input=texts, encoding_format="base64")
    assert [each["index"] for each in answer["data"]] == list(range(2048))
    for place in (0, 1, 1000, 2047):
        raw = base64.b64decode(answer["data"][place]["embedding"])
        close(np.frombuffer(raw, "<f4"), *expected(texts[place], "MEAN"))
        assert len(raw) == 4 * SIZE
