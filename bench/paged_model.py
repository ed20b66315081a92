"""A model in the form in which it is served, without the library that serves it.

Continuous batching of openvino-genai gives no logits of a prompt. This runs the same paged form,
with a cache of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino._offline_transformations import paged_attention_transformation

#: Numbers as they are, nothing rounded.
EXACT: Final = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}
_CACHES: Final = ("key_cache", "value_cache")


class PagedModel:
    """A compiled model, for one sequence.

    Attributes:
        unpaged: attention that did not become paged.
        windows: of the layers' attention.
    """

    def __init__(
        self, model: ov.Model, properties: dict[str, Any] | None = None, length: int = 256
    ) -> None:
        paged_attention_transformation(model)
        kinds = [node.get_type_name() for node in model.get_ops()]
        self.unpaged = kinds.count("ScaledDotProductAttention")
        self.windows = [
            _number(node.input_value(10))
            for node in model.get_ops()
            if node.get_type_name() == "PagedAttentionExtension"
        ]
        compiled = ov.Core().compile_model(model, "CPU", properties or EXACT)
        self._request = compiled.create_infer_request()
        self._compiled = compiled
        self._block = 32
        self._past = 0
        self._caches = []
        for port in compiled.inputs:
            if port.get_any_name().startswith(_CACHES):
                shape = port.get_partial_shape()
                lengths = [each.get_length() for each in list(shape)[1:]]
                blocks = -(-length // self._block)
                cache = ov.Tensor(port.get_element_type(), ov.Shape([blocks, *lengths]))
                cache.data[:] = 0
                self._caches.append(cache)
                self._request.set_tensor(port, cache)
        self._names = {port.get_any_name() for port in compiled.inputs}

    def kernels(self) -> Counter[tuple[str, str]]:
        """Return how often each operation runs with each kernel."""
        found: Counter[tuple[str, str]] = Counter()
        for node in self._compiled.get_runtime_model().get_ops():
            facts = node.get_rt_info()
            found[facts["layerType"].astype(str), facts["primitiveType"].astype(str)] += 1
        return found

    def forget(self) -> None:
        """Begin another sequence."""
        self._past = 0

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits of each of these tokens, which follow the ones before."""
        count, end = len(ids), self._past + len(ids)
        blocks = -(-end // self._block)
        values = {
            "input_ids": np.array(ids, np.int64),
            "position_ids": np.arange(self._past, end, dtype=np.int64),
            "past_lens": np.array([self._past], np.int32),
            "subsequence_begins": np.array([0, count], np.int32),
            "block_indices": np.arange(blocks, dtype=np.int32),
            "block_indices_begins": np.array([0, blocks], np.int32),
            "max_context_len": np.array(end, np.int32),
        }
        tensors = {name: ov.Tensor(value) for name, value in values.items() if name in self._names}
        for name, tensor in tensors.items():
            self._request.set_tensor(name, tensor)
        self._request.infer()
        self._past = end
        return np.array(self._request.get_output_tensor(0).data).reshape(count, -1)


def _number(output: Any) -> int:
    """Return the number that some nodes over constants make."""
    node = output.get_node()
    kind = node.get_type_name()
    if kind == "Constant":
        return int(np.array(node.get_data()).reshape(-1)[0])
    inputs = [_number(each) for each in node.input_values()[: 1 if kind != "Multiply" else 2]]
    return inputs[0] * inputs[1] if kind == "Multiply" else inputs[0]


class StatefulModel:
    """A compiled model whose caches are states, for one sequence.

    Models with states of another kind than keys and values have tables of them in the paged form,
    which openvino-genai fills.
    """

    def __init__(self, model: ov.Model, properties: dict[str, Any] | None = None) -> None:
        compiled = ov.Core().compile_model(model, "CPU", properties or EXACT)
        self._request = compiled.create_infer_request()
        self._past = 0

    def run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits of each of these tokens, which follow the ones before."""
        end = self._past + len(ids)
        found = self._request.infer(
            {
                "input_ids": np.array([ids], np.int64),
                "attention_mask": np.ones((1, end), np.int64),
                "position_ids": np.arange(self._past, end, dtype=np.int64)[np.newaxis],
                "beam_idx": np.zeros(1, np.int32),
            }
        )
        self._past = end
        return np.array(found[0][0])
