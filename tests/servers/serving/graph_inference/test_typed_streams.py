"""Streams with types from typed ports: values, wrong tensors, metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import TypeAliasType

from calculators.images.image.image_frame import ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import CustomTensor, Datatype, Tensor
from calculators.tensors.python import pyovms
from graph_runtime import Calculator, CalculatorContext, In, Out
from servers.contract.data_plane import TensorMetadata
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask,
    ask_one,
    between,
    bf16,
    one_node,
    served,
    tensor,
)


def echo(spec: Any) -> type[Calculator]:
    """Passes values of one type on, and checks that it receives them."""

    class Typed(Calculator):
        value = In[spec]()
        same = Out[spec]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.same, cc.get(self.value))

    return Typed


#: As NumPy declares them from 2.5 on, with the syntax of Python 3.12.
Words = TypeAliasType("Words", list[str])
Floats = TypeAliasType("Floats", NDArray[np.float32])
#: Type, datatype and shape in metadata, a tensor, the returned value.
TYPED: list[tuple[Any, str, tuple[int, ...], Tensor, str, Any]] = [
    (str, "BYTES", (1,), tensor("in", ["grün".encode()]), "BYTES", ["grün".encode()]),
    (bytes, "BYTES", (1,), tensor("in", [b"\xff"]), "BYTES", [b"\xff"]),
    (bool, "BOOL", (1,), tensor("in", [True]), "BOOL", [True]),
    (int, "INT64", (1,), tensor("in", [7], np.uint8), "INT64", [7]),
    (int, "INT64", (1,), tensor("in", 2**64 - 1, np.uint64), "UINT64", [2**64 - 1]),
    (float, "FP64", (1,), tensor("in", [[0.5]], np.float32), "FP64", [0.5]),
    (float, "FP64", (1,), tensor("in", [0.5], np.float16), "FP64", [0.5]),
    (list[str], "BYTES", (-1,), tensor("in", [b"a", b"b"]), "BYTES", [b"a", b"b"]),
    (list[bytes], "BYTES", (-1,), tensor("in", [b"a\0", b""]), "BYTES", [b"a\0", b""]),
    (list[int], "INT64", (-1,), tensor("in", [1, 2], np.int8), "INT64", [1, 2]),
    (list[int], "INT64", (-1,), tensor("in", [], np.int8), "INT64", []),
    (list[str], "BYTES", (-1,), tensor("in", [], object), "BYTES", []),
    (list[float], "FP64", (-1,), tensor("in", [1.5], np.float32), "FP64", [1.5]),
    (list[bool], "BOOL", (-1,), tensor("in", [True, False]), "BOOL", [True, False]),
    (list[list[int]], "INT64", (-1, -1), tensor("in", [[1, 2], [3, 4]]), "INT64", [[1, 2], [3, 4]]),
    (list[list[str]], "BYTES", (-1, -1), tensor("in", [[b"a"]], object), "BYTES", [[b"a"]]),
    (np.ndarray, "INVALID", (), tensor("in", [1], np.int8), "INT8", [1]),
    (NDArray[Any], "INVALID", (), tensor("in", [1], np.int8), "INT8", [1]),
    (NDArray[np.float32], "FP32", (), tensor("in", [1.5], np.float32), "FP32", [1.5]),
    (NDArray[np.object_], "BYTES", (), tensor("in", [b"x"]), "BYTES", [b"x"]),
    (
        np.ndarray[tuple[int, int], np.dtype[np.int32]],
        "INT32",
        (-1, -1),
        tensor("in", [[1]], np.int32),
        "INT32",
        [[1]],
    ),
    (list[np.ndarray], "INVALID", (), tensor("in", [1], np.int8), "INT8", [1]),
    (pyovms.Tensor, "INVALID", (), tensor("in", [1], np.int8), "INT8", [1]),
    (ImageFrame, "UINT8", (-1, -1, -1), tensor("in", [[[1]]], np.uint8), "UINT8", [[[1]]]),
    (str | int, "BYTES", (1,), tensor("in", [7]), "INT64", [7]),
    (str | bytes, "BYTES", (1,), tensor("in", [b"\xff"]), "BYTES", [b"\xff"]),
    (Words, "BYTES", (-1,), tensor("in", [b"a", b"b"]), "BYTES", [b"a", b"b"]),
    (Annotated[Floats, "a note"], "FP32", (), tensor("in", [1.5], np.float32), "FP32", [1.5]),
    (list[Floats], "INVALID", (), tensor("in", [1.5], np.float32), "FP32", [1.5]),
]


@pytest.mark.parametrize(("spec", "datatype", "shape", "given", "back", "expected"), TYPED)
def test_values_of_a_type_are_passed_and_returned(
    tmp_path: Path,
    spec: Any,
    datatype: str,
    shape: tuple[int, ...],
    given: Tensor,
    back: str,
    expected: Any,
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, given)
        assert (output.datatype, output.data.tolist()) == (back, expected)
        metadata = graph.metadata()
        assert metadata.inputs == (TensorMetadata("in", datatype, shape),)
        assert metadata.outputs == (TensorMetadata("out", datatype, shape),)

    served(tmp_path, one_node("Typed"), scenario, echo(spec))


REFUSED: list[tuple[Any, Any, str]] = [
    (str, tensor("in", [7]), "BYTES of the shape [1] is expected, INT64 of the shape [1] came"),
    (str, tensor("in", [b"a", b"b"]), "BYTES of the shape [1] is expected"),
    (str, tensor("in", [b"\xff"]), "the text is not UTF-8"),
    (list[str], tensor("in", [b"a", b"\xff"]), "the text is not UTF-8"),
    (int, tensor("in", [1.5]), "INT64, INT8, "),
    (int, tensor("in", []), "of the shape [1] is expected"),
    (int, tensor("in", [True]), "BOOL of the shape [1] came"),
    (int, tensor("in", np.empty((0, 10**6), np.int64)), "INT64 of the shape [0, 1000000] came"),
    (bool, tensor("in", [1]), "BOOL of the shape [1] is expected, INT64"),
    (float, tensor("in", [1]), "FP64, FP32 or FP16 of the shape [1] is expected, INT64"),
    (float, bf16("in", [1]), "BF16 of the shape [1] came"),
    (list[float], tensor("in", [[1.5]]), "FP64, FP32 or FP16 of the shape [-1] is expected"),
    (list[int], tensor("in", np.zeros(2**20 + 1, np.int8)), "at most 1048576 elements"),
    (NDArray[np.float32], tensor("in", [1.5]), "FP32 is expected, FP64 of the shape [1] came"),
    (
        np.ndarray[tuple[int, int], np.dtype[np.int32]],
        tensor("in", [1], np.int32),
        "INT32 of the shape [-1, -1] is expected, INT32 of the shape [1] came",
    ),
    (str, CustomTensor("in", "MY" * 99, (1,), memoryview(b"x")), "MYMY"),
    (dict[str, int], tensor("in", [1]), "map<string, int>, which no tensor can be"),
]


@pytest.mark.parametrize(("spec", "given", "said"), REFUSED)
def test_tensors_of_other_types_are_refused(
    tmp_path: Path, spec: Any, given: Any, said: str
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=r'^input "in": ') as caught:
            await ask(graph, given)
        assert said in str(caught.value)
        assert len(str(caught.value)) < 300

    served(tmp_path, one_node("Typed"), scenario, echo(spec))


def test_values_without_a_declared_type_become_tensors(tmp_path: Path) -> None:
    cases: list[tuple[Any, str, Any]] = [
        ("text", "BYTES", [b"text"]),
        (7, "INT64", [7]),
        (1.5, "FP64", [1.5]),
        (True, "BOOL", [True]),
        ([1, 2.5], "FP64", [1.0, 2.5]),
        ([["a"]], "BYTES", [[b"a"]]),
        (["a", b"b\0"], "BYTES", [b"a", b"b\0"]),
        (np.float32(1.5), "FP32", [1.5]),
        (np.array(["a"]), "BYTES", [b"a"]),
        (np.array([1], ">i4"), "INT32", [1]),
        ([np.array([1.5])], "FP64", [1.5]),
        (Tensor.of("other", np.array([1.5])), "FP64", [1.5]),
    ]
    left = list(cases)

    def next_case(packet: Any) -> Any:
        return left.pop(0)[0]

    async def scenario(graph: LoadedGraph) -> None:
        for _, datatype, expected in cases:
            output = await ask_one(graph, tensor("in", [0]))
            assert (output.name, output.datatype) == ("out", datatype)
            assert output.data.tolist() == expected

    served(tmp_path, one_node("next_case"), scenario, next_case)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1}, "the graph gave a dict, which cannot become a tensor"),
        (object(), "the graph gave a object"),
        (np.array([1j]), "KServe has no datatype for numpy's complex128"),
        ([[1], [1, 2]], "the graph gave a list that is not a tensor"),
        ([2**70], "the graph gave a list that is not a tensor"),
        ([np.zeros(1), np.zeros(1)], "the graph gave a list of 2 arrays"),
    ],
)
def test_values_that_are_not_tensors_are_an_error_of_the_graph(
    tmp_path: Path, value: Any, said: str
) -> None:
    def make(packet: Any) -> Any:
        return value

    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=r'^output "out": ') as caught:
            await ask_one(graph, tensor("in", [0]))
        assert said in str(caught.value)
        assert caught.value.code == "INTERNAL"

    served(tmp_path, one_node("make"), scenario, make)


def test_the_annotations_of_a_function_are_its_types(tmp_path: Path) -> None:
    def scale(numbers: NDArray[np.float32], *, factor: float) -> NDArray[np.float32]:
        return numbers * np.float32(factor)

    async def scenario(graph: LoadedGraph) -> None:
        numbers, factor = tensor("numbers", [1, 2], np.float32), tensor("factor", [2.5])
        (output,) = (await ask(graph, numbers, factor)).outputs
        assert isinstance(output, Tensor)
        assert (output.datatype, output.data.tolist()) == (Datatype.FP32, [2.5, 5.0])
        found = {each.name: each.datatype for each in graph.metadata().inputs}
        assert found == {"numbers": "FP32", "factor": "FP64"}

    text = one_node("scale", "numbers FACTOR:factor", "scaled")
    served(tmp_path, text, scenario, scale)


@pytest.mark.parametrize(
    ("tag", "kind"),
    [
        ("IMAGE", ImageFrame),
        ("OVTENSOR", np.ndarray),
        ("OVMS_PY_TENSOR", pyovms.Tensor),
        ("", ImageFrame),
    ],
)
def test_the_tag_chooses_among_several_types(tmp_path: Path, tag: str, kind: type) -> None:
    def look(packet: ImageFrame | np.ndarray | pyovms.Tensor) -> str:
        return type(packet).__name__

    async def scenario(graph: LoadedGraph) -> None:
        output = await ask_one(graph, tensor("in", [[[1]]], np.uint8))
        assert output.data.tolist() == [kind.__name__.encode()]

    served(tmp_path, between("look", f"{tag}:in" if tag else "in", "out"), scenario, look)
