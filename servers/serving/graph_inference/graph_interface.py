"""`GraphInterface`: a graph as clients of KServe see it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from calculators.images.image.decoding_turns import frame_in_turn, pixels_in
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import (
    Datatype,
    InferRequest,
    InferResponse,
    Parameters,
    Tensor,
    quoted,
)
from calculators.tensors.openvino.demultiplexing import (
    DemultiplyTensorsCalculator,
    GatherTensorsCalculator,
)
from calculators.tensors.openvino.directory_models import ModelProvider
from calculators.tensors.openvino.model import TensorSpec
from calculators.tensors.openvino.openvino_inference_calculator import (
    OpenVINOInferenceCalculator,
    StreamTensors,
    tensors_of_inputs,
    tensors_of_outputs,
)
from calculators.tensors.openvino.openvino_model_server_session_calculator import (
    OpenVINOModelServerSessionCalculator,
)
from graph_runtime import Code, GraphConfigError, GraphError, NodePlan, ValidatedGraph
from graph_runtime.errors import NotFoundError, did_you_mean
from servers.contract.data_plane import ModelMetadata
from servers.serving.graph_inference.stream_kinds import (
    InputStreamKind,
    OutputStreamKind,
    TensorType,
    input_stream,
    output_stream,
    takes_images,
)
from servers.serving.models.request_tensors import datatype_of
from servers.serving.servable import VERSION
from servers.serving.served_streams import type_of_output

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """Types by stream: of those that inference nodes read, and of those that they write."""

    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    outputs: Mapping[str, TensorType] = field(default_factory=dict)


async def find_model_tensors(
    plan: ValidatedGraph, models: ModelProvider, *, needs_models: bool = False
) -> ModelTensors:
    """Return the types that the models of inference nodes declare, also through nodes that take
    tensors apart or gather them.

    A model that cannot be loaded now is left out with a warning; requests fail with the reason.

    Args:
        needs_models: raise the error of such a model instead.

    Raises:
        GraphError: there is no such version of a model, or what goes to a model never fits it
            (FAILED_PRECONDITION).
    """
    wanted: dict[str, TensorType] = {}
    made: dict[str, TensorType] = {}
    for node in plan.nodes:
        if not issubclass(node.calculator_class, OpenVINOInferenceCalculator):
            continue
        session = _session_of(plan, node)
        if session is None:
            continue
        name, version = model_of_session(session)
        try:
            model = await models.get(name, version)
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
            has_no_version = isinstance(error, NotFoundError) and version is not None
            if needs_models or has_no_version:
                text = f"node {quoted(node.name)}: {error}"
                raise GraphError(text, code=Code.FAILED_PRECONDITION) from error
            _log.warning("the tensors of node %s stay unknown: %s", node.name, error)
            continue
        for stream, kind in _types(node.inputs.tags(), node.inputs.names, read, model.inputs):
            wanted[stream] = _fitting(
                stream, wanted.get(stream), kind, f"models that read it take {kind}"
            )
        made.update(_types(node.outputs.tags(), node.outputs.names, written, model.outputs))
    for node in reversed(plan.nodes):
        for whole, part, count in _slicing(plan, node):
            if whole in wanted and issubclass(node.calculator_class, GatherTensorsCalculator):
                wanted[part] = wanted[whole].part()
            elif part in wanted:
                wanted[whole] = wanted[part].times(count)
    for node in plan.nodes:
        for whole, part, count in _slicing(plan, node):
            if part in made and issubclass(node.calculator_class, GatherTensorsCalculator):
                made[whole] = made[part].times(count)
            elif whole in made:
                parts = made[whole].part()
                _fitting(whole, made[whole], parts.times(count), f"{count} slices are made of them")
                made[part] = parts
    for stream, kind in wanted.items():
        _fitting(stream, made.get(stream), kind, f"models that read it take {kind}")
    return ModelTensors(wanted, made)


def _slicing(plan: ValidatedGraph, node: NodePlan) -> Iterator[tuple[str, str, int]]:
    """Yield (stream of whole tensors, stream of slices, count) of a node that takes tensors apart
    or gathers them; the count is -1 for any."""
    taken, sent = node.inputs.names, node.outputs.names
    if issubclass(node.calculator_class, GatherTensorsCalculator):
        ends = taken[node.inputs.keys.index(("BATCH_END", 0))]
        count = next((_count_of(each) for each in plan.nodes if ends in each.outputs.names), -1)
        streams = zip(sent, (each for each in taken if each != ends), strict=True)
    elif issubclass(node.calculator_class, DemultiplyTensorsCalculator):
        ends = sent[node.outputs.keys.index(("BATCH_END", 0))]
        count = _count_of(node)
        streams = zip(taken, (each for each in sent if each != ends), strict=True)
    else:
        return
    for whole, part in streams:
        yield whole, part, count


def _count_of(node: NodePlan) -> int:
    """Return the number of slices that a node makes of each tensor; -1 if it is not known."""
    is_known = issubclass(node.calculator_class, DemultiplyTensorsCalculator)
    count: int = node.options[0][1].demultiply_count if is_known else -1
    return count


def _fitting(stream: str, kind: TensorType | None, other: TensorType, what: str) -> TensorType:
    """Return what tensors of both types are.

    Raises:
        GraphError: there is no such tensor.
    """
    if kind is None:
        return other
    found = kind.common(other)
    if found is None:
        raise GraphError(
            f'tensors of the stream "{stream}" are {kind}, and {what}: they never fit',
            code=Code.FAILED_PRECONDITION,
        )
    return found


def _session_of(plan: ValidatedGraph, node: NodePlan) -> NodePlan | None:
    """Return the node that makes the node's session; None if it is a side packet of the graph."""
    made_by = plan.side_producers.get(node.side_input_plans[0].name)
    session = None if made_by is None else plan.nodes[made_by[0]]
    if session is None or not issubclass(
        session.calculator_class, OpenVINOModelServerSessionCalculator
    ):
        return None
    return session


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


