"""The OpenVINO model of a decoder, in the form that openvino-genai serves.

The model has the inputs ``input_ids``, ``attention_mask``, ``position_ids`` and ``beam_idx``, the
output ``logits``, and two states per layer: the keys and values so far. That is the form of
exported models. Continuous batching turns each ``ScaledDotProductAttention`` with its states into
paged attention, so the graph must have the exact shapes that the library and the CPU plug-in
recognize (openvino and openvino-genai 2026.4). Each of these is checked by a test:

- inputs are found by the names of their nodes and of their tensors;
- keys and values are repeated for grouped queries by Unsqueeze, Broadcast and Reshape;
- paged attention drops the mask, but takes the length of a window from its shape, and slopes from
  a product whose first factor they are;
- a rotary embedding of halves is ``x * cos + concat(-second, first) * sin``;
- the product that makes the logits is the last one, and is a single one;
- all experts compute all tokens, in a form for which the plug-in computes the chosen ones only
  (*GatherMatmul*).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset15 as op
from openvino.op.util import Variable, VariableInfo
from openvino.utils.node_factory import NodeFactory

from calculators.kit.checkpoints.decoder import Decoder, Layer, Rotary
from calculators.kit.checkpoints.families import NEIGHBOURS
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import Floats, OffsetForm
from calculators.kit.checkpoints.weights import Rows, Weights, WeightScratch, whole
from graphrt_base.errors import ResourceError

LOWEST: Final = float(np.finfo(np.float32).min)
#: gpt-oss: gates and inputs are clamped, and the gate's slope.
_CLAMP: Final = 7.0
_SLOPE: Final = 1.702
_INPUT_GROUP: Final = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
#: The end of a slice that goes to the end.
_END: Final = 2**31 - 1


def floats(value: Any) -> ov.Node:
    """Return a constant in float32."""
    return op.constant(np.asarray(value, np.float32))


class Builder:
    """Builds one model, layer by layer.

    Nodes are passed as outputs. ``blk`` is the beginning of the names of a layer's tensors.
    """

    #: Tensors of the norms of the first layer's input, if there is one, and of the last output.
    FIRST_NORM = "token_embd_norm"
    LAST_NORM = "output_norm"

    def __init__(
        self, file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
    ) -> None:
        self._file = file
        self._decoder = decoder
        self._weights = Weights(file, form, scratch)
        self._states: list[ov.Node] = []
        self._masks: dict[int, ov.Output] = {}
        self._turns: dict[int, tuple[ov.Output, ov.Output]] = {}
        self._inputs = {
            name: parameter(name, shape, kind)
            for name, shape, kind in (
                ("input_ids", [-1, -1], ov.Type.i64),
                ("attention_mask", [-1, -1], ov.Type.i64),
                ("position_ids", [-1, -1], ov.Type.i64),
                ("beam_idx", [-1], ov.Type.i32),
            )
        }
        self._ids = self._inputs["input_ids"].output(0)
        self._positions = self._inputs["position_ids"].output(0)
        self._batch = op.gather(op.shape_of(self._ids), whole([0]), whole(0))

    def build(self) -> ov.Model:
        """Return the model."""
        decoder, weights = self._decoder, self._weights
        x = weights.embedded(self._ids, "token_embd", decoder.width)
        vocabulary = weights.tensor("token_embd.weight").shape[0]
        if decoder.embedding_scale:
            x = _scaled(x, decoder.embedding_scale)
        if decoder.family.positions == "learned":
            rows = weights.embedded(self._positions, "position_embd", decoder.width)
            x = op.add(x, rows).output(0)
        if f"{self.FIRST_NORM}.weight" in weights:
            x = self._norm(x, self.FIRST_NORM, decoder.width)
        x = self._begin(x)
        for number, layer in enumerate(decoder.layers):
            x = self._layer(x, number, layer)
        x = self._norm(x, self.LAST_NORM, decoder.width)
        output = "output" if "output.weight" in weights else "token_embd"
        logits = weights.product(x, output, (vocabulary, decoder.width), last=True)
        if decoder.logit_scale:
            logits = _scaled(logits, decoder.logit_scale)
        if decoder.logit_softcap:
            capped = op.tanh(_scaled(logits, 1 / decoder.logit_softcap))
            logits = _scaled(capped.output(0), decoder.logit_softcap)
        self._check_left_over()
        logits.get_tensor().set_names({"logits"})
        result = op.result(logits)
        result.set_friendly_name("logits")
        model = ov.Model([result], self._states, list(self._inputs.values()), "decoder")
        if weights.input_group:
            # A default of the model's own: a property that is given counts first.
            model.set_rt_info(str(weights.input_group), ["runtime_options", _INPUT_GROUP])
        return model

    def _check_left_over(self) -> None:
        """Check that each tensor was used: one that was not means that the table is wrong."""
        left = [
            name
            for name in self._file.tensors
            if name not in self._weights.used and not self._is_ignored(name)
        ]
        if left:
            raise ResourceError(
                f'"{self._file.name}" has {len(left)} tensors that a model of the architecture '
                f'"{self._decoder.architecture}" does not have: {", ".join(left[:5])}'
            )

    def _is_ignored(self, name: str) -> bool:
        parts = name.split(".")
        if parts[0] == "blk" and len(parts) > 2 and parts[1].isdecimal():
            # Further layers predict several tokens at once.
            is_further = int(parts[1]) >= len(self._decoder.layers)
            return (is_further and int(parts[1]) < self._blocks) or "rope_freqs" in name
        return (
            name.startswith(("rope_freqs", "rope_factors"))
            or parts[-1] == "input_scale"
            or parts[0] == "cls"
        )

    @property
    def _blocks(self) -> int:
        return self._file.metadata.integer(f"{self._decoder.architecture}.block_count") or 0

    # Layers.

    def _begin(self, x: ov.Output) -> ov.Output:
        """Return the input of the first layer."""
        return x

    def _layer(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        """Return the output of a layer."""
        decoder, blk = self._decoder, f"blk.{number}."
        norms, width = decoder.family.norms, decoder.width
        h = self._optional_norm(x, blk, norms.before_attention)
        is_parallel = decoder.is_parallel
        before_feed_forward = norms.before_feed_forward
        if decoder.family.parallel == "unnormed" and f"{blk}ffn_norm.weight" not in self._weights:
            is_parallel, before_feed_forward = True, ""
        of_attention = h
        if f"{blk}attn_norm_2.weight" in self._weights:  # Falcon 40B
            of_attention = self._norm(x, f"{blk}attn_norm_2", width)
        a = self._attention(of_attention, number, layer)
        a = self._optional_norm(a, blk, norms.after_attention)
        if decoder.residual_scale:
            a = _scaled(a, decoder.residual_scale)
        if is_parallel:
            own = self._optional_norm(x, blk, before_feed_forward) if before_feed_forward else h
            both = op.add(x, a)
            return op.add(both, self._feed_forward(own, number)).output(0)
        x = op.add(x, a).output(0)
        f = self._feed_forward(self._optional_norm(x, blk, before_feed_forward), number)
        f = self._optional_norm(f, blk, norms.after_feed_forward)
        if decoder.residual_scale:
            f = _scaled(f, decoder.residual_scale)
        return op.add(x, f).output(0)

    def _optional_norm(self, x: ov.Output, blk: str, name: str) -> ov.Output:
        return self._norm(x, blk + name, self._decoder.width) if name else x

    def _norm(
        self,
        x: ov.Output,
        name: str,
        size: int,
        weight: Floats | None = None,
        kind: str = "",
    ) -> ov.Output:
        """Return ``x`` normed over its last dimension.

        Args:
            name: of the tensors of weights and biases.
            weight: instead of the file's.
        """
        decoder, weights = self._decoder, self._weights
        if weight is None and (decoder.family.norms_have_weights or f"{name}.weight" in weights):
            weight = weights.floats(f"{name}.weight", size).reshape(-1)
        if (kind or decoder.family.norm) == "rms":
            mean = op.reduce_mean(op.power(x, floats(2.0)), whole([-1]), True)
            root = op.sqrt(op.add(mean, floats(decoder.epsilon)))
            x = op.multiply(x, op.divide(floats(1.0), root)).output(0)
        else:
            x = op.mvn(x, whole([-1]), True, decoder.epsilon, "inside_sqrt").output(0)
        if weight is not None:
            x = op.multiply(x, floats(weight)).output(0)
        if f"{name}.bias" in weights:
            x = op.add(x, floats(weights.floats(f"{name}.bias", size).reshape(-1))).output(0)
        return x

    # Attention.

    def _attention(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        blk, weights, decoder = f"blk.{number}.", self._weights, self._decoder
        q, k, v = self._queries_keys_values(x, blk, layer)
        if decoder.clamp:
            q, k, v = (op.clamp(e, -decoder.clamp, decoder.clamp).output(0) for e in (q, k, v))
        q = self._heads(q, f"{blk}attn_q_norm", layer.heads, layer)
        k = self._heads(k, f"{blk}attn_k_norm", layer.kv_heads, layer)
        v = _transposed(op.reshape(v, whole([0, 0, layer.kv_heads, layer.value_size]), True))
        y = self._attend(q, k, v, number, layer, decoder.attention_scale)
        return weights.product(
            y, f"{blk}attn_output", (decoder.width, layer.heads * layer.value_size)
        )

    def _queries_keys_values(self, x: ov.Output, blk: str, layer: Layer) -> list[ov.Output]:
        width = self._decoder.width
        queries, keys = layer.heads * layer.key_size, layer.kv_heads * layer.key_size
        values = layer.kv_heads * layer.value_size
        q_order, k_order = self._order(layer.heads, layer), self._order(layer.kv_heads, layer)
        if f"{blk}attn_qkv.weight" not in self._weights:
            parts = [
                Rows(f"{blk}attn_q", queries, q_order),
                Rows(f"{blk}attn_k", keys, k_order),
                Rows(f"{blk}attn_v", values),
            ]
            return self._weights.products(x, parts, width)
        order = None
        if q_order is not None and k_order is not None:
            rest = np.arange(queries + keys, queries + keys + values)
            order = np.concatenate([q_order, queries + k_order, rest])
        count = queries + keys + values
        (y,) = self._weights.products(x, [Rows(f"{blk}attn_qkv", count, order)], width)
        return list(op.variadic_split(y, whole(-1), whole([queries, keys, values])).outputs())

    def _order(self, heads: int, layer: Layer) -> NDArray[np.int64] | None:
        """Return the order of the rows of queries or keys in which pairs are halves of a head."""
        if layer.rotary is None or self._decoder.family.rotary != NEIGHBOURS:
            return None
        rows = np.arange(heads * layer.key_size).reshape(heads, layer.key_size)
        turned = layer.rotary.numbers
        parts = [rows[:, 0:turned:2], rows[:, 1:turned:2], rows[:, turned:]]
        return np.concatenate(parts, axis=1).reshape(-1)

    def _heads(self, x: ov.Output, norm: str, heads: int, layer: Layer) -> ov.Output:
        """Return queries or keys by heads, normed and rotated: (batch, heads, length, size)."""
        size, order = layer.key_size, self._order(heads, layer)
        weight = None
        if f"{norm}.weight" in self._weights:
            weight = self._weights.floats(f"{norm}.weight")
            if weight.size == heads * size and heads > 1 and weight.ndim == 1:
                # One norm over all heads.
                x = self._norm(x, norm, weight.size, _in_order(weight, order))
                weight = None
        x = op.reshape(x, whole([0, 0, heads, size]), True).output(0)
        if weight is not None:
            if weight.size not in (size, heads * size):
                tensor = self._weights.tensor(f"{norm}.weight")
                raise self._weights.wrong_shape(tensor, f"{size} or {heads * size} numbers")
            if weight.size == heads * size:
                weight = _in_order(weight.reshape(-1), order).reshape(heads, size)
            else:
                weight = _in_order(weight.reshape(-1), None if order is None else order[:size])
        is_late = self._decoder.family.rotates_before_norm
        if weight is not None and not is_late:
            x = self._norm(x, norm, size, weight)
        x = _transposed(x)
        if layer.rotary is not None:
            x = self._rotated(x, layer.rotary, size)
        if weight is not None and is_late:
            x = self._norm(x, norm, size, weight)
        return x

    def _rotated(self, x: ov.Output, rotary: Rotary, size: int) -> ov.Output:
        cosines, sines = self._turns_of(rotary)
        numbers = rotary.numbers
        rest = None
        if numbers < size:
            x, rest = op.variadic_split(x, whole(-1), whole([numbers, size - numbers])).outputs()
        half = numbers // 2
        first = op.slice(x, whole([0]), whole([half]), whole([1]), whole([3]))
        second = op.slice(x, whole([half]), whole([2**63 - 1]), whole([1]), whole([3]))
        turned = op.concat([op.multiply(second, floats(-1.0)), first], -1)
        y = op.add(op.multiply(x, cosines), op.multiply(turned, sines))
        return (y if rest is None else op.concat([y, rest], -1)).output(0)

    def _turns_of(self, rotary: Rotary) -> tuple[ov.Output, ov.Output]:
        """Return cosines and sines of all positions; layers share them."""
        if id(rotary) not in self._turns:
            pairs = len(rotary.frequencies)
            shape = op.concat([self._batch, whole([pairs]), whole([1])], 0)
            # The nodes of Llama's rotary embedding as transformers writes it.
            frequencies = op.broadcast(floats(rotary.frequencies.reshape(1, -1, 1)), shape)
            positions = op.convert(op.unsqueeze(self._positions, whole(1)), "f32")
            product = op.matmul(frequencies, positions, False, False)
            angles = op.transpose(product, whole([0, 2, 1]))
            angles = op.concat([angles, angles], -1)
            found = []
            for function in (op.cos, op.sin):
                table = function(angles)
                if rotary.factor != 1:
                    table = op.multiply(table, floats(rotary.factor))
                found.append(op.unsqueeze(table, whole(1)).output(0))
            self._turns[id(rotary)] = (found[0], found[1])
        return self._turns[id(rotary)]

    def _attend(
        self,
        q: ov.Output,
        k: ov.Output,
        v: ov.Output,
        number: int,
        layer: Layer,
        scale: float,
    ) -> ov.Output:
        """Return what each token takes from the values, (batch, length, heads * size)."""
        if self._decoder.temperature is not None:
            q = op.multiply(q, self._temperatures()).output(0)
        keys = self._remembered(k, number, "key", layer.kv_heads, layer.key_size)
        values = self._remembered(v, number, "value", layer.kv_heads, layer.value_size)
        y = self._scores(q, keys, values, number, layer, scale)
        return _joined(y, layer.heads * layer.value_size)

    def _scores(
        self,
        q: ov.Output,
        keys: ov.Output,
        values: ov.Output,
        number: int,
        layer: Layer,
        scale: float,
    ) -> ov.Output:
        if layer.heads != layer.kv_heads:
            keys = _repeated(keys, layer.heads, layer.kv_heads, layer.key_size)
            values = _repeated(values, layer.heads, layer.kv_heads, layer.value_size)
        if self._decoder.attention_softcap:
            return self._capped_scores(q, keys, values, self._mask(layer), scale)
        inputs = [q, keys, values, self._mask(layer), floats(scale).output(0)]
        sinks = f"blk.{number}.attn_sinks.weight"
        if sinks in self._weights:
            weight = self._weights.floats(sinks, layer.heads)
            inputs.append(floats(weight.reshape(1, layer.heads, 1, 1)).output(0))
            # The function of openvino's Python package takes no sinks.
            node = NodeFactory("opset13").create(
                "ScaledDotProductAttention", inputs, {"causal": False}
            )
        else:
            node = op.scaled_dot_product_attention(*inputs, causal=False)
        return node.output(0)

    def _capped_scores(
        self, q: ov.Output, keys: ov.Output, values: ov.Output, mask: ov.Output, scale: float
    ) -> ov.Output:
        """Attention in single nodes: the operation has no soft cap."""
        cap = self._decoder.attention_softcap
        scores = _scaled(op.matmul(q, keys, False, True).output(0), scale / cap)
        scores = op.add(_scaled(op.tanh(scores).output(0), cap), mask).output(0)
        return op.matmul(op.softmax(scores, -1), values, False, False).output(0)

    def _temperatures(self) -> ov.Output:
        """Return a factor for the queries of each position (Ministral 3)."""
        assert self._decoder.temperature is not None
        scale, length = self._decoder.temperature
        positions = op.convert(op.unsqueeze(self._positions, whole([1, 3])), "f32")
        steps = op.floor(op.divide(positions, floats(length)))
        logarithm = op.log(op.add(steps, floats(1.0)))
        return op.add(op.multiply(logarithm, floats(scale)), floats(1.0)).output(0)

    def _remembered(self, x: ov.Output, number: int, what: str, heads: int, size: int) -> ov.Output:
        """Return keys or values of all tokens so far; they become a state."""
        # Exported models name a state by its input and its output together.
        name = f"past_key_values.{number}.{what}present.{number}.{what}"
        past, variable = self._state(name, [heads, -1, size], [heads, 0, size])
        found = op.concat([past, x], 2)
        self._states.append(op.assign(found, variable))
        return found.output(0)

    def _state(self, name: str, shape: list[int], first: list[int]) -> tuple[ov.Node, Variable]:
        """Return what a state holds for each sequence.

        Args:
            shape: of one sequence, -1 for any length.
            first: the shape at the beginning, of zeros.
        """
        info = VariableInfo()
        info.data_shape = ov.PartialShape([-1, *shape])
        info.data_type = ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        zeros = op.broadcast(floats(0.0), op.concat([self._batch, whole(first)], 0))
        past = op.gather(op.read_value(zeros, variable), self._inputs["beam_idx"], whole(0))
        return past, variable

    def _mask(self, layer: Layer) -> ov.Output:
        is_slopes = self._decoder.family.positions == "slopes"
        kind = -layer.heads if is_slopes else layer.window
        if kind not in self._masks:
            self._masks[kind] = self._slopes(layer.heads) if is_slopes else self._window(kind)
        return self._masks[kind]

    def _places(self) -> tuple[ov.Node, ov.Node, ov.Node, ov.Node, ov.Node]:
        """Return the positions of keys and queries, which keys are given, and both lengths."""
        keys = op.gather(op.shape_of(self._inputs["attention_mask"]), whole(1), whole(0))
        queries = op.gather(op.shape_of(self._ids), whole(1), whole(0))
        key = op.unsqueeze(op.range(whole(0), keys, whole(1), "i64"), whole([0, 1, 2]))
        first = op.subtract(keys, queries)
        query = op.unsqueeze(op.range(first, keys, whole(1), "i64"), whole([0, 1, 3]))
        given = op.unsqueeze(op.convert(self._inputs["attention_mask"], "boolean"), whole([1, 2]))
        return key, query, given, keys, queries

    def _window(self, window: int) -> ov.Output:
        """Return the mask that shows a token those before it, and only the last ones."""
        key, query, given, keys, queries = self._places()
        shape = op.concat(
            [
                self._batch,
                whole([1]),
                op.unsqueeze(queries, whole(0)),
                op.unsqueeze(keys, whole(0)),
            ],
            0,
        )
        causal = op.less_equal(key, query)
        if not window:
            seen = op.broadcast(op.logical_and(causal, given), shape)
            return op.select(seen, floats(0.0), floats(LOWEST)).output(0)
        # Paged attention drops the mask, and reads the window from exactly these nodes (openvino
        # 2026.4): logical operations or a simpler condition would leave tokens without one.
        yes = op.constant(np.array(True))
        near = op.greater(key, op.add(query, whole(-window)))
        band = op.bitwise_and(yes, op.bitwise_and(op.bitwise_and(yes, near), causal))
        seen = op.broadcast(op.bitwise_and(band, given), shape)
        node = op.select(seen, floats(0.0), floats(LOWEST))
        end = op.unsqueeze(keys, whole(0))
        return op.slice(node, whole([0]), end, whole([1]), whole([3])).output(0)

    def _slopes(self, heads: int) -> ov.Output:
        """Return the mask with slopes: each head sees farther tokens less (ALiBi)."""
        key, query, given, keys, queries = self._places()
        seen = op.logical_and(op.less_equal(key, query), given)
        lengths = [op.unsqueeze(queries, whole(0)), op.unsqueeze(keys, whole(0))]
        shape = op.concat([self._batch, whole([heads]), *lengths], 0)
        # As first factor: paged attention takes the first one for the slopes. The other way round
        # it would take the positions (openvino 2026.4).
        steep = floats(np.reshape(slopes(heads), (1, heads, 1, 1)))
        bias = op.multiply(steep, op.convert(key, "f32"))
        # Two reshapes to the same shape are a part of the form in which paged attention looks for
        # slopes.
        flat = op.concat([whole([1, heads, 1]), lengths[1]], 0)
        bias = op.reshape(op.reshape(bias, flat, False), flat, False)
        hidden = op.logical_not(op.broadcast(seen, shape))
        return op.select(hidden, floats(LOWEST), bias).output(0)

    # The feed-forward part.

    def _feed_forward(self, x: ov.Output, number: int) -> ov.Output:
        blk = f"blk.{number}."
        if f"{blk}ffn_gate_inp.weight" not in self._weights:
            return self._dense(x, blk)
        y = self._experts(x, blk, x)
        if f"{blk}ffn_up_shexp.weight" not in self._weights:
            return y
        shared = self._dense(x, blk, "_shexp")
        if f"{blk}ffn_gate_inp_shexp.weight" in self._weights:
            gate = self._weights.floats(f"{blk}ffn_gate_inp_shexp.weight", self._decoder.width)
            share = op.sigmoid(op.matmul(x, floats(gate.reshape(1, -1)), False, True))
            shared = op.multiply(shared, share).output(0)
        return op.add(y, shared).output(0)

    def _dense(self, x: ov.Output, blk: str, suffix: str = "") -> ov.Output:
        weights, width = self._weights, self._decoder.width
        gate, up, down = (f"{blk}ffn_{part}{suffix}" for part in ("gate", "up", "down"))
        inner = weights.tensor(f"{down}.weight").shape[-1]
        if f"{gate}.weight" in weights:
            # Two products, though of the same input: the plug-in computes the activation in that
            # of the gate, and need not cut a joined one in two.
            y = self._gated(*(weights.product(x, each, (inner, width)) for each in (gate, up)))
        elif self._decoder.family.has_gate and weights.tensor(f"{up}.weight").shape[0] == 2 * inner:
            both = weights.product(x, up, (2 * inner, width))
            y = self._gated(*op.variadic_split(both, whole(-1), whole([inner, inner])).outputs())
        else:
            y = self._activated(weights.product(x, up, (inner, width)))
        return weights.product(y, down, (width, inner))

    def _activated(self, x: ov.Output) -> ov.Output:
        match self._decoder.family.activation:
            case "silu":
                return _swish(x)
            case "gelu":
                return op.gelu(x, "tanh").output(0)
            case "gelu_erf":
                return op.gelu(x, "erf").output(0)
            case "relu2":
                return op.power(op.relu(x), floats(2.0)).output(0)
            case other:
                raise AssertionError(other)

    def _gated(self, gate: ov.Output, up: ov.Output) -> ov.Output:
        return op.multiply(self._activated(gate), up).output(0)

    # Experts.

    def _router(self, x: ov.Output, blk: str) -> ov.Output:
        """Return the scores of all experts, (tokens, experts)."""
        shape = (self._decoder.experts.number, self._decoder.width)
        flat = op.reshape(x, whole([-1, self._decoder.width]), False).output(0)
        return self._weights.product(flat, f"{blk}ffn_gate_inp", shape)

    def _experts(self, x: ov.Output, blk: str, of_router: ov.Output) -> ov.Output:
        experts, width = self._decoder.experts, self._decoder.width
        if not experts.number:
            raise ResourceError(
                f'"{self._file.name}" has experts, and no value '
                f'"{self._decoder.architecture}.expert_count"'
            )
        scores = self._router(of_router, blk)
        shares, chosen = self._choice(scores, blk)
        number = experts.number
        flat = op.reshape(x, whole([-1, width]), False)
        # All experts compute all tokens, but only on paper: the plug-in makes *GatherMatmul* of
        # these nodes, which computes the chosen ones. A form with less to compute would not be
        # recognized.
        each = op.reshape(op.tile(flat, whole([number, 1])), whole([number, -1, width]), False)
        y = self._expert_products(each.output(0), blk)
        shape = op.shape_of(x)
        lead = op.gather(shape, whole([0, 1]), whole(0))
        y = op.reshape(y, op.concat([whole([number]), shape], 0), False)
        zeros = op.broadcast(floats(0.0), op.shape_of(scores))
        spread = op.scatter_elements_update(zeros, chosen, shares, whole(1))
        spread = op.transpose(spread, whole([1, 0]))
        spread = op.reshape(spread, op.concat([whole([number]), lead], 0), False)
        weighted = op.multiply(y, op.unsqueeze(spread, whole(-1)))
        return op.reduce_sum(weighted, whole([0]), False).output(0)

    def _choice(self, scores: ov.Output, blk: str) -> tuple[ov.Output, ov.Output]:
        """Return the shares of the chosen experts, and which they are, (tokens, used)."""
        experts = self._decoder.experts
        match experts.gating:
            case "softmax":
                chances = op.softmax(scores, -1).output(0)
            case "sigmoid":
                chances = op.sigmoid(scores).output(0)
            case _:
                chances = scores
        ranked = chances
        if f"{blk}exp_probs_b.bias" in self._weights:  # for the choice only
            bias = self._weights.floats(f"{blk}exp_probs_b.bias", experts.number)
            ranked = op.add(chances, floats(bias.reshape(1, -1))).output(0)
        if experts.groups > 1:
            ranked = self._best_groups(ranked)
        top = op.topk(ranked, whole(experts.used), -1, "max", "value", "i64", stable=False)
        chosen = top.output(1)
        shares = top.output(0)
        if ranked is not chances:
            shares = op.gather_elements(chances, chosen, 1).output(0)
        if experts.gating == "chosen":
            shares = op.softmax(shares, -1).output(0)
        if experts.sum_is_one:
            # The least sum is that of ggml.
            total = op.maximum(op.reduce_sum(shares, whole([-1]), True), floats(2.0**-14))
            shares = op.divide(shares, total).output(0)
        # Some writers of files write keys that they do not use, with 0.
        if experts.scale not in (0, 1):
            shares = _scaled(shares, experts.scale)
        return shares, chosen

    def _best_groups(self, ranked: ov.Output) -> ov.Output:
        """Leave out the experts of groups whose two best ones are not among the best."""
        experts = self._decoder.experts
        size = experts.number // experts.groups
        grouped = op.reshape(ranked, whole([-1, experts.groups, size]), False)
        best = op.topk(grouped, whole(2), -1, "max", "value", "i64").output(0)
        score = op.reduce_sum(best, whole([-1]), False)
        kept = op.topk(score, whole(experts.groups_used), -1, "max", "value", "i64").output(1)
        ones = op.broadcast(floats(1.0), op.shape_of(kept))
        zeros = op.broadcast(floats(0.0), op.shape_of(score))
        mark = op.scatter_elements_update(zeros, kept, ones, whole(1))
        mark = op.broadcast(op.unsqueeze(mark, whole(-1)), op.shape_of(grouped))
        left = op.select(op.greater(mark, floats(0.5)), grouped, floats(-np.inf))
        return op.reshape(left, whole([-1, experts.number]), False).output(0)

    def _expert_products(self, x: ov.Output, blk: str) -> ov.Output:
        """Return what all experts make of all tokens, (experts, tokens, width)."""
        weights, number, width = self._weights, self._decoder.experts.number, self._decoder.width
        gate, up, down, both = (
            f"{blk}ffn_{part}_exps" for part in ("gate", "up", "down", "gate_up")
        )
        inner = weights.tensor(f"{down}.weight").shape[-1]
        if self._decoder.family.activation == "clamped":
            y = self._clamped_experts(x, [gate, up], inner)
        elif f"{both}.weight" in weights:
            joined = self._of_experts(x, [both], (number, 2 * inner, width))
            y = self._gated(*op.variadic_split(joined, whole(-1), whole([inner, inner])).outputs())
        elif f"{gate}.weight" in weights:
            shape = (number, inner, width)
            y = self._gated(self._of_experts(x, [gate], shape), self._of_experts(x, [up], shape))
        else:
            y = self._activated(self._of_experts(x, [up], (number, inner, width)))
        return self._of_experts(y, [down], (number, width, inner))

    def _of_experts(
        self,
        x: ov.Output,
        names: Sequence[str],
        shape: tuple[int, int, int],
        *,
        interleaved: bool = False,
    ) -> ov.Output:
        weights = self._weights
        matrix = weights.matrices(names, shape, interleaved)
        y = op.matmul(x, matrix, False, True).output(0)
        if f"{names[0]}.scale" in weights:
            y = op.multiply(
                y, floats(weights.floats(f"{names[0]}.scale").reshape(-1, 1, 1))
            ).output(0)
        if f"{names[0]}.bias" in weights:
            biases = [weights.floats(f"{name}.bias", shape[1]) for name in names]
            joined = np.stack(biases, axis=-1) if interleaved else np.concatenate(biases, axis=1)
            y = op.add(y, floats(joined.reshape(shape[0], 1, -1))).output(0)
        return y

    def _clamped_experts(self, x: ov.Output, names: list[str], inner: int) -> ov.Output:
        """Gate and input of gpt-oss as one product.

        Their rows come in turn: slices of step 2 are a part of the form that the plug-in knows,
        where slices of neighbouring halves would become a split.
        """
        shape = (self._decoder.experts.number, inner, self._decoder.width)
        both = self._of_experts(x, names, shape, interleaved=True)
        gate, up = (
            op.slice(both, whole([start]), whole([_END]), whole([2]), whole([2]))
            for start in (0, 1)
        )
        up = op.add(op.clamp(up, -_CLAMP, _CLAMP), floats(1.0))
        gate = op.swish(op.minimum(gate, floats(_CLAMP)), floats(_SLOPE))
        return op.multiply(up, gate).output(0)


def slopes(heads: int) -> list[float]:
    """Return how much less each head sees farther tokens (ALiBi)."""
    power = 1 << int(math.log2(heads))
    return [
        2.0 ** (-8 / power * (head + 1))
        if head < power
        else 2.0 ** (-4 / power * (2 * (head - power) + 1))
        for head in range(heads)
    ]


# Nodes.


def parameter(name: str, shape: list[int], kind: ov.Type) -> ov.Node:
    node = op.parameter(shape, kind)
    node.set_friendly_name(name)
    # Both names: the function's own argument for a name has no effect, and the transformation to
    # paged attention looks at node and tensor (openvino 2026.4).
    node.output(0).get_tensor().set_names({name})
    return node


def _scaled(x: ov.Output, factor: float) -> ov.Output:
    return op.multiply(x, floats(factor)).output(0)


def _swish(x: ov.Output) -> ov.Output:
    # With one input: the function of the Python package adds a second one, which the plug-in's
    # form of experts does not have.
    return NodeFactory("opset4").create("Swish", [x]).output(0)


def _transposed(x: Any) -> ov.Output:
    return op.transpose(x, whole([0, 2, 1, 3])).output(0)


def _joined(x: ov.Output, size: int) -> ov.Output:
    return op.reshape(_transposed(x), whole([0, 0, size]), True).output(0)


def _repeated(x: ov.Output, heads: int, kv_heads: int, size: int) -> ov.Output:
    shape = op.shape_of(x)
    target = op.concat(
        [
            op.gather(shape, whole([0, 1]), whole(0)),
            whole([heads // kv_heads]),
            op.gather(shape, whole([2, 3]), whole(0)),
        ],
        0,
    )
    # As exporters write it: the transformation to paged attention reads the number of heads here.
    wide = op.broadcast(op.unsqueeze(x, whole(2)), target, "BIDIRECTIONAL")
    return op.reshape(wide, whole([0, heads, -1, size]), True).output(0)


def _in_order(weight: Floats, order: NDArray[np.int64] | None) -> Floats:
    return weight if order is None else weight[order]
