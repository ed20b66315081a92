"""Logits of tiny models, and the values that they should have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.random_model import PagedModel, StatefulModel
from calculators.kit.checkpoints.decoder import read_decoder
from calculators.kit.checkpoints.families import FAMILIES
from calculators.kit.checkpoints.family_builders import build_model
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.weights import WeightScratch
from tests.calculators.kit.checkpoints.tiny_models import CASES, VOCABULARY

EXPECTED: Final = Path(__file__).with_name("expected.json")
#: One that was read alone, and the last one.
_POSITIONS: Final = (45, 79)
_TOKENS: Final = 4
#: The largest difference, divided by the largest logit.
_USUAL: Final = 3e-6
#: llama.cpp computes GELU by a table of float16. Gemma 4's attention is sharp, so that the rounding
#: grows, and flips the choice between experts that are nearly level; where the table is not used
#: (`steep` gates), float32's rounding is what is left.
_GELU: Final = 1e-3
_GEMMA4: Final = 6e-2
_GEMMA4_STEEP: Final = 2e-4


def ids_for(seed: int) -> list[int]:
    """Return the tokens of the text that models read."""
    found: list[int] = np.random.default_rng(seed + 2).integers(0, VOCABULARY, 80).tolist()
    return found


def logits_of(
    path: Path, ids: list[int], form: OffsetForm = OffsetForm.EXACT, *, batches: bool = True
) -> NDArray[np.float32]:
    """Return the logits of a file's model: of a prompt, of single tokens, and of the rest."""
    scratch = WeightScratch()
    model = run_model(path, form, scratch, batches=batches)
    single = range(43, 47)
    parts = [model.run(ids[: single.start]), *(model.run([ids[place]]) for place in single)]
    return np.concatenate([*parts, model.run(ids[single.stop :])])


def run_model(
    path: Path, form: OffsetForm, scratch: WeightScratch, *, batches: bool = True
) -> PagedModel | StatefulModel:
    """Return a file's model in the form in which it is served, or with states."""
    file = GgufFile(path)
    decoder = read_decoder(file, batches=batches)
    model = build_model(file, decoder, form, scratch)
    if decoder.family.builder in ("convolution", "delta") or not batches:
        return StatefulModel(model)
    paged = PagedModel(model)
    assert not paged.unpaged
    return paged


def tolerance_of(name: str) -> float:
    """Return how far a model's logits may be from llama.cpp's."""
    architecture = CASES[name].architecture
    if architecture == "gemma4":
        return _GEMMA4_STEEP if "steep" in CASES[name].parts else _GEMMA4
    if FAMILIES[architecture].builder == "delta":
        return 10 * _USUAL  # a sum over all tokens
    return _GELU if FAMILIES[architecture].activation == "gelu" else _USUAL


def sample(logits: NDArray[np.float32]) -> list[list[float]]:
    """Return some values of logits: of two positions the best token, and the first ones."""
    return [
        [int(logits[place].argmax()), *(round(float(each), 6) for each in logits[place, :_TOKENS])]
        for place in _POSITIONS
    ]


def expected() -> dict[str, list[list[float]]]:
    """Return the samples of llama.cpp's logits by the names of models."""
    found: dict[str, list[list[float]]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found
