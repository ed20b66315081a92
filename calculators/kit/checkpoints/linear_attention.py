"""Qwen3-Next and Qwen 3.5: three of four layers are linear attention, the gated delta rule.

Such a layer has no cache of keys and values, but one matrix per head, (size of keys, size of
values), which each token changes: it fades by the token's *gate*, and the value that it answers to
the token's key is moved towards the token's value, as far as *beta* says:

    S = S * exp(gate);  S = S + key (beta (value - key S));  answer = query S

Queries, keys and values pass a short convolution first. OpenVINO has an operation for the rule,
which is no part of an operation set: the plug-in makes it of a ``Loop`` over the tokens that has
exactly these nodes, and continuous batching makes ``PagedGatedDeltaNet`` of that, with a table of
matrices. The other layers are attention whose answer is multiplied by a gate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset8
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import floats
from calculators.kit.checkpoints.decoder import Decoder, Layer
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import Form
from calculators.kit.checkpoints.short_convolution import ConvolutionBuilder
from calculators.kit.checkpoints.weights import Rows, Scratch, whole
from graph_runtime import ResourceError

_NUMBERS = ("state_size", "group_count", "time_step_rank", "inner_size")


class DeltaBuilder(ConvolutionBuilder):
    """Builds a decoder whose layers without heads of keys follow the gated delta rule."""

    FIRST_NORM = "token_embd_norm"
    LAST_NORM = "output_norm"

    def __init__(self, file: GgufFile, decoder: Decoder, form: Form, scratch: Scratch) -> None:
        super().__init__(file, decoder, form, scratch)
        prefix = f"{decoder.architecture}.ssm."
        numbers = [file.metadata.integer(prefix + name) or 0 for name in _NUMBERS]
        self._size, self._key_heads, self._heads_of_values, self._inner = numbers
        if min(numbers) < 1 or self._inner != self._heads_of_values * self._size:
            raise ResourceError(f'"{file.name}": the values "{prefix}..." do not fit together')
        if self._heads_of_values % self._key_heads:
            raise ResourceError(
                f'"{file.name}": the value "{prefix}time_step_rank" must be a multiple of '
                f'"{prefix}group_count"'
            )

    # Attention with a gate.

    def _attention(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        if not layer.kv_heads:
            return self._linear_attention(x, number)
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        heads, size = layer.heads, layer.key_size
        # Rows of a head are its query, then its gate.
        rows = np.arange(2 * heads * size).reshape(heads, 2, size).transpose(1, 0, 2).reshape(-1)
        parts = [
            Rows(f"{blk}attn_q", 2 * heads * size, rows),
            Rows(f"{blk}attn_k", layer.kv_heads * size),
            Rows(f"{blk}attn_v", layer.kv_heads * size),
        ]
        both, k, v = weights.products(x, parts, width)
        q, gate = op.variadic_split(both, whole(-1), whole([heads * size] * 2)).outputs()
        q = self._heads(q, f"{blk}attn_q_norm", heads, layer)
        k = self._heads(k, f"{blk}attn_k_norm", layer.kv_heads, layer)
        v = op.reshape(v, whole([0, 0, layer.kv_heads, size]), True)
        v = op.transpose(v, whole([0, 2, 1, 3])).output(0)
        y = self._attend(q, k, v, number, layer, self._decoder.attention_scale)
        y = op.multiply(y, op.sigmoid(gate)).output(0)
        return weights.product(y, f"{blk}attn_output", (width, heads * size))

    # Linear attention.

    def _linear_attention(self, x: ov.Output, number: int) -> ov.Output:
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        keys, heads, size = self._key_heads * self._size, self._heads_of_values, self._size
        channels = 2 * keys + self._inner
        parts = [Rows(f"{blk}attn_qkv", channels), Rows(f"{blk}attn_gate", self._inner)]
        qkv, z = weights.products(x, parts, width)
        beta, alpha = self._beta_and_alpha(x, blk)
        mixed = op.swish(self._convolved(qkv, f"{blk}ssm_conv1d.weight", channels, number))
        q, k, v = op.variadic_split(mixed, whole(-1), whole([keys, keys, self._inner])).outputs()
        q, k = (
            self._of_value_heads(_unit(self._by_heads(e, self._key_heads), self._decoder.epsilon))
            for e in (q, k)
        )
        shape = weights.floats(f"{blk}ssm_dt.bias", heads)
        fading = weights.floats(f"{blk}ssm_a", heads)
        gate = op.softplus(op.add(alpha, floats(shape.reshape(-1))))
        gate = op.multiply(gate, floats(fading.reshape(-1)))
        y = self._delta_rule(
            q,
            k,
            self._by_heads(v, heads),
            op.transpose(gate, whole([0, 2, 1])),
            op.transpose(op.sigmoid(beta), whole([0, 2, 1])),
            number,
        )
        y = op.transpose(y, whole([0, 2, 1, 3])).output(0)
        y = self._norm(y, f"{blk}ssm_norm", size)
        z = op.reshape(z, whole([0, 0, heads, size]), True).output(0)
        y = op.reshape(op.multiply(y, op.swish(z)), whole([0, 0, self._inner]), True).output(0)
        return weights.product(y, f"{blk}ssm_out", (width, self._inner))

    def _beta_and_alpha(self, x: ov.Output, blk: str) -> list[ov.Output]:
        heads, width = self._heads_of_values, self._decoder.width
        if f"{blk}ssm_ba.weight" not in self._weights:
            parts = [Rows(f"{blk}ssm_beta", heads), Rows(f"{blk}ssm_alpha", heads)]
            return self._weights.products(x, parts, width)
        # Qwen3-Next: by heads of keys, betas of its heads of values, then alphas.
        rows = np.arange(2 * heads).reshape(self._key_heads, 2, -1).transpose(1, 0, 2).reshape(-1)
        (both,) = self._weights.products(x, [Rows(f"{blk}ssm_ba", 2 * heads, rows)], width)
        return list(op.variadic_split(both, whole(-1), whole([heads, heads])).outputs())

    def _by_heads(self, x: Any, heads: int) -> ov.Node:
        shaped = op.reshape(x, whole([0, 0, heads, self._size]), True)
        return op.transpose(shaped, whole([0, 2, 1, 3]))

    def _of_value_heads(self, x: ov.Node) -> ov.Node:
        """Repeat heads of keys for those of values."""
        times = self._heads_of_values // self._key_heads
        if times == 1:
            return x
        order = np.arange(self._heads_of_values)
        if self._decoder.architecture == "qwen3next":
            return op.gather(x, whole(order // times), whole(1))
        return op.gather(x, whole(order % self._key_heads), whole(1))

    def _delta_rule(
        self, q: ov.Node, k: ov.Node, v: ov.Node, gate: ov.Node, beta: ov.Node, number: int
    ) -> ov.Output:
        """Return the answers, (batch, heads, length, size): a loop over the tokens."""
        heads, size = self._heads_of_values, self._size
        name = f"cache_params.past.ssm.{number}cache_params.present.ssm.{number}"
        past, variable = self._state(name, [heads, size, size], [heads, size, size])
        width = op.convert(op.gather(op.shape_of(q), whole(3), whole(0)), "f32")
        scaled = op.divide(q, op.power(width, floats(0.5)))
        answers = op.broadcast(floats(0.0), op.shape_of(v))
        length = op.gather(op.shape_of(v), whole(2), whole(0))
        loop = op.loop(length, op.constant(np.array(True)))
        body, inputs = _body(heads, size)
        loop.set_function(body)
        loop.set_special_body_ports([0, 0])
        for place, value in enumerate((scaled, k, v, gate, beta), start=1):
            loop.set_sliced_input(inputs[place], value.output(0), 0, 1, 1, -1, 2)
        loop.set_merged_input(inputs[6], past.output(0), body.results[1].output(0))
        loop.set_merged_input(inputs[7], answers.output(0), body.results[2].output(0))
        found = loop.get_iter_value(body.results[2].output(0), -1)
        state = loop.get_iter_value(body.results[1].output(0), -1)
        # The function takes nodes, and this is the second output of one.
        self._states.append(op.assign(op.convert(state, "f32"), variable))
        return found


def _body(heads: int, size: int) -> tuple[ov.Model, list[Any]]:
    """Return what happens with one token, and the inputs; Squeeze is that of older sets."""
    step = op.parameter([], np.int64)
    q, k, v = (op.parameter([-1, heads, 1, size], np.float32) for _ in range(3))
    gate, beta = (op.parameter([-1, heads, 1], np.float32) for _ in range(2))
    state = op.parameter([-1, heads, size, size], np.float32)
    answers = op.parameter([-1, heads, -1, size], np.float32)
    faded = op.multiply(state, op.unsqueeze(op.exp(gate), whole([-1])))
    key = op.unsqueeze(opset8.squeeze(k, whole([2])), whole([-1]))
    known = op.reduce_sum(op.multiply(faded, key), whole([-2]), False)
    moved = op.multiply(op.subtract(opset8.squeeze(v, whole([2])), known), beta)
    changed = op.add(faded, op.multiply(key, op.unsqueeze(moved, whole([-2]))))
    query = op.unsqueeze(opset8.squeeze(q, whole(2)), whole([-1]))
    answer = op.reduce_sum(op.multiply(changed, query), whole([-2]), True)
    place = op.unsqueeze(step, whole(0))
    written = op.scatter_update(answers, place, answer, whole(2))
    goes_on = op.constant(np.array(True))
    inputs = [step, q, k, v, gate, beta, state, answers]
    results = [op.result(goes_on), op.result(changed), op.result(written)]
    return ov.Model(results, inputs, "token"), inputs


def _unit(x: ov.Node, epsilon: float) -> ov.Node:
    """Return vectors of length 1."""
    squares = op.reduce_sum(op.multiply(x, x), whole([-1]), True)
    length = op.sqrt(op.add(squares, floats(epsilon)))
    return op.multiply(x, op.divide(floats(1.0), length))
