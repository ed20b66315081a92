"""`OpenVINOInferenceCalculator`: tensors through a model.

The tag of a stream says whether its packets are tensors or lists of tensors (`declare_tensors`).
Which tensors of the model a stream carries is said by the options, by its tag, or by there being
one (`StreamTensors`). This is known only when the model is: when the node opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from calculators.tensors.openvino.model import Model, TensorError, TensorSpec
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphConfigError,
    GraphError,
    Options,
)
from graph_runtime.authoring.contract import PacketTypeSet
from graph_runtime.errors import did_you_mean
from protos import messages

OPTIONS = messages.OpenVINOInferenceCalculatorOptions

#: Tags with these prefixes hold a list of tensors, or one tensor. Any other tag holds one, too.
_LISTS: Final = ("OVTENSORS", "TENSORS", "TFTENSORS", "TFLITE_TENSORS")
_SINGLES: Final = ("OVTENSOR", "TENSOR", "TFTENSOR", "TFLITE_TENSOR")

_TENSOR: Final[Any] = np.ndarray
_TENSORS: Final[Any] = GenericAlias(list, (np.ndarray,))


def holds_list(tag: str) -> bool:
    """Return True if packets under this tag are lists of tensors."""
    return tag.startswith(_LISTS)


def declare_tensors(contract: CalculatorContract, direction: str) -> None:
    """Declare the streams of one side, and check the options about it.

    ``direction`` is "input" or "output".

    Raises:
        GraphConfigError: OpenVINO Model Server refuses the options, or they cannot be intended.
    """
    streams: PacketTypeSet = getattr(contract, f"{direction}s")
    options = contract.options(OPTIONS)
    names_field, order_field = f"tag_to_{direction}_tensor_names", f"{direction}_order_list"
    names, order = dict(getattr(options, names_field)), list(getattr(options, order_field))
    contract.require(len(streams) > 0, f"it needs an {direction} stream for tensors")
    for tag, index in streams:
        contract.require(
            index == 0,
            f'two {direction} streams have the tag "{tag}"; each needs its own, such as OVTENSOR1',
        )
        streams[tag, index].set(_TENSORS if holds_list(tag) else _TENSOR)
    tags = streams.tags()
    contract.require(
        not (names and order), f"{names_field} and {order_field} exclude each other; use one"
    )
    contract.require(
        not order or any(map(holds_list, tags)),
        f"{order_field} is for streams that hold lists, with a tag such as OVTENSORS; "
        f"the {direction} streams have the tags {_shown(tags)}",
    )
    twice = next((name for name in order if order.count(name) > 1), None)
    contract.require(twice is None, f'{order_field}: "{twice}" is there twice')
    for key in names:
        if key not in tags and not _has_kind_of(key, tags):
            raise GraphConfigError(
                f'{names_field}: no {direction} stream has the tag "{key}"; there are '
                f"{_shown(tags)}.{did_you_mean(key, tags)}"
            )


def _has_kind_of(key: str, tags: list[str]) -> bool:
    """True if a stream has a tag of the key's kind: OpenVINO Model Server ignores such a key."""
    kind = _kind(key)
    return bool(kind) and kind in map(_kind, tags)


def _kind(tag: str) -> str:
    return next((kind for kind in (*_LISTS, *_SINGLES) if tag.startswith(kind)), "")


def _shown(tags: list[str]) -> str:
    return ", ".join(tag or "(none)" for tag in tags)


class StreamTensors(NamedTuple):
    """One stream: its tag, its tensors' names in the model, and whether packets are lists."""

    tag: str
    names: tuple[str, ...]
    is_list: bool


def tensors_of_inputs(
    tags: Sequence[str], names: Mapping[str, str], order: Sequence[str], model: Model
) -> list[StreamTensors]:
    """Bind the input streams: by map, by order list, by tag, or the only one to the only one.

    Raises:
        GraphError: the model has no such tensor, or an input is fed by no stream or by two.
    """
    binding = _Binding(tags, names, order, "input", model.inputs, model.name)
    streams = [binding.stream(tag) for tag in tags]
    fed = [name for stream in streams for name in stream.names]
    for spec in model.inputs:
        if fed.count(spec.name) != 1:
            what = "two streams feed" if spec.name in fed else "no stream feeds"
            raise binding.error(
                f'{what} its input "{spec.name}"; tag_to_input_tensor_names says which does'
            )
    return streams


def tensors_of_outputs(
    tags: Sequence[str], names: Mapping[str, str], order: Sequence[str], model: Model
) -> list[StreamTensors]:
    """Bind the output streams, like `tensors_of_inputs`; a list without an order has all outputs.

    Raises:
        GraphError: the model has no such tensor.
    """
    binding = _Binding(tags, names, order, "output", model.outputs, model.name)
    return [binding.stream(tag) for tag in tags]


