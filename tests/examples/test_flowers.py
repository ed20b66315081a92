"""`examples/graphs/flowers`: two models of OpenVINO in a graph, behind KServe."""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calculators.tensors.inference import InferRequest, Tensor
from servers.config import ServerConfig, read_config
from servers.contract.data_plane import TensorMetadata
from servers.serving.model_repository import ModelRepository
from tests.servers.cli.serving import Serving
from tests.servers.serving.asking import infer
from tests.servers.serving.models.model_folders import registry
from tests.support.checkout import ROOT

FLOWERS = ROOT / "examples" / "graphs" / "flowers"
#: A setosa, a versicolor and a virginica.
MEASURED = [[5.1, 3.5, 1.4, 0.2], [5.7, 2.8, 4.1, 1.3], [6.3, 2.9, 5.6, 1.8]]


def expected(facts: dict[str, Any]) -> NDArray[np.float64]:
    """Return the script's result, without OpenVINO."""
    mean, deviation = np.array(facts["MEAN"]), np.array(facts["DEVIATION"])
    kinds = (np.array(list(facts["KINDS"].values())) - mean) / deviation
    flowers = (np.array(MEASURED) - mean) / deviation
    scores = np.exp(-((flowers[:, None] - kinds) ** 2).sum(2))
    result: NDArray[np.float64] = scores / scores.sum(1, keepdims=True)
    return result


def ask(config: ServerConfig) -> Any:
    async def run() -> Any:
        repository = ModelRepository(config.graphs, registry(), None, config.models)
        await repository.load_all()
        try:
            metadata = await repository.metadata("flowers")
            assert metadata.inputs == (TensorMetadata("measurements", "FP32", (-1, 4)),)
            assert metadata.outputs == (TensorMetadata("probabilities", "FP32", (-1, 3)),)
            tensor = Tensor.of("measurements", np.array(MEASURED, np.float32))
            response = await infer(repository, InferRequest("flowers", inputs=(tensor,)))
            (output,) = response.outputs
            assert isinstance(output, Tensor)
            assert output.name == "probabilities"
            return output.data
        finally:
            await repository.close()

    return asyncio.run(run())


def test_kinds_of_flowers_are_told_apart() -> None:
    probabilities = ask(read_config(FLOWERS / "config.json"))
    assert probabilities.argmax(1).tolist() == [0, 1, 2]
    facts = runpy.run_path(str(FLOWERS / "make_models.py"))
    assert np.allclose(probabilities, expected(facts), atol=1e-5)


def test_the_script_makes_the_stored_models(tmp_path: Path) -> None:
    runpy.run_path(str(FLOWERS / "make_models.py"))["main"](tmp_path / "models")
    for name in ("graph.pbtxt", "subconfig.json"):
        (tmp_path / name).write_bytes((FLOWERS / name).read_bytes())
    (tmp_path / "config.json").write_bytes((FLOWERS / "config.json").read_bytes())
    made = ask(read_config(tmp_path / "config.json"))
    assert np.array_equal(made, ask(read_config(FLOWERS / "config.json")))


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, "examples/graphs/flowers", calculators=()) as serving:
        yield serving.wait_until_serving()


def test_the_command_of_the_comment_serves_it(server: Serving) -> None:
    comment = (FLOWERS / "graph.pbtxt").read_text(encoding="utf-8")
    assert "#   graphrt serve examples/graphs/flowers\n" in comment
    listed = "".join(server.log)
    assert "  flowers       ready\n" in listed
    assert "  nearest_kind  ready: a plain model, version 1\n" in listed


def test_the_graph_and_its_models_answer(server: Serving) -> None:
    comment = (FLOWERS / "graph.pbtxt").read_text(encoding="utf-8").replace("\n# ", "\n")
    body = json.loads(comment.partition("-d '")[2].partition("'")[0])
    with server.request("POST", "/v2/models/flowers/infer", body) as response:
        answer = json.loads(response.read())
    assert response.status == 200
    (output,) = answer["outputs"]
    assert (output["name"], output["shape"]) == ("probabilities", [1, 3])
    assert np.argmax(output["data"]) == 2

    status, metadata = server.get("/v2/models/nearest_kind")
    assert (status, metadata["platform"]) == (200, "OpenVINO")
    assert metadata["rt_info"] == {"model_info": {"labels": "setosa versicolor virginica"}}
