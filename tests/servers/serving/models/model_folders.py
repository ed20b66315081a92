"""Folders of models that a test makes, and a repository that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13 as op

import calculators.tensors.openvino
from calculators.tensors.inference import InferRequest, RequestedOutput, Tensor
from graph_runtime import REGISTRY, Registry
from servers.config import GraphEntry, ModelEntry, model_of
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save
from tests.servers.serving.asking import infer

Scenario = Callable[[ModelRepository], Coroutine[Any, Any, None]]


def add_number_model(number: float, length: int = 2) -> Any:
    """Build ``Y``, which is also ``SUM``, = ``X`` + a number; vectors of float32."""
    x = parameter("X", [length])
    node = named(op.add(x, np.float32(number)), "Y", "SUM")
    return openvino.Model([op.result(node)], [x], "add_number")


def image_model() -> Any:
    """Build ``OUT`` = ``IMAGE`` * 2, of one small image in NCHW, with names of classes."""
    image = parameter("IMAGE", [1, 3, 4, 5])
    out = named(op.multiply(image, np.float32(2)), "OUT")
    model = openvino.Model([op.result(out)], [image], "image")
    model.set_rt_info("cat dog", ["model_info", "labels"])
    return model


def write_versions(folder: Path, name: str, *versions: int) -> Path:
    """Write the model's folder, in which each version adds its own number; return it."""
    for version in versions:
        save(add_number_model(version), folder / name / str(version) / "model.xml")
    return folder / name


def write_broken(folder: Path, version: int) -> None:
    """Write a version that OpenVINO cannot read."""
    (folder / str(version)).mkdir()
    (folder / str(version) / "model.xml").write_text("<nonsense/>")


def entry(folder: Path, name: str, **config: Any) -> ModelEntry:
    return model_of(folder, {"name": name, **config})


def registry() -> Registry:
    made = Registry(REGISTRY)
    calculators.tensors.openvino.register(made)
    return made


def serving(
    models: Sequence[ModelEntry],
    scenario: Scenario,
    graphs: Sequence[GraphEntry] = (),
    **settings: Any,
) -> None:
    """Run a scenario on a repository that has loaded everything, and close it."""

    async def run() -> None:
        repository = ModelRepository(graphs, registry(), GraphSettings(**settings), models)
        await repository.load_all()
        try:
            await scenario(repository)
        finally:
            await repository.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def request(
    model: str, *, version: str = "", outputs: Sequence[str] = (), **arrays: Any
) -> InferRequest:
    """Return a request; lists become float32."""
    tensors = [
        Tensor.of(name, array if isinstance(array, np.ndarray) else np.array(array, np.float32))
        for name, array in arrays.items()
    ]
    wanted = tuple(map(RequestedOutput, outputs))
    return InferRequest(model, version, "7", {}, tuple(tensors), wanted)


async def numbers(repository: ModelRepository, asked: InferRequest) -> list[float]:
    """Return the numbers of the only output."""
    (output,) = (await infer(repository, asked)).outputs
    assert isinstance(output, Tensor)
    return [float(each) for each in output.data.ravel()]


def status(repository: ModelRepository, name: str) -> list[tuple[str, str, str, str]]:
    """Return version, state, error code and message of each version."""
    every: Any = repository.statuses()
    return [
        (
            each["version"],
            each["state"],
            each["status"]["error_code"],
            each["status"]["error_message"],
        )
        for each in every[name]["model_version_status"]
    ]
