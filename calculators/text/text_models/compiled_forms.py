"""`CompiledForms`: a model compiled twice, for a lone sequence and for load."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from calculators.kit.child_process.messages import LoadingPhase
from calculators.kit.machine import usable_processors
from calculators.text.text_models.messages import EncoderLoad
from calculators.text.text_models.text_tokenizer import Ids, TextTokens

#: Completes a model with a task's pooling or head: its only output is ``[batch, columns]``.
BuildHead = Callable[[ov.Model, EncoderLoad], ov.Model]
Floats = NDArray[np.float32]

_STREAMS: Final = "NUM_STREAMS"
#: Properties with which the operator chooses the number of streams.
_CHOICES: Final = frozenset({_STREAMS, "PERFORMANCE_HINT", "PERFORMANCE_HINT_NUM_REQUESTS"})
#: Bytes of weights up to which a model is compiled twice: each form has a copy of them.
_COMPILED_TWICE: Final = 1 << 30
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "beam_idx")


class CompiledForms:
    """A model of a directory, compiled.

    Under load there is a stream for each processor: on two cores 794 short texts a second instead
    of 473 with one stream of two threads. A lone text of 128 tokens takes 13 ms with all
    processors, and 23 ms with one (MiniLM-L6 with int8 weights, openvino 2026.4.1).

    Attributes:
        streams: batches that are computed at the same time.
        columns: numbers for each sequence; 0 if unknown before a run.
    """

    def __init__(
        self, load: EncoderLoad, build_head: BuildHead, report: Callable[[LoadingPhase], None]
    ) -> None:
        """Read, complete and compile the model; ``report`` gets the phases.

        Raises:
            RuntimeError: the library's, or the model is none of the task.
        """
        report(LoadingPhase("reading the model", 0.3, 0.4))
        core = ov.Core()
        file = Path(load.model_path) / "openvino_model.xml"
        model = build_head(core.read_model(file), load)
        self._inputs = [_input_name(port) for port in model.inputs]
        self._types = [port.get_element_type().to_dtype() for port in model.inputs]
        self._is_stateful = bool(model.get_sinks())
        shape = model.outputs[0].get_partial_shape()
        self.columns: int = shape[1].get_length() if shape[1].is_static else 0
        report(LoadingPhase("compiling the model", 0.4, 1.0))
        properties = dict(load.properties)
        # OVMS writes `NUM_STREAMS: 1` into its graphs: what the operator chose is kept (decision
        # 0052).
        chosen = _CHOICES & properties.keys()
        if load.device == "CPU" and not chosen:
            properties[_STREAMS] = str(usable_processors())
        self._many = core.compile_model(model, load.device, properties)
        self.streams = int(self._many.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._alone = None
        weights = file.with_suffix(".bin").stat().st_size
        if load.device == "CPU" and not chosen and self.streams > 1 and weights <= _COMPILED_TWICE:
            properties[_STREAMS] = "1"
            # A second form with all processors for a sequence that is alone; it holds the weights
            # again, hence the bound (decision 0052).
            self._alone = core.compile_model(model, load.device, properties)

    def runner(self) -> Runner:
        """Return what one stream computes with; for one thread."""
        alone = None if self._alone is None else self._alone.create_infer_request()
        return Runner(
            self._many.create_infer_request(), alone, self._inputs, self._types, self._is_stateful
        )


class Runner:
    """The inference requests of one thread."""

    def __init__(
        self, many: Any, alone: Any, inputs: list[str], types: list[Any], is_stateful: bool
    ) -> None:
        self._many = many
        self._alone = alone
        self._inputs = inputs
        self._types = types
        self._is_stateful = is_stateful

    def compute(self, batch: Sequence[TextTokens], pad: int, *, is_lone: bool) -> Floats:
        """Return a row for each sequence; ``is_lone``: nothing else is computed or waits.

        Raises:
            RuntimeError: the library's.
        """
        request = self._alone if is_lone and self._alone is not None else self._many
        longest = max(len(tokens.ids) for tokens in batch)
        ids = np.full((len(batch), longest), pad, np.int64)
        mask = np.zeros((len(batch), longest), np.int64)
        segments: Ids | None = None
        for row, tokens in enumerate(batch):
            count = len(tokens.ids)
            ids[row, :count] = tokens.ids
            mask[row, :count] = 1
            if tokens.types is not None:
                segments = np.zeros_like(ids) if segments is None else segments
                segments[row, :count] = tokens.types
        feed: list[NDArray[Any]] = []
        for name, kind in zip(self._inputs, self._types, strict=True):
            value: NDArray[Any]
            match name:
                case "input_ids":
                    value = ids
                case "attention_mask":
                    value = mask
                case "token_type_ids":
                    value = np.zeros_like(ids) if segments is None else segments
                case "position_ids":
                    value = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
                case _:
                    value = np.arange(len(batch))
            feed.append(np.ascontiguousarray(value, kind))
        if self._is_stateful:
            # Decoders that embed keep keys and values in a state, which would be another batch's.
            request.reset_state()
        request.infer(feed, share_inputs=True, share_outputs=True)
        # The request's next run writes into its output.
        return np.array(request.get_output_tensor(0).data, np.float32, copy=True)


def find_function(name: str) -> Callable[..., Any]:
    """Import the function that a task names as ``module:function``."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _input_name(port: Any) -> str:
    found = [name for name in _INPUTS if name in port.get_names()]
    if not found:
        names = ", ".join(sorted(port.get_names())) or "without a name"
        raise RuntimeError(
            f"openvino_model.xml has the input {names}; those of an encoder model are "
            f"{', '.join(_INPUTS)}"
        )
    return found[0]