class GraphInterface:
    """The inputs and outputs of a graph as tensors. Made once, when the graph is loaded.

    Attributes:
        metadata: the metadata for clients.
        takes_http: an input takes HTTP requests, so that tensors cannot run the graph.
        outputs: the outputs in the order of the graph's text.

    Raises:
        GraphConfigError: a stream of whole requests or responses is not alone.
    """

    def __init__(
        self,
        name: str,
        plan: ValidatedGraph,
        models: ModelTensors,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """``names``: the clients' names of inputs and outputs, by stream, if they are others."""
        self._name = name
        names = names or {}
        inputs = [
            input_stream(
                each.name,
                names.get(each.name, each.name),
                each.tag,
                each.packet_type,
                models.inputs.get(each.name),
            )
            for each in plan.graph_inputs
        ]
        inputs.sort(key=_order(plan.config.input_stream))
        outputs = [
            output_stream(
                stream,
                names.get(stream, stream),
                tag,
                type_of_output(plan, stream),
                models.outputs.get(stream),
            )
            for (tag, _), stream in zip(plan.outputs.keys, plan.outputs.names, strict=True)
        ]
        outputs.sort(key=_order(plan.config.output_stream))
        self.outputs: tuple[OutputStreamKind, ...] = tuple(outputs)
        self._inputs = {each.name: each for each in inputs}
        self._images = {each.name for each in inputs if takes_images(each.value_of)}
        self._output_names = {each.name: each for each in self.outputs}
        self.takes_http = any(each.is_http for each in inputs)
        self._request_name = next((each.name for each in inputs if each.is_request), "")
        is_response = any(each.is_response for each in self.outputs)
        if self._request_name or is_response:
            _check_alone(len(inputs), len(self.outputs), bool(self._request_name) and is_response)
        self.metadata = ModelMetadata(
            name,
            (VERSION,),
            "graphrt",
            tuple(each.metadata for each in inputs),
            tuple(each.metadata for each in self.outputs),
        )

    async def packets_of(self, request: InferRequest, *, is_partial: bool) -> list[tuple[str, Any]]:
        """Return (input, value) of each packet for a request.

        Args:
            is_partial: inputs may be missing.

        Raises:
            RequestError: an input is missing or unknown, or its tensor does not fit.
        """
        decoded: dict[str, Any] = {}
        for tensor in request.inputs if self._images else ():
            if (
                tensor.name in self._images
                and isinstance(tensor, Tensor)
                and tensor.datatype is Datatype.BYTES
                and tensor.data.size == 1
            ):
                decode = partial(self._inputs[tensor.name].value_of, tensor)
                pixels = pixels_in(tensor.data.item())
                decoded[tensor.name] = await frame_in_turn(decode, pixels)
        return self._packets_of(request, is_partial, decoded)

    def _packets_of(
        self, request: InferRequest, is_partial: bool, decoded: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        if self._request_name:
            return [(self._request_name, request)]
        inputs = self._inputs
        packets = []
        for tensor in request.inputs:
            kind = inputs.get(tensor.name)
            if kind is None:
                raise self._unknown("input", tensor.name, inputs)
            value = decoded.get(tensor.name)
            packets.append((kind.stream, kind.value_of(tensor) if value is None else value))
        if not is_partial and len(packets) != len(inputs):
            given = {tensor.name for tensor in request.inputs}
            missing = [quoted(name) for name in inputs if name not in given]
            raise RequestError(
                f"the model {quoted(self._name)} needs the input{'s' * (len(missing) > 1)} "
                f"{', '.join(missing)}, which the request does not have; it needs all of "
                f"{', '.join(map(quoted, inputs))}",
                param="inputs",
            )
        return packets

    def wanted_outputs(self, request: InferRequest) -> tuple[OutputStreamKind, ...]:
        """Return the outputs that the request names, in its order; all outputs if it names none.

        Raises:
            RequestError: there is no such output.
        """
        if not request.requested_outputs or self._request_name:
            return self.outputs
        outputs = self._output_names
        wanted = []
        for output in request.requested_outputs:
            found = outputs.get(output.name)
            if found is None:
                raise self._unknown("output", output.name, outputs)
            wanted.append(found)
        return tuple(wanted)

    def response(
        self,
        request_id: str,
        outputs: Iterable[tuple[OutputStreamKind, Any]],
        parameters: Parameters,
    ) -> InferResponse:
        """Return an answer with the values of some outputs.

        Raises:
            RequestError: a value cannot become a tensor (INTERNAL).
        """
        tensors = []
        for output, value in outputs:
            if isinstance(value, InferResponse):
                return replace(
                    value,
                    model=value.model or self._name,
                    version=value.version or VERSION,
                    id=value.id or request_id,
                    parameters={**value.parameters, **parameters},
                )
            if output.is_response:
                raise RequestError(
                    f"output {quoted(output.name)}: the graph gave a {type(value).__name__}, and "
                    f"should have given an InferResponse",
                    code=Code.INTERNAL,
                )
            tensors.append(output.tensor_of(value))
        return InferResponse(self._name, VERSION, request_id, parameters, tuple(tensors))

    def _unknown(self, kind: str, name: str, known: Mapping[str, object]) -> RequestError:
        near = did_you_mean(name, known)
        return RequestError(
            f"the model {quoted(self._name)} has no {kind} {quoted(name)}; it has "
            f"{', '.join(map(quoted, known)) or 'none'}.{near}",
            param=f"{kind}s",
        )


def _order(entries: Iterable[str]) -> Callable[[InputStreamKind | OutputStreamKind], int]:
    """Return a sort key for the order of the graph's text; the plan sorts streams by tag."""
    places = {entry.rpartition(":")[2]: place for place, entry in enumerate(entries)}
    return lambda kind: places[kind.stream]


def _check_alone(inputs: int, outputs: int, has_both: bool) -> None:
    if not has_both or inputs != 1 or outputs != 1:
        raise GraphConfigError(
            "an input stream with the tag REQUEST carries whole requests, and needs one output "
            "stream with the tag RESPONSE, for whole answers; no other stream of the graph goes "
            "with them"
        )
