"""Handlers of OpenVINO Model Server's documentation and demos, unmodified."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from calculators.tensors.python.pyovms import Tensor
from graph_runtime import ValidationError, parse_graph_text, validate_graph
from tests.calculators.tensors.python.running import LOOP, OPTIONS, PLAIN, loaded, registry

UPPERCASE = """
from pyovms import Tensor

class OvmsPythonModel:

    def execute(self, inputs: list):
        input_data = inputs[0]
        text = bytes(input_data).decode()
        output_data = text.upper().encode()
        return [Tensor("uppercase", output_data)]
"""

INCREMENT = """
import numpy as np
from pyovms import Tensor

class OvmsPythonModel:
    def initialize(self, kwargs: dict):
        self.kwargs = kwargs
        self.output_name = kwargs["output_names"][0]
        self.calls = 0
        self.finalized = False

    def execute(self, inputs: list):
        self.calls += 1
        return [Tensor(self.output_name, np.array(inputs[0]) + 1)]

    def finalize(self):
        self.finalized = True
"""


def node(name: str, streams: str) -> str:
    return (
        f'node {{ name: "{name}" calculator: "PythonExecutorCalculator" '
        f'input_side_packet: "PYTHON_NODE_RESOURCES:py" {streams} {OPTIONS % "model.py"} }}\n'
    )


TWO_NODES = (
    'input_stream: "OVMS_PY_TENSOR:first" output_stream: "OVMS_PY_TENSOR:last"\n'
    + node("one", 'input_stream: "INPUT:first" output_stream: "OUTPUT:second"')
    + node("two", 'input_stream: "INPUT:second" output_stream: "OUTPUT:last"')
)


def test_the_quickstarts_handler_runs(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, UPPERCASE, isolation=isolation) as graph:
            run = await graph.run(Tensor("text", b"hello"), Tensor("text", b"again"))
            assert await run.texts() == [(0, "HELLO"), (1, "AGAIN")]

    asyncio.run(scenario())


def test_nodes_in_a_row_share_a_file_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, INCREMENT, TWO_NODES) as graph:
            run = await graph.run()
            run.add(np.array([1, 2], np.int32), stream="first")
            ((stream, time, tensor),) = await run.end()
            assert (stream, time, tensor.name) == ("last", 0, "last")
            assert np.array(tensor).tolist() == [3, 4]
            assert (graph.model("one").calls, graph.model("two").calls) == (1, 1)

    asyncio.run(scenario())


def test_initialize_receives_the_node_and_finalize_is_called_at_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, INCREMENT, TWO_NODES) as graph:
            model = graph.model("two")
            assert model.kwargs == {
                "node_name": "two",
                "input_names": ["second"],
                "output_names": ["last"],
                "base_path": str(tmp_path),
            }
            assert not model.finalized
        assert model.finalized

    asyncio.run(scenario())


def test_overlapping_calls_run_one_by_one_and_in_order(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        graph_text = PLAIN[:-1] + "max_in_flight: 3 }"
        async with loaded(tmp_path, UPPERCASE, graph_text, isolation=isolation) as graph:
            run = await graph.run("a", "b", "c", "d")
            assert await run.texts() == [(0, "A"), (1, "B"), (2, "C"), (3, "D")]

    asyncio.run(scenario())


def test_all_runs_share_the_handlers_object(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, INCREMENT) as graph:
            runs = [await graph.run(np.zeros(1)) for _ in range(3)]
            for run in runs:
                await run.end()
            assert graph.model().calls == 3

    asyncio.run(scenario())


NAMES = """
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("names", ",".join(tensor.name for tensor in inputs).encode())]
"""
THREE_INPUTS = """
input_stream: "OVMS_PY_TENSOR_B:b"
input_stream: "OVMS_PY_TENSOR_A:a"
input_stream: "OVMS_PY_TENSOR_C:c"
output_stream: "OVMS_PY_TENSOR:names"
""" + node(
    "node",
    'input_stream: "B:b" input_stream: "A:a" input_stream: "C:c" output_stream: "OUTPUT:names"',
)


def test_inputs_have_the_order_of_their_tags(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, NAMES, THREE_INPUTS, isolation=isolation) as graph:
            run = await graph.run()
            for name in ("c", "a", "b"):
                run.add(Tensor(name, b""), 0, name)
            for name in ("c", "a"):
                run.add(Tensor(name, b""), 1, name)
            assert await run.texts() == [(0, "a,b,c"), (1, "a,c")]

    asyncio.run(scenario())


def test_some_outputs_may_be_left_out(tmp_path: Path, isolation: str) -> None:
    handler = """
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        text = bytes(inputs[0])
        return [Tensor("result", text)] if text else [Tensor("error_message", b"empty")]
