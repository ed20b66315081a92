"""Embedding models of GGUF files have llama.cpp's vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bench.gguf_file import write_gguf
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.gguf_converter import convert, write_tokenizer_json
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.tokenizer_graph import make_models
from calculators.kit.checkpoints.vocabulary import read_vocabulary
from tests.calculators.kit.checkpoints import vocabularies
from tests.calculators.kit.checkpoints.tiny_encoders import write_encoder

_PRECISION: Final = "INFERENCE_PRECISION_HINT"
TEXT: Final = "The quick brown fox jumps over the lazy dog, and 12 cats"
#: Of llama.cpp (October 2026), by model and ``pooling_type``, scaled to length 1.
EXPECTED: Final = json.loads(
    Path(__file__).with_name("expected_vectors.json").read_text(encoding="utf-8")
)
POOLED: Final = {"1": lambda h: h.mean(0), "2": lambda h: h[0], "3": lambda h: h[-1]}


def converted(folder: Path, name: str, pooling: int) -> Path:
    directory = folder / "converted"
    directory.mkdir()
    file = write_encoder(folder / "tiny.gguf", name, pooling)
    convert(file, directory, OffsetForm.EXACT, 1, lambda phase: None)
    return directory


def vectors(directory: Path, text: str, padding: int, side: str) -> NDArray[Any]:
    """Return the vectors of the tokens of a text that is filled up."""
    core = ov.Core()
    model, tokenizer = (
        core.compile_model(directory / f"openvino_{part}.xml", "CPU", {_PRECISION: "f32"})
        for part in ("model", "tokenizer")
    )
    ids = tokenizer([text])["input_ids"]
    sides = ((0, 0), (padding, 0) if side == "left" else (0, padding))
    mask = np.pad(np.ones_like(ids), sides)
    found = model([np.pad(ids, sides), mask])[0][0]
    return np.array(found[mask[0] == 1])


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("side", ["left", "right"])
def test_vectors_are_llama_cpps_with_padding_on_either_side(
    case: str, side: str, tmp_path: Path
) -> None:
    name, pooling = case.split()
    directory = converted(tmp_path, name, int(pooling))

    found = POOLED[pooling](vectors(directory, TEXT, 5, side))

    found /= np.linalg.norm(found)
    assert found == pytest.approx(EXPECTED[case], abs=1e-3)
    config = json.loads((directory / "1_Pooling" / "config.json").read_text())
    assert [key for key, value in config.items() if value] == [
        {"1": "pooling_mode_mean_tokens", "2": "pooling_mode_cls_token"}.get(
            pooling, "pooling_mode_lasttoken"
        )
    ]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "qwen3"])
def test_a_model_that_ranks_scores_one_token(name: str, side: str, tmp_path: Path) -> None:
    directory = converted(tmp_path, name, 4)
    core = ov.Core()
    model = core.compile_model(directory / "openvino_model.xml", "CPU", {_PRECISION: "f32"})
    tensors = GgufFile(tmp_path / "tiny.gguf").tensors
    head = {
        key: tensors[key].rows().view(np.float32).reshape(tensors[key].shape)
        for key in tensors
        if key.startswith("cls")
    }
    # The vectors of the same model without its head.
    plain = tmp_path / "plain"
    plain.mkdir()
    hidden = vectors(converted(plain, name, 1), TEXT, 0, "right")
    tokenizer = core.compile_model(directory / "openvino_tokenizer.xml", "CPU")
    ids = tokenizer([TEXT])["input_ids"]
    sides = ((0, 0), (3, 0) if side == "left" else (0, 3))
    inputs = [np.pad(ids, sides), np.pad(np.ones_like(ids), sides)]
    if name == "bert":
        inputs.append(np.zeros_like(inputs[0]))

    (score,) = model(inputs)[0].reshape(-1)

    if name == "bert":
        dense = np.tanh(head["cls.weight"] @ hidden[0] + head["cls.bias"])
        expected = (head["cls.output.weight"] @ dense + head["cls.output.bias"])[0]
    else:
        yes, no = head["cls.output.weight"] @ hidden[-1]
        expected = yes - no
    assert score == pytest.approx(float(expected), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"), [("modern-bert", -1.34067), ("jina-bert-v2", -0.97046)]
)
def test_heads_of_other_encoders_give_llama_cpps_scores(
    name: str, expected: float, tmp_path: Path
) -> None:
    directory = converted(tmp_path, name, 4)
    core = ov.Core()
    model = core.compile_model(directory / "openvino_model.xml", "CPU", {_PRECISION: "f32"})
    ids = core.compile_model(directory / "openvino_tokenizer.xml", "CPU")([TEXT])["input_ids"]
    sides = ((0, 0), (3, 0))
    inputs = [np.pad(ids, sides), np.pad(np.ones_like(ids), sides)]
    inputs += [np.zeros_like(inputs[0])] * (len(model.inputs) - 2)

    (score,) = model(inputs)[0].reshape(-1)

    assert score == pytest.approx(expected, abs=1e-3)


def test_letters_that_folding_would_change_are_the_vocabularys_own(tmp_path: Path) -> None:
    letters = "\u017f\u03c2\u03d1\uab70"
    facts: dict[str, Any] = vocabularies.word_piece()
    facts["tokenizer.ggml.tokens"] += [*letters, *(f"▁{letter}" for letter in letters)]
    facts["tokenizer.ggml.token_type"] += [1] * 2 * len(letters)
    file = tmp_path / "words.gguf"
    write_gguf(file, facts, {})
    vocabulary = read_vocabulary(GgufFile(file).metadata, file.name)
    write_tokenizer_json(vocabulary, tmp_path, file.name)
    own = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer = ov.Core().compile_model(make_models(vocabulary, file.name)[0], "CPU")

    for text in (f"a {letters} of {' '.join(letters)}", "\u03d5 \u03c3 s \uab71", "ΛΟΓΟΣ SS"):
        assert own.encode(text).ids == tokenizer([text])["input_ids"].reshape(-1).tolist()


@pytest.mark.parametrize("kind", ["word_piece", "unigram", "byte_level"])
def test_pairs_are_read_by_the_same_tokens(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "words.gguf"
    more = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
    facts = getattr(vocabularies, kind)()
    write_gguf(file, {**facts, **more} if kind == "byte_level" else facts, {})
    vocabulary = read_vocabulary(GgufFile(file).metadata, file.name)
    write_tokenizer_json(vocabulary, tmp_path, file.name)
    pairs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer = ov.Core().compile_model(make_models(vocabulary, file.name)[0], "CPU")

    for text in (
        "The quick brown fox",
        "Hello, World! it's 12",
        "Grüße  aus München",
        "Ο λόγος σου: 5 µm",  # noqa: RUF001
        "Congre\u017fs of a fox, and \u03d1 too",
        "我们去公园",
    ):
        assert pairs.encode(text).ids == tokenizer([text])["input_ids"].reshape(-1).tolist()
    pair = pairs.encode("the dog", "the fox")
    alone = pairs.encode("the dog").ids
    assert pair.ids[: len(alone)] == alone
    assert (max(pair.type_ids) == 1) == (kind == "word_piece")
