"""Texts sent as raw BYTES without their length, as OpenVINO Model Server's own clients do.

Its Python handlers read them so; every other recipient reports the error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, InferRequest, Tensor
from protos.pool import message_class
from servers.fronts.kserve_grpc.codec import decode_request
from servers.serving.loaded_graph import LoadedGraph
from servers.serving.model_repository import ModelRepository
from servers.serving.text_generation.generation_request import read_request
from tests.servers.fronts.kserve_rest.bodies import read_value
from tests.servers.serving.asking import infer
from tests.servers.serving.graph_inference.graphs import ask_one, passing, served
from tests.servers.serving.models.model_folders import entry, serving, write_versions

TEXT = b"Make this text uppercase."
REASON = 'inputs[0] "in": element 0 is said to have 1701536077 bytes, 21 are left'


def through_grpc(shape: list[int], raw: bytes) -> InferRequest:
    message = message_class("inference.ModelInferRequest")(
        inputs=[{"name": "in", "datatype": "BYTES", "shape": shape}], raw_input_contents=[raw]
    )
    return decode_request(message.SerializeToString())


def through_rest(shape: list[int], raw: bytes) -> InferRequest:
    parameters = {"binary_data_size": len(raw)}
    member = {"name": "in", "datatype": "BYTES", "shape": shape, "parameters": parameters}
    return read_value({"inputs": [member]}, raw).request


@pytest.mark.parametrize("read", [through_grpc, through_rest])
@pytest.mark.parametrize("shape", [[1], [len(TEXT)], [10**6]])
def test_a_text_without_length_is_read_as_one_element(
    read: Callable[[list[int], bytes], InferRequest], shape: list[int]
) -> None:
    (tensor,) = read(shape, TEXT).inputs
    assert isinstance(tensor, CustomTensor)
    assert (tensor.datatype, tensor.shape, bytes(tensor.data)) == ("BYTES", tuple(shape), TEXT)
    assert tensor.defect.startswith('inputs[0] "in": ')


@pytest.mark.parametrize("read", [through_grpc, through_rest])
def test_texts_with_lengths_are_elements(
    read: Callable[[list[int], bytes], InferRequest],
) -> None:
    (tensor,) = read([2], b"\2\0\0\0ab\0\0\0\0").inputs
    assert isinstance(tensor, Tensor)
    assert tensor.data.tolist() == [b"ab", b""]


def test_numbers_of_a_wrong_size_are_refused_at_once() -> None:
    message = message_class("inference.ModelInferRequest")(
        inputs=[{"name": "in", "datatype": "FP32", "shape": [1]}], raw_input_contents=[b"abc"]
    )
    with pytest.raises(RequestError, match=r"FP32 of the shape \[1\] takes 4 bytes, 3 came"):
        decode_request(message.SerializeToString())


def unprefixed() -> Any:
    (tensor,) = through_grpc([len(TEXT)], TEXT).inputs
    return tensor


def test_a_python_node_receives_the_bytes_unchanged(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, unprefixed())
        assert output.datatype == "BYTES"
        assert TEXT in (bytes(output.data) if isinstance(output, CustomTensor) else output.data)

    served(tmp_path, passing("OVMS_PY_TENSOR:in", "OVMS_PY_TENSOR:out"), scenario)


@pytest.mark.parametrize("tag", ["OVTENSOR", "IMAGE", "ANYTHING"])
def test_other_streams_report_the_error(tmp_path: Path, tag: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError) as caught:
            await ask_one(graph, unprefixed())
        assert caught.value.message == REASON

    served(tmp_path, passing(f"{tag}:in"), scenario)


def test_a_plain_model_reports_the_error(tmp_path: Path) -> None:
    write_versions(tmp_path, "add", 1)
    tensor = unprefixed()
    asked = CustomTensor("X", "BYTES", tensor.shape, tensor.data, {}, tensor.defect)

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RequestError) as caught:
            await infer(repository, InferRequest("add", inputs=(asked,)))
        assert caught.value.message == REASON

    serving([entry(tmp_path, "add")], scenario)


def test_a_language_model_reports_the_error() -> None:
    tensor = unprefixed()
    asked = CustomTensor("text_input", "BYTES", tensor.shape, tensor.data, {}, tensor.defect)
    with pytest.raises(RequestError) as caught:
        read_request(InferRequest("m", inputs=(asked,)), "m", "1", in_stream=False)
    assert caught.value.message == REASON
