"""Types of the streams between clients and inference nodes, as their models declare them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_provider import ModelProvider
from calculators.tensors.openvino.openvino_inference_calculator import OpenVINOInferenceCalculator
from calculators.tensors.openvino.openvino_model_server_session_calculator import (
    OpenVINOModelServerSessionCalculator,
)
from calculators.tensors.openvino.stream_tensors import (
    StreamTensors,
    tensors_of_inputs,
    tensors_of_outputs,
)
from calculators.tensors.openvino.tensor_spec import TensorSpec
from graph_runtime import GraphError, NodePlan, ValidatedGraph
from servers.serving.graph_inference.tensor_type import TensorType
from servers.serving.models.tensor_datatypes import datatype_of

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """Types by stream: graph inputs that inference nodes read, graph outputs that they write."""

    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    outputs: Mapping[str, TensorType] = field(default_factory=dict)


async def find_model_tensors(plan: ValidatedGraph, models: ModelProvider) -> ModelTensors:
    """Return the types that models of inference nodes at graph inputs and outputs declare.

    A model that cannot be loaded is left out with a warning; requests fail with the reason.
    """
    graph_inputs = {each.name for each in plan.graph_inputs}
    graph_outputs = set(plan.outputs.names)
    inputs: dict[str, TensorType] = {}
    outputs: dict[str, TensorType] = {}
    for node in plan.nodes:
        is_at_edge = graph_inputs & set(node.inputs.names) or graph_outputs & set(
            node.outputs.names
        )
        if not (issubclass(node.calculator_class, OpenVINOInferenceCalculator) and is_at_edge):
            continue
        try:
            model = await _model_of(plan, node, models)
            if model is None:
                continue
            options = node.options[0][1]
            read = tensors_of_inputs(
                node.inputs.tags(),
                options.tag_to_input_tensor_names,
                options.input_order_list,
                model,
            )
            written = tensors_of_outputs(
                node.outputs.tags(),
                options.tag_to_output_tensor_names,
                options.output_order_list,
                model,
            )
        except GraphError as error:
            _log.warning("the tensors of node %s stay unknown: %s", node.name, error)
            continue
        inputs.update(_types(node.inputs.tags(), node.inputs.names, read, model.inputs))
        outputs.update(_types(node.outputs.tags(), node.outputs.names, written, model.outputs))
    return ModelTensors(inputs, outputs)


async def _model_of(plan: ValidatedGraph, node: NodePlan, models: ModelProvider) -> Model | None:
    """Return the model of the node's session; None if the session is a side packet of the graph."""
    made_by = plan.side_producers.get(node.side_input_plans[0].name)
    session = None if made_by is None else plan.nodes[made_by[0]]
    if session is None or not issubclass(
        session.calculator_class, OpenVINOModelServerSessionCalculator
    ):
        return None
    return await models.get(*model_of_session(session))


def sessions_of(plan: ValidatedGraph) -> list[NodePlan]:
    """Return the nodes that make sessions with models."""
    return [
        node
        for node in plan.nodes
        if issubclass(node.calculator_class, OpenVINOModelServerSessionCalculator)
    ]


def model_of_session(session: NodePlan) -> tuple[str, int | None]:
    """Return name and version of the model that a session's node names."""
    options = session.options[0][1]
    # The contract has checked that it is a number.
    version = int("".join(options.servable_version.split()) or 0)
    return options.servable_name, version or None


def _types(
    tags: list[str],
    streams: tuple[str, ...],
    tensors: list[StreamTensors],
    specs: Sequence[TensorSpec],
) -> Iterator[tuple[str, TensorType]]:
    """Yield (stream, type) of each stream that carries one tensor."""
    by_name = {spec.name: spec for spec in specs}
    for stream, bound in zip(streams, tensors, strict=True):
        if len(bound.names) == 1:
            yield stream, _type_of(by_name[bound.names[0]])


def _type_of(spec: TensorSpec) -> TensorType:
    datatype = datatype_of(spec)
    if spec.shape is None:
        return TensorType(datatype)
    return TensorType(
        datatype,
        tuple(each.low if each.low == each.high else -1 for each in spec.shape),
    )
