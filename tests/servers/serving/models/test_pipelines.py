"""DAG pipelines of a config answer under their names, and follow the config and the models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators import register_all
from calculators.tensors.inference import Tensor
from graph_runtime import REGISTRY, Registry, RunError
from servers.config import read_config
from servers.contract.data_plane import TensorMetadata
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from servers.serving.python_path import SharedModules
from servers.serving.reloader import Reloader
from tests.calculators.tensors.openvino.tiny_models import named, parameter, save
from tests.servers.serving.asking import infer
from tests.servers.serving.models.model_folders import request, status


def source(node: str, item: str) -> dict[str, str]:
    return {"node_name": node, "data_item": item}


def node(model: str, reads: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return a node of a model, under its name."""
    return {
        "name": model,
        "model_name": model,
        "type": "DL model",
        "inputs": [{"X": source(*reads)}],
        "outputs": [{"data_item": "Y", "alias": "y"}],
        **more,
    }


def pipeline(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a pipeline from ``x`` to ``y`` of the last node."""
    outputs = [{"y": source(nodes[-1]["name"], "y")}]
    return {"name": name, "inputs": ["x"], "nodes": list(nodes), "outputs": outputs, **more}


def add_model(number: float, shape: list[int]) -> Any:
    x = parameter("X", shape)
    return openvino.Model([op.result(named(op.add(x, np.float32(number)), "Y"))], [x], "add")


def three_model() -> Any:
    """``Y`` is ``X``, [1,2], once, twice and three times: [3,1,2]."""
    x = parameter("X", [1, 2])
    factors = op.constant(np.array([1, 2, 3], np.float32).reshape(3, 1, 1))
    y = named(op.multiply(op.unsqueeze(x, np.array(0)), factors), "Y")
    return openvino.Model([op.result(y)], [x], "three")


def total_model() -> Any:
    """``Y`` is the last of three ``X`` less the others: it shows their order."""
    x = parameter("X", [3, 1, 2])
    signs = op.constant(np.array([-1, -1, 1], np.float32).reshape(3, 1, 1))
    y = named(op.reduce_sum(op.multiply(x, signs), np.array([0]), False), "Y")
    return openvino.Model([op.result(y)], [x], "total")


def write(folder: Path, *pipelines: dict[str, Any]) -> None:
    models = [{"config": {"name": name}} for name in ("add", "three", "total")]
    content = {"model_config_list": models, "pipeline_config_list": pipelines}
    (folder / "config.json").write_text(json.dumps(content))


Step = Callable[[], Coroutine[Any, Any, bool]]


def serving(
    folder: Path, scenario: Callable[[ModelRepository, Step], Coroutine[Any, Any, None]]
) -> None:
    """Run a scenario on a repository of the folder's config; a step takes its changes."""
    save(add_model(1, [1, 2]), folder / "add" / "1" / "model.xml")
    save(three_model(), folder / "three" / "1" / "model.xml")
    save(total_model(), folder / "total" / "1" / "model.xml")

    async def run() -> None:
        config = read_config(folder / "config.json")
        registry = Registry(REGISTRY)
        register_all(registry)
        shared = SharedModules(registry, ())
        settings = GraphSettings()
        repository = ModelRepository(config.graphs, shared.registry, settings, config.models)
        reloader = Reloader(
            repository, shared, config, partial(read_config, folder / "config.json")
        )
        await repository.load_all()
        try:
            await scenario(repository, reloader.step)
        finally:
            await reloader.close()
            await repository.close()

    asyncio.run(run())


async def answer(repository: ModelRepository, name: str, x: Any) -> dict[str, Any]:
    answered = await infer(repository, request(name, x=x))
    assert all(isinstance(each, Tensor) for each in answered.outputs)
    return {each.name: np.asarray(each.data).tolist() for each in answered.outputs}


ONES: Any = [[1, 1]]


def test_each_slice_of_a_request_is_answered_in_its_place(tmp_path: Path) -> None:
    write(tmp_path, pipeline("p", node("add", ("request", "x")), demultiply_count=-1))

    async def scenario(repository: ModelRepository, step: Step) -> None:
        metadata = await repository.metadata("p")
        assert metadata.inputs == (TensorMetadata("x", "FP32", (-1, 1, 2)),)
        assert metadata.outputs == (TensorMetadata("y", "FP32", (-1, 1, 2)),)
        slices = [[[number, -number]] for number in range(40)]
        expected = [[[number + 1, 1 - number]] for number in range(40)]
        assert await answer(repository, "p", slices) == {"y": expected}
        with pytest.raises(RunError, match="must be 1 to 10000"):
            await answer(repository, "p", np.empty((0, 1, 2), np.float32))

    serving(tmp_path, scenario)


def test_slices_of_slices_add_an_axis_each_the_outer_first(tmp_path: Path) -> None:
    nested = pipeline(
        "p",
        node("three", ("request", "x"), demultiply_count=3),
        node("add", ("three", "y")),
        demultiply_count=2,
    )
    nested["outputs"].append({"Raw": source("three", "y")})
    write(tmp_path, nested)

    async def scenario(repository: ModelRepository, step: Step) -> None:
        assert (await repository.metadata("p")).outputs == (
            TensorMetadata("y", "FP32", (2, 3, 1, 2)),
            TensorMetadata("Raw", "FP32", (2, 3, 1, 2)),
        )
        assert await answer(repository, "p", [[[1, 1]], [[5, 6]]]) == {
            "y": [[[[2, 2]], [[3, 3]], [[4, 4]]], [[[6, 7]], [[11, 13]], [[16, 19]]]],
            "Raw": [[[[1, 1]], [[2, 2]], [[3, 3]]], [[[5, 6]], [[10, 12]], [[15, 18]]]],
        }
        with pytest.raises(RunError, match="must be 2"):
            await answer(repository, "p", [[[1, 1]]])

    serving(tmp_path, scenario)


def test_a_node_gathers_the_slices_in_their_order(tmp_path: Path) -> None:
    gathering = pipeline(
        "p",
        node("three", ("request", "x"), demultiply_count=3),
        node("add", ("three", "y")),
        node("total", ("add", "y"), gather_from_node="three"),
    )
    gathering["outputs"].append({"x": source("request", "x")})
    write(tmp_path, gathering)

    async def scenario(repository: ModelRepository, step: Step) -> None:
        # The last, 3 + 1, less 1 + 1 and 2 + 1.
        assert await answer(repository, "p", ONES) == {"y": [[-1, -1]], "x": ONES}

    serving(tmp_path, scenario)


def test_what_never_fits_is_an_error_of_loading_until_the_model_fits(tmp_path: Path) -> None:
    write(tmp_path, pipeline("p", node("add", ("request", "x")), node("total", ("add", "y"))))

    async def scenario(repository: ModelRepository, step: Step) -> None:
        ((_, state, code, reason),) = status(repository, "p")
        assert (state, code) == ("LOADING", "FAILED_PRECONDITION")
        assert reason == (
            'tensors of the stream "add_y" are FP32 of the shape [1, 2], and models that read it '
            "take FP32 of the shape [3, 1, 2]: they never fit"
        )
        assert not await step()
        save(add_model(1, [3, 1, 2]), tmp_path / "add" / "2" / "model.xml")
        assert await step()  # the model
        await step()  # and what failed with its former version
        assert status(repository, "p")[0][1] == "AVAILABLE"
        assert await answer(repository, "p", [[[1, 1]]] * 3) == {"y": [[-2, -2]]}

    serving(tmp_path, scenario)


def test_a_count_that_the_model_does_not_make_is_an_error_of_loading(tmp_path: Path) -> None:
    wrong = pipeline(
        "p", node("three", ("request", "x"), demultiply_count=4), node("add", ("three", "y"))
    )
    write(tmp_path, wrong)

    async def scenario(repository: ModelRepository, step: Step) -> None:
        assert "[3, 1, 2], and 4 slices are made of them" in status(repository, "p")[0][3]

    serving(tmp_path, scenario)


def test_a_changed_pipeline_takes_the_place_of_the_former(tmp_path: Path) -> None:
    write(tmp_path, pipeline("p", node("add", ("request", "x"))))

    async def scenario(repository: ModelRepository, step: Step) -> None:
        assert await answer(repository, "p", ONES) == {"y": [[2, 2]]}
        write(tmp_path, pipeline("p", node("three", ("request", "x"))))
        assert await step()
        assert await answer(repository, "p", ONES) == {"y": [[[1, 1]], [[2, 2]], [[3, 3]]]}
        write(tmp_path, pipeline("p", node("nothing", ("request", "x"))))
        assert await step()  # the former goes on answering
        assert await answer(repository, "p", ONES) == {"y": [[[1, 1]], [[2, 2]], [[3, 3]]]}
        assert "could not be loaded" in str(repository.statuses()["p"])
        write(tmp_path)
        assert await step()
        assert "p" not in [entry.name for entry in repository.servables()]

    serving(tmp_path, scenario)


def test_a_pipeline_waits_for_the_version_that_it_names(tmp_path: Path) -> None:
    write(tmp_path, pipeline("p", node("add", ("request", "x"), version=2)))

    async def scenario(repository: ModelRepository, step: Step) -> None:
        ((_, state, _, reason),) = status(repository, "p")
        assert (state, reason) == (
            "LOADING",
            'node "add": The model "add" has no version "2"; it has 1',
        )
        save(add_model(2, [1, 2]), tmp_path / "add" / "2" / "model.xml")
        assert await step()
        await step()
        assert await answer(repository, "p", ONES) == {"y": [[3, 3]]}

    serving(tmp_path, scenario)


def test_a_tensor_that_the_model_does_not_have_is_an_error_of_loading(tmp_path: Path) -> None:
    wrong = node("add", ("request", "x"), inputs=[{"Z": source("request", "x")}])
    write(tmp_path, pipeline("p", wrong))

    async def scenario(repository: ModelRepository, step: Step) -> None:
        assert 'it has no input "Z"' in status(repository, "p")[0][3]

    serving(tmp_path, scenario)