"""
    graph_text = (
        'input_stream: "OVMS_PY_TENSOR:text"\n'
        'output_stream: "OVMS_PY_TENSOR:result"\n'
        'output_stream: "OVMS_PY_TENSOR_ERROR:error_message"\n'
    ) + node(
        "node",
        'input_stream: "INPUT:text" output_stream: "A:result" output_stream: "B:error_message"',
    )

    async def scenario() -> None:
        async with loaded(tmp_path, handler, graph_text, isolation=isolation) as graph:
            run = await graph.run(b"", b"x")
            packets = [(name, time, bytes(value)) for name, time, value in await run.end()]
            assert packets == [("error_message", 0, b"empty"), ("result", 1, b"x")]

    asyncio.run(scenario())


DESCRIBE = """
from pyovms import Tensor
class OvmsPythonModel:
    def execute(self, inputs):
        it = inputs[0]
        shown = f"{it.name} {it.datatype} {it.shape} {bytes(it)}" if isinstance(it, Tensor) else it
        return [Tensor("uppercase", str(shown).encode())]
"""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("né", "text UINT8 (3,) b'n\\xc3\\xa9'"),
        (b"ab", "text UINT8 (2,) b'ab'"),
        (np.ones((1, 2), np.int8), "text INT8 (1, 2) b'\\x01\\x01'"),
        (np.array([[b"a"], [b"bc"]], object), "text BYTES (2, 1) b'\\x01\\x00\\x00\\x00a"),
        (Tensor("other", b"x"), "other UINT8 (1,) b'x'"),
        ({"any": "object"}, "{'any': 'object'}"),
    ],
)
def test_packets_of_other_nodes_need_no_converter(
    tmp_path: Path, value: object, shown: str
) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, DESCRIBE) as graph:
            ((_, text),) = await (await graph.run(value)).texts()
            assert text.startswith(shown)

    asyncio.run(scenario())


def test_files_of_one_name_in_two_directories_are_two_handlers(
    tmp_path: Path, isolation: str
) -> None:
    async def scenario() -> None:
        (tmp_path / "other").mkdir()
        other = UPPERCASE.replace("upper()", "title()")
        async with (
            loaded(tmp_path, UPPERCASE, isolation=isolation) as graph,
            loaded(tmp_path / "other", other, isolation=isolation) as second,
        ):
            assert await (await second.run("hello")).texts() == [(0, "Hello")]
            assert await (await graph.run("hello")).texts() == [(0, "HELLO")]

    asyncio.run(scenario())


def test_a_graph_that_is_loaded_again_uses_the_new_file(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path, UPPERCASE, isolation=isolation) as graph:
            assert await (await graph.run("aB")).texts() == [(0, "AB")]
        async with loaded(tmp_path, UPPERCASE.replace("upper()", "swapcase()")) as graph:
            assert await (await graph.run("aB")).texts() == [(0, "Ab")]

    asyncio.run(scenario())


def test_a_handler_may_import_its_neighbours(tmp_path: Path, isolation: str) -> None:
    async def scenario() -> None:
        (tmp_path / "neighbour_of_a_handler.py").write_text("def change(text): return text[::-1]")
        handler = "import neighbour_of_a_handler\n" + UPPERCASE
        handler = handler.replace("text.upper()", "neighbour_of_a_handler.change(text)")
        async with loaded(tmp_path, handler, isolation=isolation) as graph:
            assert await (await graph.run("abc")).texts() == [(0, "cba")]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'input_stream: "INPUT:text"\n',
            'input_stream: "INPUT:text"\n input_stream: "LOOPBACK:loopback"\n',
            "it must be defined on both input and output",
        ),
        ('  output_stream: "OUTPUT:uppercase"\n', "", "needs an input and an output"),
        ('  input_stream: "INPUT:text"\n', "", "needs an input and an output"),
        (OPTIONS % "model.py", "max_in_flight: 2 " + LOOP, "takes no max_in_flight"),
    ],
)
def test_nodes_that_cannot_work_are_refused(old: str, new: str, said: str) -> None:
    assert old in PLAIN
    with pytest.raises(ValidationError, match=said):
        validate_graph(parse_graph_text(PLAIN.replace(old, new)), registry=registry())
