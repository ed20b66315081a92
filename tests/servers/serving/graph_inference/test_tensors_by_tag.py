"""Tensors through graphs whose streams are typed by their tags only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.images.image.encoded_image import encode_image
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor
from calculators.tensors.python import pyovms
from graph_runtime import Calculator, CalculatorContext, In, Out
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask_one,
    between,
    bf16,
    one_node,
    passing,
    served,
    tensor,
)

NUMBERS = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
TAGS = ["OVTENSOR", "TENSOR", "TFTENSOR", "TFLITE_TENSOR", "OVTENSOR1", "", "ANYTHING"]


class Look(Calculator):
    """Passes values on, and records them."""

    packet = In[Any]()
    passed = Out[Any]()
    seen: list[Any]

    def process(self, cc: CalculatorContext) -> None:
        type(self).seen.append(cc.get(self.packet))
        cc.emit(self.passed, cc.get(self.packet))


def tagged(tag: str) -> str:
    """Return `Look` between streams with this tag."""
    Look.seen = []
    front = f"{tag}:" if tag else ""
    return between("Look", f"{front}in", f"{front}out")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_are_passed_as_arrays(tmp_path: Path, tag: str, dtype: str) -> None:
    given = tensor("in", [[0, 1, 1], [1, 0, 1]], dtype)

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, given)
        assert (output.name, output.datatype) == ("out", given.datatype)
        assert output.data.tolist() == given.data.tolist()
        (seen,) = Look.seen
        assert type(seen) is np.ndarray
        assert not seen.flags.writeable
        assert np.shares_memory(seen, given.data)

    served(tmp_path, tagged(tag), scenario, Look)


@pytest.mark.parametrize("tag", ["OVTENSOR", ""])
def test_bf16_is_passed_as_bits_and_stays_bf16(tmp_path: Path, tag: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, bf16("in", [0x3F80, 0x4000]))
        assert output.datatype is Datatype.BF16
        assert output.data.tolist() == [0x3F80, 0x4000]
        assert Look.seen[0].dtype == np.uint16

    served(tmp_path, tagged(tag), scenario, Look)


@pytest.mark.parametrize("tag", ["OVTENSOR", ""])
def test_bytes_are_passed_as_objects(tmp_path: Path, tag: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", [b"one", b"", b"\xff"]))
        assert output.datatype is Datatype.BYTES
        assert output.data.tolist() == [b"one", b"", b"\xff"]
        assert Look.seen[0].tolist() == [b"one", b"", b"\xff"]

    served(tmp_path, tagged(tag), scenario, Look)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1)])
def test_shapes_may_have_no_element_or_one(tmp_path: Path, shape: tuple[int, ...]) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", np.zeros(shape, np.float32)))
        assert output.shape == shape

    served(tmp_path, passing("OVTENSOR:in", "OVTENSOR:out"), scenario)


def test_an_array_cannot_have_an_unknown_datatype(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(
            RequestError, match=r'^input "in": .* expected, "MY" of the shape \[3\]'
        ):
            await ask_one(graph, CustomTensor("in", "MY", (3,), memoryview(b"abc")))

    served(tmp_path, passing("OVTENSOR:in"), scenario)


def test_nothing_is_copied_on_the_way(tmp_path: Path) -> None:
    given = tensor("in", np.zeros(1000), np.float32)

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, given)
        assert np.shares_memory(output.data, given.data)

    served(tmp_path, passing("OVTENSOR:in", "OVTENSOR:out"), scenario)


# Python tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["OVMS_PY_TENSOR", "OVMS_PY_TENSOR_IN"])
def test_a_python_tensor_is_passed_and_returned(tmp_path: Path, tag: str) -> None:
    given = tensor("in", [[1.5, 2.5]], np.float32)

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, given)
        (seen,) = Look.seen
        assert isinstance(seen, pyovms.Tensor)
        assert (seen.name, seen.datatype, seen.shape) == ("in", "FP32", (1, 2))
        assert np.shares_memory(seen, given.data)
        assert (output.name, output.datatype) == ("out", Datatype.FP32)
        assert output.data.tolist() == [[1.5, 2.5]]
        assert type(output.data) is np.ndarray

    served(tmp_path, tagged(tag), scenario, Look)


def test_bytes_of_a_python_tensor_are_packed(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", [b"ab", b""]))
        (seen,) = Look.seen
        assert bytes(seen) == b"\x02\0\0\0ab\0\0\0\0"
        assert (seen.datatype, seen.shape) == ("BYTES", (2,))
        assert output.data.tolist() == [b"ab", b""]

    served(tmp_path, tagged("OVMS_PY_TENSOR"), scenario, Look)


def test_bf16_is_passed_as_a_python_tensor(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, bf16("in", [0x3F80, 0x4000]))
        assert (Look.seen[0].datatype, Look.seen[0].shape) == ("BF16", (2,))
        assert (output.datatype, output.data.tolist()) == (Datatype.BF16, [0x3F80, 0x4000])

    served(tmp_path, tagged("OVMS_PY_TENSOR"), scenario, Look)


def test_custom_datatypes_are_passed_as_python_tensors(tmp_path: Path) -> None:
    given = CustomTensor("in", "MY", (7, 2), memoryview(b"abc"))

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, given)
        assert isinstance(output, CustomTensor)
        assert (output.datatype, output.shape, bytes(output.data)) == ("MY", (7, 2), b"abc")

    served(tmp_path, tagged("OVMS_PY_TENSOR"), scenario, Look)


@pytest.mark.parametrize(
    ("made", "datatype", "expected"),
    [
        (pyovms.Tensor("x", b"text", datatype="BYTES"), Datatype.BYTES, [b"text"]),
        (pyovms.Tensor("x", b"\1\0\0\0a\1\0\0\0b", datatype="BYTES"), "BYTES", [b"a", b"b"]),
        (pyovms.Tensor("x", b"\1\0\0\0a", [1, 1], "BYTES"), Datatype.BYTES, [[b"a"]]),
        (pyovms.Tensor("x", b"text"), Datatype.UINT8, [116, 101, 120, 116]),
        (pyovms.Tensor("x", b"\1\0\2\0", [2], "UINT16"), Datatype.UINT16, [1, 2]),
    ],
)
def test_tensors_of_handlers_are_returned(
    tmp_path: Path, made: pyovms.Tensor, datatype: str, expected: list[Any]
) -> None:
    def make(packet: Any) -> Any:
        return made

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", [1]))
        assert output.datatype == datatype
        assert output.data.tolist() == expected

    served(tmp_path, one_node("make"), scenario, make)


def test_a_tensor_whose_bytes_do_not_fit_its_shape_is_an_error_of_the_graph(tmp_path: Path) -> None:
    def make(packet: Any) -> Any:
        return pyovms.Tensor("x", b"abc", [2], "FP32")

    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=r'^output "out": FP32 .* takes 8 bytes') as caught:
            await ask_one(graph, tensor("in", [1]))
        assert caught.value.code == "INTERNAL"

    served(tmp_path, one_node("make"), scenario, make)


# Images -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "channels", "image_format", "back"),
    [
        ("u1", 1, ImageFormat.GRAY8, Datatype.UINT8),
        ("u1", 3, ImageFormat.SRGB, Datatype.UINT8),
        ("i1", 4, ImageFormat.SRGBA, Datatype.UINT8),
        ("u2", 3, ImageFormat.SRGB48, Datatype.UINT16),
        ("f2", 1, ImageFormat.GRAY16, Datatype.UINT16),
        ("f4", 4, ImageFormat.VEC32F4, Datatype.FP32),
    ],
)
def test_a_tensor_of_pixels_becomes_an_image(
    tmp_path: Path, dtype: str, channels: int, image_format: ImageFormat, back: Datatype
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", np.ones((2, 5, channels)), dtype))
        (seen,) = Look.seen
        assert isinstance(seen, ImageFrame)
        assert (seen.image_format, seen.height, seen.width) == (image_format, 2, 5)
        assert (output.datatype, output.shape) == (back, (2, 5, channels))

    served(tmp_path, tagged("IMAGE"), scenario, Look)


def test_an_encoded_image_is_decoded(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    png = encode_image(ImageFrame(ImageFormat.SRGB, pixels), quality=90, kind="PNG")

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", [png]))
        assert output.data.tolist() == pixels.tolist()

    served(tmp_path, passing("IMAGE:in", "IMAGE:out"), scenario)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (tensor("in", np.zeros((2, 2), np.uint8)), "an image has 3 dimensions"),
        (tensor("in", np.zeros((2, 2, 2), np.uint8)), "has 2 channels"),
        (tensor("in", np.zeros((2, 2, 3), np.float64)), "elements of type float64"),
        (tensor("in", np.zeros((0, 2, 3), np.uint8)), "at least one pixel"),
        (tensor("in", [b"no image"]), "a JPEG or PNG is expected"),
        (tensor("in", [b"iVBORw0KGgoAAAA="]), "the image is Base64; the bytes of the file are exp"),
        (tensor("in", [b"data:image/png;base64,iVBO"]), "the image is Base64"),
        (tensor("in", [b"\x89PNG", b"two"]), "2 came"),
        (bf16("in", [1]), "cannot be BF16"),
        (CustomTensor("in", "MY", (1,), memoryview(b"x")), "an image is expected"),
    ],
)
def test_data_that_is_not_an_image_is_refused(tmp_path: Path, given: Tensor, said: str) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=r'^input "in": ') as caught:
            await ask_one(graph, given)
        assert said in str(caught.value)
        assert caught.value.code == "INVALID_ARGUMENT"

    served(tmp_path, passing("IMAGE:in"), scenario)
