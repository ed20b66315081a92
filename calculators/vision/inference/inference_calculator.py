"""InferenceCalculator and its kin: tensors through a TFLite model, on OpenVINO."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import TENSORS
from calculators.kit.child_process.library_errors import library_reason
from calculators.vision.inference.compiled_model import (
    CompiledModel,
    TfLiteModel,
    beside_the_loop,
    compiled_model,
    known_model,
)
from calculators.vision.inference.model_calculators import (
    OpResolver,
    must_wait,
    read_graph_file,
    tflite_model,
    use_graph_files,
)
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages


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


Array = npt.NDArray[Any]

_LOG = logging.getLogger(__name__)
_OPTIONS = messages.InferenceCalculatorOptions
_TFLITE_OPTIONS = messages.TfLiteInferenceCalculatorOptions
_OUTPUT_TAG = re.compile(r"OUTPUT_(\d+)")


class InferenceCalculatorCpu(Calculator):
    """Runs a TFLite model on OpenVINO, in float32, by default with one thread.

    On an event loop other nodes go on meanwhile. Nodes with the same model share its compiled form.

    Inputs:
        TENSORS (list of numpy.ndarray), or TENSOR:i (numpy.ndarray): one per input of the model.
            Another shape than the model's resizes the model.
    Outputs: TENSORS, or TENSOR:i: all outputs, in the model's order.
    Input side packets:
        MODEL (`TfLiteModel`, optional): or the option model_path, exactly one.
        OP_RESOLVER, CUSTOM_OP_RESOLVER (`OpResolver`, optional): without effect.
        DELEGATE (optional): without effect.
        OUTPUT_i (bool, optional), graphrt's own: False if nobody needs the model's output i. It is
            not computed then, and an empty array stands for it.
    Options (mediapipe.InferenceCalculatorOptions):
        model_path: a file beside the graph, or of MediaPipe's own (``mediapipe/...``).
        delegate: ``xnnpack { num_threads }``; a GPU is not used.
        cpu_num_thread: likewise.
        input_output_config: the model's tensors by place or name, outputs that are fed back.

    ::

        node {
          calculator: "InferenceCalculatorCpu"
          input_stream: "TENSORS:image_tensors"
          output_stream: "TENSORS:face_tensors"
          options {
            [mediapipe.InferenceCalculatorOptions.ext] {
              model_path: "mediapipe/modules/face_landmark/face_landmark.tflite"
              delegate { xnnpack {} }
            }
          }
        }

    Source: MediaPipe ``calculators/tensor/inference_calculator_cpu.cc``.
    """

    options: ClassVar[Options[Any]] = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for kind, ports in (("input", contract.inputs), ("output", contract.outputs)):
            contract.require(
                ports.has_tag("TENSORS") is not ports.has_tag("TENSOR"),
                f"exactly one of the {kind} streams TENSORS and TENSOR is needed",
            )
            ports["TENSORS"].set(TENSORS).optional()
            for index in range(max(ports.num_entries("TENSOR"), 1)):
                ports["TENSOR", index].set(np.ndarray).optional()
        sides = contract.input_side_packets
        sides["MODEL"].set(TfLiteModel).optional()
        sides["OP_RESOLVER"].set(OpResolver).optional()
        sides["CUSTOM_OP_RESOLVER"].set(OpResolver).optional()
        sides["DELEGATE"].set_any().optional()
        for tag in filter(_OUTPUT_TAG.fullmatch, sides.tags()):
            sides[tag].set(bool).optional()
        options = contract.options(cls.options.options_type)
        contract.require(
            bool(options.model_path) is not sides.has_tag("MODEL"),
            "the model comes either from the option model_path or from the side packet MODEL",
        )
        use_graph_files(contract)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        options = self.options
        if options.delegate.WhichOneof("delegate") in ("gpu", "nnapi"):
            _LOG.warning("inference runs on the CPU; the delegate in the options is not there")
        threads, left_out = _threads(options), _left_out(cc)

        def compiled() -> CompiledModel:
            return compiled_model(self._given_model(cc), threads, left_out)

        if asyncio._get_running_loop() is None:
            self._use(compiled())
            return None
        is_new = not cc.input_side_packets.has_tag("MODEL") and must_wait(cc, options.model_path)
        known = None if is_new else known_model(self._given_model(cc), threads, left_out)
        if known is None:
            return self._open_beside(compiled)
        self._use(known)
        return None

    def _given_model(self, cc: CalculatorContext) -> TfLiteModel:
        if cc.input_side_packets.has_tag("MODEL"):
            model: TfLiteModel = cc.input_side_packets["MODEL"].value
            return model
        return tflite_model(read_graph_file(cc, self.options.model_path))

    async def _open_beside(self, compiled: Callable[[], CompiledModel]) -> None:
        self._use(await beside_the_loop(compiled))

    def _use(self, model: CompiledModel) -> None:
        options = self.options
        self._model = model
        self._order = TensorOrder.of(options, self._model)
        self._fed_back: dict[int, Array] = {
            place: np.zeros(self._model.input_shapes[place], self._model.input_dtypes[place])
            for place in self._order.feedback.values()
        }

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        tensors = self._tensors(cc)
        if not tensors:
            return None
        inputs = self._order.model_inputs(tensors, self._fed_back)
        shapes = self._checked_shapes(inputs)
        # In a graph of an event loop others run meanwhile; elsewhere the thread computes itself.
        if asyncio._get_running_loop() is not None:
            return self._infer(cc, shapes, inputs)
        try:
            self._send(cc, self._model.for_shapes(shapes).infer(inputs))
        except RuntimeError as error:
            raise _failure(error) from error
        return None

    async def _infer(
        self, cc: CalculatorContext, shapes: Sequence[tuple[int, ...]], inputs: list[Array]
    ) -> None:
        model = self._model.known_for(shapes)
        if model is None:
            model = await beside_the_loop(partial(self._model.for_shapes, shapes))
        try:
            outputs = await model.infer_async(inputs)
        except RuntimeError as error:
            raise _failure(error) from error
        self._send(cc, outputs)

    def _send(self, cc: CalculatorContext, outputs: list[Array]) -> None:
        for place, target in self._order.feedback.items():
            self._fed_back[target] = outputs[place]
        found = [outputs[place] for place in self._order.outputs]
        if cc.outputs.has_tag("TENSORS"):
            cc.outputs["TENSORS"].add(found, cc.time)
            return
        for array, output in zip(found, cc.outputs.all_of("TENSOR"), strict=False):
            output.add(array, cc.time)

    def _tensors(self, cc: CalculatorContext) -> list[Array]:
        """Return the arrays of this timestamp; empty if an input has none."""
        if cc.inputs.has_tag("TENSORS"):
            shard = cc.inputs["TENSORS"]
            return [] if shard.is_empty() else shard.value
        shards = cc.inputs.all_of("TENSOR")
        if any(shard.is_empty() for shard in shards):
            return []
        return [shard.value for shard in shards]

    def _checked_shapes(self, inputs: list[Array]) -> list[tuple[int, ...]]:
        """Check the types of tensors and make them contiguous; return their shapes."""
        model = self._model
        for place, array in enumerate(inputs):
            if array.dtype != model.input_dtypes[place]:
                raise GraphError(
                    f'the model\'s tensor "{model.input_names[place]}" is of '
                    f"{np.dtype(model.input_dtypes[place])}, and {array.dtype} came",
                    code=Code.INVALID_ARGUMENT,
                )
            if not array.flags.c_contiguous:
                inputs[place] = np.ascontiguousarray(array)
        return [array.shape for array in inputs]


class InferenceCalculator(InferenceCalculatorCpu):
    __doc__ = InferenceCalculatorCpu.__doc__


class InferenceCalculatorXnnpack(InferenceCalculatorCpu):
    __doc__ = InferenceCalculatorCpu.__doc__


class TfLiteInferenceCalculator(InferenceCalculatorCpu):
    """Runs a TFLite model, by the code of `InferenceCalculatorCpu`, under the name of old graphs.

    Inputs: TENSORS (list of numpy.ndarray): one per input of the model.
    Outputs: TENSORS: all outputs, in the model's order.
    Input side packets: MODEL (`TfLiteModel`), CUSTOM_OP_RESOLVER (`OpResolver`), optional.
    Options (mediapipe.TfLiteInferenceCalculatorOptions):
        model_path: a file beside the graph, or of MediaPipe's own (``mediapipe/...``).
        delegate, cpu_num_thread: the number of threads.

    ::

        node {
          calculator: "TfLiteInferenceCalculator"
          input_stream: "TENSORS:image_tensors"
          output_stream: "TENSORS:iris_tensors"
          options {
            [mediapipe.TfLiteInferenceCalculatorOptions.ext] {
              model_path: "mediapipe/modules/iris_landmark/iris_landmark.tflite"
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_inference_calculator.cc``.
    """

    options = Options(_TFLITE_OPTIONS)


def _left_out(cc: CalculatorContext) -> frozenset[int]:
    """Return the places of outputs that no node needs."""
    sides = cc.input_side_packets
    tags = map(_OUTPUT_TAG.fullmatch, sides.tags())
    return frozenset(int(tag[1]) for tag in tags if tag is not None and not sides[tag[0]].value)


def _threads(options: Any) -> int:
    if options.delegate.WhichOneof("delegate") == "xnnpack":
        wanted = options.delegate.xnnpack.num_threads
    else:
        wanted = options.cpu_num_thread
    # MediaPipe's own default on computers.
    return int(wanted) if wanted > 0 else 1


def _failure(error: RuntimeError) -> GraphError:
    return GraphError(f"the inference failed: {library_reason(error)}", code=Code.INTERNAL)


INFERENCE_CALCULATORS: tuple[type[Calculator], ...] = (
    InferenceCalculator,
    InferenceCalculatorCpu,
    InferenceCalculatorXnnpack,
    TfLiteInferenceCalculator,
)
