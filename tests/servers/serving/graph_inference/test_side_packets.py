"""Parameters of requests become input side packets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, NoClient, RequestError
from graph_runtime import Calculator, CalculatorContext, In, Out, ResourceError, SideIn
from servers.serving.loaded_graph import LoadedGraph
from tests.servers.serving.graph_inference.graphs import (
    ask,
    asking,
    loaded,
    one_node,
    passing,
    served,
    session,
    tensor,
    values,
)
from tests.servers.serving.served_graphs import http_graph

ONE = tensor("in", [1])


def teller(spec: Any, *, is_optional: bool = False) -> type[Calculator]:
    """Answers with its side packet, as text."""

    class Tell(Calculator):
        packet = In[Any]()
        side = SideIn[spec]("SIDE", optional=is_optional)
        told = Out[str]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.told, repr(cc.side(self.side, None)))

    return Tell


TELL = one_node("Tell", extra='input_side_packet: "SIDE:setting"')


async def told(graph: LoadedGraph, **parameters: Any) -> str:
    (output,) = (await ask(graph, ONE, **parameters)).outputs
    text: bytes = output.data.item()  # type: ignore[union-attr]
    return text.decode()


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (str, "x", "'x'"),
        (int, 7, "7"),
        (bool, True, "True"),
        (float, 0.5, "0.5"),
        (float, 2, "2.0"),
        (Any, 7, "7"),
        (int | str, "x", "'x'"),
    ],
)
def test_every_kind_of_parameter_becomes_a_side_packet(
    tmp_path: Path, spec: Any, value: Any, expected: str
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert await told(graph, setting=value) == expected

    served(tmp_path, TELL, scenario, teller(spec))


@pytest.mark.parametrize(
    ("spec", "value", "said"),
    [
        (str, 7, 'the parameter "setting" is int; the graph needs string'),
        (int, "7", "is string; the graph needs int"),
        (int, True, "is bool; the graph needs int"),
        (bool, 1, "is int; the graph needs bool"),
        (float, "x", "is string; the graph needs float"),
        (float, True, "is bool; the graph needs float"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(
    tmp_path: Path, spec: Any, value: Any, said: str
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        with pytest.raises(RequestError, match=said) as caught:
            await told(graph, setting=value)
        assert caught.value.param == "setting"

    served(tmp_path, TELL, scenario, teller(spec))


def test_a_missing_parameter_is_refused(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        said = (
            'the parameter "setting" is missing: .* of the type string; it does not know "seting"'
        )
        with pytest.raises(RequestError, match=said):
            await told(graph, seting="x")
        with pytest.raises(RequestError, match=r"is missing: .* string$"):
            async with graph.open_stream(asking(), NoClient(), print):
                raise AssertionError("opened")
        assert graph.users.requests == 0

    served(tmp_path, TELL, scenario, teller(str))


def test_optional_parameters_may_be_missing_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert await told(graph) == "None"
        assert await told(graph, priority=3, OVMS_MP_TIMESTAMP=5) == "None"
        assert await told(graph, setting="x") == "'x'"

    served(tmp_path, TELL, scenario, teller(str, is_optional=True))


def test_parameters_of_the_first_request_apply_to_the_stream(tmp_path: Path) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        async with session(graph, setting="first") as stream:
            await stream.send(ONE, setting="first")
            await stream.send(ONE, setting="second")
            await stream.send(ONE)
            answers = await stream.finish()
        assert values(answers) == [("out", [b"'first'"])] * 3

    served(tmp_path, TELL, scenario, teller(str))


def test_names_of_resources_are_reserved(tmp_path: Path) -> None:
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "model.py").write_text(HANDLER)

    async def run() -> None:
        async with loaded(tmp_path, PYTHON) as graph:
            (output,) = (await ask(graph, tensor("in", [1, 2], "f4"))).outputs
            assert output.data.tolist() == [2.0, 3.0]
            with pytest.raises(RequestError, match=r'"py" is not taken: .* reserved name'):
                await ask(graph, tensor("in", [1], "f4"), py="x")

    asyncio.run(run())


HANDLER = """
import numpy as np
from pyovms import Tensor

class OvmsPythonModel:
    def execute(self, inputs):
        return [Tensor("out", np.asarray(inputs[0]) + np.float32(1))]
"""

PYTHON = """
input_stream: "OVMS_PY_TENSOR:in" output_stream: "OVMS_PY_TENSOR:out"
node {
  name: "adder" calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:in" output_stream: "OUTPUT:out"
  node_options { [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions] {
    handler_path: "model.py" } }
}
"""


@pytest.mark.parametrize(
    ("spec", "side"), [(dict[str, Any], "SIDE:setting"), (Any, "OTHER_NODE_RESOURCES:setting")]
)
def test_a_side_packet_that_no_request_can_provide_fails_the_load(
    tmp_path: Path, spec: Any, side: str
) -> None:
    class Need(Calculator):
        packet = In[Any]()
        need = SideIn[spec](side.partition(":")[0])
        same = Out[Any]()

    async def scenario(graph: LoadedGraph) -> None:
        raise AssertionError("loaded")

    text = one_node("Need", extra=f'input_side_packet: "{side}"')
    with pytest.raises(ResourceError, match='needs the input side packet "setting", and nothing'):
        served(tmp_path, text, scenario, Need)


def test_a_graph_of_http_requests_gets_no_parameters(tmp_path: Path) -> None:
    class Need(Calculator):
        request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
        need = SideIn[str]("SIDE")
        response = Out[str]("HTTP_RESPONSE_PAYLOAD")

    async def scenario(graph: LoadedGraph) -> None:
        raise AssertionError("loaded")

    text = http_graph("Need", 'input_side_packet: "SIDE:setting"')
    with pytest.raises(ResourceError, match='needs the input side packet "setting", and nothing'):
        served(tmp_path, text, scenario, Need)


def test_http_requests_to_a_graph_of_any_type_are_refused_with_what_is_missing(
    tmp_path: Path,
) -> None:
    async def scenario(graph: LoadedGraph) -> None:
        assert graph.http_role is None
        with pytest.raises(RequestError, match='needs the input side packet "setting"'):
            await graph.answer(HttpPayload("/v3/x", {}), print)

    text = passing("input", "output") + (
        'node { calculator: "PassThroughCalculator" input_stream: "input" output_stream: "more"'
        ' input_side_packet: "setting" }'
    )
    served(tmp_path, text, scenario)
