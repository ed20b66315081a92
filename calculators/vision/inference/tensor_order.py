"""The order of a model's tensors in the streams of an inference node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from calculators.vision.inference.compiled_model import CompiledModel
from graph_runtime import Code, GraphError

Array = npt.NDArray[Any]


@dataclass
class TensorOrder:
    """Places of the model's tensors, and the outputs that are inputs of the next run.

    Attributes:
        inputs, outputs: by place in the stream, the place in the model.
        feedback: from the place of an output to the place of an input.
    """

    inputs: list[int]
    outputs: list[int]
    feedback: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Any, model: CompiledModel) -> TensorOrder:
        """Read ``input_output_config`` of mediapipe.InferenceCalculatorOptions.

        Raises:
            GraphError: a tensor is named that the model does not have (INVALID_ARGUMENT).
        """
        config = getattr(options, "input_output_config", None)
        if config is None or not options.HasField("input_output_config"):
            return cls(list(range(len(model.input_names))), list(range(len(model.output_names))))
        links = {
            _place(link.from_output_tensor_name, model.output_names): _place(
                link.to_input_tensor_name, model.input_names
            )
            for link in config.feedback_tensor_links
        }
        inputs = _places(config, "input", model.input_names, links.values())
        outputs = _places(config, "output", model.output_names, links)
        return cls(inputs, outputs, links)

    def model_inputs(self, tensors: Sequence[Array], fed_back: Mapping[int, Array]) -> list[Array]:
        """Return the tensors in the model's order.

        Raises:
            GraphError: their number is wrong (INVALID_ARGUMENT).
        """
        if len(tensors) != len(self.inputs):
            raise GraphError(
                f"the model takes {len(self.inputs)} tensors; {len(tensors)} came",
                code=Code.INVALID_ARGUMENT,
            )
        by_place = dict(zip(self.inputs, tensors, strict=True)) | dict(fed_back)
        return [by_place[place] for place in sorted(by_place)]


def _places(config: Any, side: str, names: Sequence[str], linked: Any) -> list[int]:
    chosen = config.WhichOneof(f"{side.title()}TensorMap")
    if chosen is None:
        return [place for place in range(len(names)) if place not in linked]
    mapping = getattr(config, chosen)
    if chosen.endswith("names_map"):
        return [_place(name, names) for name in mapping.tensor_names]
    places = list(mapping.model_tensor_indices)
    for place in places:
        if not 0 <= place < len(names):
            raise GraphError(
                f"{chosen}: the model has {len(names)} {side} tensors, so there is no {place}",
                code=Code.INVALID_ARGUMENT,
            )
    return places


def _place(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise GraphError(
            f'input_output_config: the model has no tensor "{name}"; it has {", ".join(names)}',
            code=Code.INVALID_ARGUMENT,
        )
    return names.index(name)
