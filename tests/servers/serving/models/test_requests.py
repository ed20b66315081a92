"""Requests to a plain model: answers, and refusals by name."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, InferRequest, Tensor
from graph_runtime import Code
from servers.contract.data_plane import TensorMetadata
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.tiny_models import (
    add_model,
    identity_model,
    matmul_model,
    named,
    parameter,
    save,
    sum_and_difference_model,
)
from tests.servers.serving.asking import answer, infer
from tests.servers.serving.models.model_folders import (
    add_number_model,
    entry,
    image_model,
    numbers,
    request,
    serving,
    write_versions,
)


def test_a_request_is_answered_with_its_id_and_the_version(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 3)

    async def scenario(repository: ModelRepository) -> None:
        response = await infer(repository, request("m", X=[1, 2]))
        assert (response.model, response.version, response.id) == ("m", "3", "7")
        assert response.parameters == {}
        (output,) = response.outputs
        assert isinstance(output, Tensor)
        assert (output.datatype, output.shape) == (Datatype.FP32, (2,))
        assert output.data.tolist() == [4, 5]

    serving([entry(tmp_path, "m")], scenario)


def test_texts_go_in_and_out_of_a_model_of_strings(tmp_path: Path) -> None:
    text = parameter("TEXT", [-1], openvino.Type.string)
    model = openvino.Model([op.result(text.output(0))], [text], "texts")
    save(model, tmp_path / "m" / "1" / "m.xml")
    texts = np.array([b"one", b"", "zwölf".encode()], object)

    async def scenario(repository: ModelRepository) -> None:
        metadata = await repository.metadata("m")
        assert metadata.inputs == (TensorMetadata("TEXT", Datatype.BYTES, (-1,)),)
        asked = InferRequest("m", inputs=(Tensor("TEXT", Datatype.BYTES, texts),))
        (output,) = (await infer(repository, asked)).outputs
        assert isinstance(output, Tensor)
        assert (output.datatype, output.data.tolist()) == (Datatype.BYTES, texts.tolist())
        empty = InferRequest("m", inputs=(Tensor("TEXT", Datatype.BYTES, texts[:0]),))
        with pytest.raises(RequestError, match="one string at least is expected"):
            await infer(repository, empty)
        with pytest.raises(RequestError, match="the datatype is FP32, not BYTES"):
            await infer(repository, request("m", TEXT=[1]))

    serving([entry(tmp_path, "m")], scenario)


def test_inputs_that_the_model_does_not_have_may_be_left_out(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 3)

    async def scenario(repository: ModelRepository) -> None:
        response = await infer(repository, request("m", X=[1, 2], MORE=[7]))
        (output,) = response.outputs
        assert isinstance(output, Tensor)
        assert output.data.tolist() == [4, 5]
        with pytest.raises(RequestError, match="needs the inputs"):
            await infer(repository, request("m", MORE=[7]))

    serving([entry(tmp_path, "m")], scenario, ignores_further_inputs=True)


@pytest.mark.parametrize(
    ("numpy_type", "good", "bad", "span"),
    [
        (np.int64, [-(2**31), 2**31 - 1], 5_000_000_000, "-2147483648 to 2147483647"),
        (np.uint64, [0, 2**31 - 1], 2**64 - 1, "0 to 2147483647"),
        (np.float64, [0.5, np.nan], 1e300, r"-3\.40\d*e\+38 to 3\.40\d*e\+38"),
        (np.float64, [3e38, -3e38], -np.inf, r"-3\.40\d*e\+38 to 3\.40\d*e\+38"),
    ],
)
def test_numbers_that_the_cpu_would_change_are_refused(
    tmp_path: Path, numpy_type: Any, good: list[Any], bad: Any, span: str
) -> None:
    x = parameter("X", [2], numpy_type)
    y = named(op.multiply(x, np.ones(1, numpy_type)), "Y")
    save(openvino.Model([op.result(y)], [x], "wide"), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        (output,) = (await infer(repository, request("m", X=np.array(good, numpy_type)))).outputs
        assert isinstance(output, Tensor)
        np.testing.assert_allclose(output.data, good, rtol=1e-6)
        asked = request("m", X=np.array([good[0], bad], numpy_type))
        with pytest.raises(RequestError) as caught:
            await infer(repository, asked)
        place = f'inputs\\[0\\] "X": element 1 is {re.escape(str(numpy_type(bad)))}'
        assert re.match(
            f"{place}, but the CPU computes .* with numbers from {span}$", str(caught.value)
        )

    serving([entry(tmp_path, "m")], scenario)


def test_outputs_are_chosen_ordered_and_named_by_the_client(tmp_path: Path) -> None:
    save(sum_and_difference_model(), tmp_path / "m" / "1" / "m.xml")
    save(add_number_model(1), tmp_path / "n" / "1" / "n.xml")
    ints: dict[str, Any] = {"A": np.array([5, 6], np.int32), "B": np.array([1, 2], np.int32)}

    async def scenario(repository: ModelRepository) -> None:
        every = await infer(repository, request("m", **ints))
        assert [output.name for output in every.outputs] == ["SUM", "DIFFERENCE"]
        two = await infer(repository, request("m", outputs=["DIFFERENCE", "SUM"], **ints))
        assert [output.name for output in two.outputs] == ["DIFFERENCE", "SUM"]
        assert await numbers(repository, request("m", outputs=["SUM"], **ints)) == [6, 8]
        # Any name of a tensor is accepted, and repeated in the answer.
        for name in ("Y", "SUM"):
            (output,) = (await infer(repository, request("n", outputs=[name], X=[1, 2]))).outputs
            assert output.name == name

    serving([entry(tmp_path, "m"), entry(tmp_path, "n")], scenario)


@pytest.mark.parametrize(
    ("dtype", "datatype"),
    [
        (np.bool_, "BOOL"),
        *[(f"u{size}", f"UINT{8 * size}") for size in (1, 2, 4, 8)],
        *[(f"i{size}", f"INT{8 * size}") for size in (1, 2, 4, 8)],
        *[(f"f{size}", f"FP{8 * size}") for size in (2, 4, 8)],
    ],
)
def test_every_datatype_is_accepted_and_returned(tmp_path: Path, dtype: Any, datatype: str) -> None:
    save(identity_model(np.dtype(dtype), [3]), tmp_path / "m" / "1" / "m.xml")
    data = np.array([0, 1, 1], dtype)
    data.flags.writeable = False  # like data from a client

    async def scenario(repository: ModelRepository) -> None:
        assert (await repository.metadata("m")).inputs == (TensorMetadata("X", datatype, (3,)),)
        (output,) = (await infer(repository, request("m", X=data))).outputs
        assert isinstance(output, Tensor)
        assert (output.datatype, output.data.tolist()) == (datatype, data.tolist())

    serving([entry(tmp_path, "m")], scenario)


def test_bf16_is_passed_on_as_bits(tmp_path: Path) -> None:
    save(identity_model(openvino.Type.bf16, [2]), tmp_path / "m" / "1" / "m.xml")
    bits = Tensor("X", Datatype.BF16, np.array([0x3F80, 0x4000], np.uint16))

    async def scenario(repository: ModelRepository) -> None:
        (output,) = (await infer(repository, InferRequest("m", inputs=(bits,)))).outputs
        assert isinstance(output, Tensor)
        assert output.datatype is Datatype.BF16
        assert output.data.tolist() == [0x3F80, 0x4000]
        with pytest.raises(RequestError, match=r'"X": the datatype is UINT16, not BF16'):
            await infer(repository, request("m", X=np.zeros(2, np.uint16)))

    serving([entry(tmp_path, "m")], scenario)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (request("m"), 'the model needs the inputs "A", "B" too'),
        (request("m", A=[1]), 'the model needs the inputs "B" too'),
        (
            request("m", A=[1], B=[1], C=[1]),
            r'inputs\[2\] "C": the model has no such input; its inputs are "A", "B"',
        ),
        (request("m", A=[[1]], B=[1]), r'inputs\[0\] "A": the shape is \[1, 1\], not \[-1\]'),
        (
            request("m", A=[1], B=np.array([1], np.int64)),
            r'inputs\[1\] "B": the datatype is INT64, not FP32',
        ),
        (
            request("m", A=[1], B=np.array([b"1"], object)),
            r'inputs\[1\] "B": the datatype is BYTES, not FP32',
        ),
        (
            request("m", outputs=["SUM", "sum"], A=[1], B=[1]),
            r'outputs\[1\] "sum": the model has no such output; its outputs are "SUM"',
        ),
        (
            InferRequest("m", inputs=(CustomTensor("A", "my" * 99, (1,), memoryview(b"")),)),
            r'inputs\[0\] "A": the datatype is "(my){32}\.\.\.", not FP32',
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, asked: InferRequest, message: str
) -> None:
    save(add_model(), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RequestError, match=message) as caught:
            await infer(repository, asked)
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert await numbers(repository, request("m", A=[1, 2], B=[3, 4])) == [4, 6]

    serving([entry(tmp_path, "m")], scenario)


def test_one_tensor_under_two_names_is_refused(tmp_path: Path) -> None:
    x = named(op.parameter(openvino.PartialShape([2]), np.float32), "X", "ALSO")
    model = openvino.Model([op.result(named(op.relu(x), "Y"))], [x], "m")
    save(model, tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        assert await numbers(repository, request("m", ALSO=[1, 2])) == [1, 2]
        assert await numbers(repository, request("m", X=[1, 2])) == [1, 2]
        with pytest.raises(RequestError, match=r'inputs\[1\] "ALSO": another input of the request'):
            await infer(repository, request("m", X=[1, 2], ALSO=[1, 2]))

    serving([entry(tmp_path, "m")], scenario)


def test_lengths_may_vary_where_the_model_allows_it(tmp_path: Path) -> None:
    save(matmul_model(), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        assert (await repository.metadata("m")).inputs == (TensorMetadata("X", "FP32", (-1, 2)),)
        assert (await repository.metadata("m")).outputs == (TensorMetadata("Y", "FP32", (-1, 3)),)
        for rows in (1, 4, 0):
            (output,) = (await infer(repository, request("m", X=np.ones((rows, 2), "f4")))).outputs
            assert output.shape == (rows, 3)

    serving([entry(tmp_path, "m")], scenario)


def test_a_failed_inference_disturbs_no_other(tmp_path: Path) -> None:
    save(add_model(), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        good, bad = request("m", A=[1, 2], B=[3, 4]), request("m", A=[1, 2], B=[1, 2, 3])
        results = await asyncio.gather(
            *(infer(repository, each) for each in (good, bad, good)), return_exceptions=True
        )
        assert [isinstance(each, BaseException) for each in results] == [False, True, False]
        (error,) = [each for each in results if isinstance(each, RequestError)]
        assert error.code is Code.INTERNAL
        assert 'the model "m" failed: ' in str(error)
        assert ".cpp" not in str(error)

    serving([entry(tmp_path, "m")], scenario)


def test_requests_beyond_a_models_limit_are_refused(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        results = await asyncio.gather(
            *(infer(repository, request("m", X=[1, 2])) for _ in range(5)), return_exceptions=True
        )
        refused = [each for each in results if isinstance(each, RequestError)]
        assert [error.code for error in refused] == [Code.RESOURCE_EXHAUSTED] * 3
        assert refused[0].retry_after == 1
        assert await numbers(repository, request("m", X=[1, 2])) == [2, 3]

    serving([entry(tmp_path, "m")], scenario, request_limit=2)


def test_a_plain_model_refuses_chats(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RequestError, match="it takes tensors, at /v2/models/m/infer"):
            await answer(repository, "m")

    serving([entry(tmp_path, "m")], scenario)


def test_metadata_are_those_of_the_file(tmp_path: Path) -> None:
    save(image_model(), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        metadata = await repository.metadata("m")
        assert (metadata.name, metadata.platform, metadata.versions) == ("m", "OpenVINO", ("1",))
        assert metadata.rt_info == {"model_info": {"labels": "cat dog"}}

    serving([entry(tmp_path, "m")], scenario)


def test_the_last_answer_is_marked_on_request(tmp_path: Path) -> None:
    write_versions(tmp_path, "m", 1)
    parameters = {"triton_enable_empty_final_response": True}

    async def scenario(repository: ModelRepository) -> None:
        asked = dataclasses.replace(request("m", X=[1, 2]), parameters=parameters)
        response = await infer(repository, asked)
        assert response.parameters == {"triton_final_response": True}

    serving([entry(tmp_path, "m")], scenario)


def test_a_scalar_is_accepted_and_returned(tmp_path: Path) -> None:
    x = parameter("X", [])
    model = openvino.Model([op.result(named(op.add(x, np.float32(1)), "Y"))], [x], "m")
    save(model, tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        (output,) = (await infer(repository, request("m", X=np.array(2, "f4")))).outputs
        assert isinstance(output, Tensor)
        assert (output.shape, output.data.item()) == ((), 3)

    serving([entry(tmp_path, "m")], scenario)
