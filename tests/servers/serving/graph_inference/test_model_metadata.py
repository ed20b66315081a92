"""Metadata of streams at the edge of a graph, from the models of inference nodes."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import openvino
import pytest

from calculators.tensors.inference import Datatype
from calculators.tensors.openvino.model import TensorError
from graph_runtime import RunError
from servers.contract.data_plane import TensorMetadata
from servers.serving.loaded_graph import LoadedGraph
from tests.calculators.tensors.openvino.graphs import SESSION
from tests.calculators.tensors.openvino.tiny_models import add_model, add_one_model, identity_model
from tests.servers.serving.graph_inference.graphs import (
    ask,
    ask_one,
    bf16,
    passing,
    served,
    tensor,
)


def inference(model: str, inputs: str, outputs: str) -> str:
    """Return a graph of one inference node, with the node's streams, separated by spaces."""
    ends = "".join(f' input_stream: "{each}"' for each in inputs.split())
    ends += "".join(f' output_stream: "{each}"' for each in outputs.split())
    return (
        f"{SESSION % model} {ends} node {{ {ends} "
        f'calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:session" }}'
    )


def keep(folder: Path, name: str, model: openvino.Model) -> None:
    openvino.save_model(model, folder / "graph" / f"{name}.xml", compress_to_fp16=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Write models into the folder of the graph."""
    (tmp_path / "graph").mkdir()
    keep(tmp_path, "add", add_model())
    keep(tmp_path, "add_one", add_one_model())
    keep(tmp_path, "bits", identity_model(openvino.Type.bf16, [1, -1]))
    return tmp_path


def test_metadata_have_names_types_and_shapes_of_the_model(site: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        metadata = graph.metadata()
        assert metadata.platform == "graphrt"
        told = {each.name: (each.datatype, each.shape) for each in metadata.inputs}
        assert set(told) == {"left", "right"}
        assert {datatype for datatype, _ in told.values()} == {"FP32"}
        (output,) = metadata.outputs
        assert (output.name, output.datatype) == ("total", "FP32")
        shape = [3 if each == -1 else each for each in told["left"][1]]
        one = np.ones(shape, np.float32)
        (sum_,) = (await ask(graph, tensor("left", one), tensor("right", one))).outputs
        assert sum_.data.tolist() == (one + one).tolist()

    served(site, inference("add", "A:left B:right", "SUM:total"), scenario)


def test_bf16_is_returned_as_bf16(site: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert graph.metadata().inputs == (TensorMetadata("in", "BF16", (1, -1)),)
        assert graph.metadata().outputs == (TensorMetadata("out", "BF16", (1, -1)),)
        given = bf16("in", [0x3F80, 0x4000])
        output = await ask_one(graph, type(given)("in", Datatype.BF16, given.data.reshape(1, 2)))
        assert (output.datatype, output.data.tolist()) == (Datatype.BF16, [[0x3F80, 0x4000]])

    served(site, inference("bits", "OVTENSOR:in", "OVTENSOR:out"), scenario)


def test_a_list_of_one_tensor_is_described(site: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert [each.datatype for each in graph.metadata().inputs] == ["FP32"]
        assert (await ask_one(graph, tensor("in", [1.5, 2], "f4"))).data.tolist() == [2.5, 3.0]

    served(site, inference("add_one", "OVTENSORS:in", "OVTENSORS:out"), scenario)


def test_tensors_that_do_not_fit_the_model_are_refused(site: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RunError) as caught:
            await ask(graph, tensor("in", [1.5, 2], "f8"))
        cause = caught.value.errors[0].__cause__
        assert isinstance(cause, TensorError)
        assert "the element type is float64, float32 is expected" in str(cause)

    served(site, inference("add_one", "in", "out"), scenario)


def test_a_node_inside_the_graph_does_not_describe_its_edge(site: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert graph.metadata().inputs == (TensorMetadata("in"),)
        (output,) = graph.metadata().outputs
        assert output.datatype == "FP32"
        assert (await ask_one(graph, tensor("in", [1.5, 2], "f4"))).data.tolist() == [2.5, 3.0]

    behind = inference("add_one", "x", "out").replace('input_stream: "x"', "", 1)
    text = passing("in", "x").replace('output_stream: "x"', "", 1) + behind
    served(site, text, scenario)


def test_a_missing_model_leaves_its_tensors_unknown(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert graph.metadata().inputs == (TensorMetadata("in"),)
        with pytest.raises(RunError, match='no model "ad"'):
            await ask(graph, tensor("in", [1.5], "f4"))

    with caplog.at_level(logging.WARNING):
        served(site, inference("ad", "in", "out"), scenario)
    assert "stay unknown" in caplog.text
