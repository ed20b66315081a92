"""Each family's tiny model computes what llama.cpp computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calculators.kit.checkpoints.families import FAMILIES
from tests.calculators.kit.checkpoints.expected_logits import (
    expected,
    ids_for,
    logits_of,
    sample,
    tolerance_of,
)
from tests.calculators.kit.checkpoints.tiny_models import CASES, write_tiny

WANTED = expected()
#: Families that differ from a tested one by their name only.
SAME = {"qwen2vl": "qwen2"}


@pytest.mark.parametrize("name", WANTED)
def test_logits_are_those_of_llama_cpp(name: str, tmp_path: Path) -> None:
    batches = "stateful" not in CASES[name].parts
    logits = logits_of(write_tiny(tmp_path / "m.gguf", name), ids_for(1), batches=batches)
    found, wanted = np.array(sample(logits)), np.array(WANTED[name])
    assert found[:, 0].tolist() == wanted[:, 0].tolist()
    largest = max(np.abs(wanted[:, 1:]).max(), np.abs(logits).max())
    assert np.abs(found[:, 1:] - wanted[:, 1:]).max() <= tolerance_of(name) * largest + 1e-6


def test_every_family_has_a_tiny_model() -> None:
    tested = {CASES[name].architecture for name in WANTED}
    assert set(FAMILIES) == tested | set(SAME)
    assert set(SAME.values()) <= set(CASES)
