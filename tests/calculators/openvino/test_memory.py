"""A model that nobody holds any more gives its memory back."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.openvino.model_loading import load_model
from tests.calculators.openvino.tiny_models import named, parameter, save

STATM = Path("/proc/self/statm")


@pytest.mark.skipif(not STATM.exists(), reason="only Linux says so easily how much memory is used")
def test_memory_comes_back_right_after_an_inference(tmp_path: Path) -> None:
    """OpenVINO's thread may still be busy with its end, and must not be the last to hold it."""
    x = parameter("X", [1, 2048])
    y = x
    for _ in range(2):  # 32 MB, which a compiled model has twice
        y = op.matmul(y, op.constant(np.full((2048, 2048), 1e-3, np.float32)), False, False)
    save(openvino.Model([op.result(named(y, "Y"))], [x], "big"), tmp_path / "m.xml")
    inputs = {"X": np.ones((1, 2048), np.float32)}

    async def run() -> None:
        used = []
        for count in [1] * 20 + [5] * 4:
            model = load_model(tmp_path / "m.xml", "m")
            await asyncio.gather(*(model.infer(inputs) for _ in range(count)))
            del model
            used.append(megabytes())
        assert used[-1] - used[0] < 100, used

    asyncio.run(run())


def megabytes() -> int:
    """What this process has in memory."""
    return int(STATM.read_text().split()[1]) * resource.getpagesize() // 2**20
