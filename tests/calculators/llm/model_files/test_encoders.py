"""Embedding models of GGUF files have llama.cpp's vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import pytest
from numpy.typing import NDArray

from calculators.llm.conversion.gguf_converter import convert
from calculators.llm.model_files.families import pooling_of
from calculators.llm.model_files.gguf import GgufFile
from calculators.llm.model_files.packed import Form
from graph_runtime import ResourceError
from tests.calculators.llm.model_files.tiny_encoders import write_encoder

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
    convert(file, directory, Form.EXACT, 1, lambda phase: None)
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


def test_a_model_that_ranks_is_refused_by_name(tmp_path: Path) -> None:
    file = write_encoder(tmp_path / "tiny.gguf", "bert", 4)

    with pytest.raises(ResourceError, match=r'"tiny\.gguf" ranks texts'):
        pooling_of(GgufFile(file))