class _Binding:
    def __init__(
        self,
        tags: Sequence[str],
        names: Mapping[str, str],
        order: Sequence[str],
        direction: str,
        specs: Sequence[TensorSpec],
        model_name: str,
    ) -> None:
        self._tags = tags
        self._names = names
        self._order = order
        self._direction = direction
        self._specs = specs
        self._model_name = model_name

    def stream(self, tag: str) -> StreamTensors:
        is_list = holds_list(tag)
        if tag in self._names:
            found = [self._known(self._names[tag], f"tag_to_{self._direction}_tensor_names")]
        elif is_list and self._order:
            found = [self._known(name, f"{self._direction}_order_list") for name in self._order]
        elif is_list and self._direction == "output":
            found = [spec.name for spec in self._specs]
        elif (name := self._find(tag)) is not None:
            found = [name]
        elif len(self._tags) == 1 and len(self._specs) == 1:
            found = [self._specs[0].name]
        else:
            option = (
                f"{self._direction}_order_list"
                if is_list
                else f"tag_to_{self._direction}_tensor_names"
            )
            raise self.error(
                f"which of its {self._direction}s the {self._direction} stream with the tag "
                f'"{tag}" carries is not said; it has {self._all_names()}: say it in {option}'
            )
        return StreamTensors(tag, tuple(found), is_list)

    def error(self, text: str) -> GraphError:
        return GraphError(f'the model "{self._model_name}": {text}', code=Code.INVALID_ARGUMENT)

    def _find(self, name: str) -> str | None:
        return next((spec.name for spec in self._specs if name in spec.names), None)

    def _known(self, name: str, field: str) -> str:
        found = self._find(name)
        if found is None:
            known = [spec.name for spec in self._specs]
            raise self.error(
                f'it has no {self._direction} "{name}", which {field} names; '
                f"it has {self._all_names()}.{did_you_mean(name, known)}"
            )
        return found

    def _all_names(self) -> str:
        return ", ".join(f'"{spec.name}"' for spec in self._specs)


class OpenVINOInferenceCalculator(Calculator):
    """Runs a model on the tensors of each timestamp, while the event loop goes on.

    Inferences of several graphs, or of a node with ``max_in_flight``, overlap as far as the model
    has infer requests. All inputs need a packet at each timestamp.

    Inputs and outputs, any number of each, distinguished by their tags:
        tags that begin with OVTENSORS, TENSORS, TFTENSORS or TFLITE_TENSORS (list of
            numpy.ndarray): tensors in the order of the order list.
        any other tag, or none (numpy.ndarray): one tensor.
    An array has the model's element type and a shape that the model allows; nothing is converted.
    Input side packets: SESSION: from OpenVINOModelServerSessionCalculator.
    Options (mediapipe.OpenVINOInferenceCalculatorOptions):
        tag_to_input_tensor_names, tag_to_output_tensor_names: the model's tensor of each tag. A
            tag without an entry is itself the name. The only stream carries the only tensor.
        input_order_list, output_order_list: the model's tensors in the order of the lists. Without
            one, an output list has all outputs in the model's order.

    ::

        node {
          calculator: "OpenVINOInferenceCalculator"
          input_side_packet: "SESSION:session"
          input_stream: "OVTENSOR1:left"
          input_stream: "OVTENSOR2:right"
          output_stream: "OVTENSOR:sum"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {
              tag_to_input_tensor_names { key: "OVTENSOR1" value: "a" }
              tag_to_input_tensor_names { key: "OVTENSOR2" value: "b" }
              tag_to_output_tensor_names { key: "OVTENSOR" value: "sum" }
            }
          }
        }

    Source: OpenVINO Model Server ``mediapipe_calculators/ovms/openvinoinferencecalculator.cc``.
    """

    options = Options(OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.input_side_packets["SESSION"].set(Model)
        declare_tensors(contract, "input")
        declare_tensors(contract, "output")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._model: Model = cc.input_side_packets["SESSION"].value
        self._inputs = tensors_of_inputs(
            cc.inputs.tags(),
            options.tag_to_input_tensor_names,
            options.input_order_list,
            self._model,
        )
        self._outputs = tensors_of_outputs(
            cc.outputs.tags(),
            options.tag_to_output_tensor_names,
            options.output_order_list,
            self._model,
        )
        for shard, output in zip(cc.input_list, cc.output_list, strict=False):
            if not shard.header.is_empty():
                output.set_header(shard.header)

    async def process(self, cc: CalculatorContext) -> None:
        time = cc.time
        tensors: dict[str, npt.NDArray[Any]] = {}
        for stream in self._inputs:
            tensors |= _tensors_at(cc, stream)
        found = await self._model.infer(tensors)
        for stream in self._outputs:
            arrays = [found[name] for name in stream.names]
            cc.outputs[stream.tag, 0].add(arrays if stream.is_list else arrays[0], time)


def _tensors_at(cc: CalculatorContext, stream: StreamTensors) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors of one input, by the model's names."""
    shard = cc.inputs[stream.tag, 0]
    if shard.is_empty():
        raise TensorError(
            f'input stream "{shard.name}" has no packet at this timestamp; inference needs one '
            f"from every input"
        )
    arrays = shard.value if stream.is_list else [shard.value]
    if len(arrays) != len(stream.names):
        raise TensorError(
            f'input stream "{shard.name}" has a list of {len(arrays)} tensors; '
            f"{len(stream.names)} are expected: {', '.join(stream.names)}"
        )
    for name, array in zip(stream.names, arrays, strict=True):
        if not hasattr(array, "dtype"):
            raise TensorError(
                f'input stream "{shard.name}": tensor "{name}" is a {type(array).__name__}, a '
                f"NumPy array is expected"
            )
    return dict(zip(stream.names, arrays, strict=True))
