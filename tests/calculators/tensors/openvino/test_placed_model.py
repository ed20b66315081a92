"""A plain model in a place of its own answers as one in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.tensors.openvino.directory_models import DirectoryModels
from calculators.tensors.openvino.model import TensorError
from calculators.tensors.openvino.placed_model import PlacedModels
from graph_runtime import GraphError, LoadProgress, NotFoundError
from tests.calculators.here_place import HerePlace
from tests.calculators.tensors.openvino.tiny_models import (
    matmul_model,
    save,
    sum_and_difference_model,
)
from tests.support.patience import PATIENCE


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, PATIENCE))


def test_facts_tensors_and_errors_are_those_of_the_model(tmp_path: Path) -> None:
    save(matmul_model(), tmp_path / "matmul.xml")
    save(sum_and_difference_model(), tmp_path / "two" / "3" / "model.xml")
    here = DirectoryModels(tmp_path)

    async def scenario() -> None:
        models = PlacedModels(here)
        await models.place("matmul", None, HerePlace(), LoadProgress())
        await models.place("two", 3, HerePlace(), LoadProgress())
        there, wanted = await models.get("matmul"), await here.get("matmul")
        assert there is not wanted
        assert there.facts == wanted.facts
        # Small tensors, and those that are packed in a thread.
        for rows in (0, 2, 200_000):
            x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
            (found,), (same,) = [(await each.infer({"X": x})).values() for each in (there, wanted)]
            assert np.array_equal(found, same)
            assert found.flags.writeable
        two = await models.get("two", 3)
        a, b = np.array([5, 6], np.int32), np.array([1, 2], np.int32)
        found_two = await two.infer({"B": b, "A": a})
        assert {name: each.tolist() for name, each in found_two.items()} == {
            "SUM": [6, 8],
            "DIFFERENCE": [4, 4],
        }
        with pytest.raises(TensorError, match="is expected"):
            await there.infer({"X": np.zeros(2, np.float32)})
        # Another version is not what the place has.
        assert await models.get("two") is await here.get("two")

    run(scenario())


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.xml").write_text("<net/>")

    async def scenario() -> None:
        models = PlacedModels(DirectoryModels(tmp_path))
        with pytest.raises(NotFoundError, match='there is no model "none"'):
            await models.place("none", None, HerePlace(), LoadProgress())
        with pytest.raises(GraphError, match=r'"broken" \(version 1\) cannot be loaded: OpenVINO'):
            await models.place("broken", None, HerePlace(), LoadProgress())

    run(scenario())
