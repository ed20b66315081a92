"""What models say about the streams between clients and inference nodes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculators.openvino.model import Model
from calculators.openvino.model_provider import ModelProvider
from calculators.openvino.openvino_inference_calculator import OpenVINOInferenceCalculator
from calculators.openvino.openvino_model_server_session_calculator import (
    OpenVINOModelServerSessionCalculator,
)
from calculators.openvino.stream_tensors import (
    StreamTensors,
    tensors_of_inputs,
    tensors_of_outputs,
)
from calculators.openvino.tensor_spec import TensorSpec
from graph_runtime import GraphError, NodePlan, ValidatedGraph
from servers.serving.graph_inference.tensor_type import TensorType
from servers.serving.models.tensor_datatypes import datatype_of

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """By stream: inputs of the graph that inference nodes read, outputs that they write."""

    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    outputs: Mapping[str, TensorType] = field(default_factory=dict)


async def find_model_tensors(plan: ValidatedGraph, models: ModelProvider) -> ModelTensors:
    """Ask the models of inference nodes that stand directly at the graph's inputs or outputs.

    A model that cannot be had is left out with a warning: a request will say why.
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
    """The model of the node's session; None when it comes from elsewhere."""
    made_by = plan.side_producers.get(node.side_input_plans[0].name)
    session = None if made_by is None else plan.nodes[made_by[0]]
    if session is None or not issubclass(
        session.calculator_class, OpenVINOModelServerSessionCalculator
    ):
        return None
    return await models.get(*model_of_session(session))


def sessions_of(plan: ValidatedGraph) -> list[NodePlan]:
    """The nodes that make sessions with models."""
    return [
        node
        for node in plan.nodes
        if issubclass(node.calculator_class, OpenVINOModelServerSessionCalculator)
    ]


def model_of_session(session: NodePlan) -> tuple[str, int | None]:
    """The name and the version of the model that the node of a session names."""
    options = session.options[0][1]
    # The contract has seen that it is a number.
    version = int("".join(options.servable_version.split()) or 0)
    return options.servable_name, version or None


def _types(
    tags: list[str],
    streams: tuple[str, ...],
    tensors: list[StreamTensors],
    specs: Sequence[TensorSpec],
) -> Iterator[tuple[str, TensorType]]:
    """(stream, type) of each stream that carries one tensor."""
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
