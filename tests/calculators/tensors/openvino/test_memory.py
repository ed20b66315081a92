"""Memory of a model that is no longer used is returned."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import openvino
from openvino import opset13 as op

from calculators.tensors.openvino.model_loading import load_model
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save
from tests.support.memory import needs_proc, resident_bytes


@needs_proc
def test_memory_comes_back_right_after_an_inference(tmp_path: Path) -> None:
    """OpenVINO's thread may still be finishing, and must not hold the last reference."""
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
            used.append(resident_bytes() >> 20)
        assert used[-1] - used[0] < 100, used

    asyncio.run(run())
