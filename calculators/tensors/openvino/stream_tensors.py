"""`StreamTensors`: the model's tensors that each stream of an inference node carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.tensor_spec import TensorSpec
from calculators.tensors.openvino.tensor_tags import holds_list
from graph_runtime import Code, GraphError
from graph_runtime.errors import did_you_mean


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
