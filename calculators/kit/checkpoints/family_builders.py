"""`build_model`: the OpenVINO model of a file, by the builder that its family names.

`calculators.kit.checkpoints.builder` builds layers of attention with keys and values of their own,
which most families have. The builders here are for families with other layers:

*Latent attention* (`LatentBuilder`: DeepSeek V2, V3 and their kin). Keys and values of all heads
are products of one small vector per token, the *latent*. In the absorbed form these products are
applied to the queries and to the answer instead, so that all heads of queries share one head of
keys (latent and rotated part) and one of values (the latent), and the cache holds nothing else.

*Gemma 4* (`Gemma4Builder`: its text models). They differ from Gemma 3 by the sizes of heads (layers
with a window have smaller ones), embeddings of each token for each layer, caches that the last
layers share, norms of values, and experts beside the dense feed-forward part.

*Linear attention* (`DeltaBuilder`: Qwen3-Next and Qwen 3.5), the gated delta rule, in three of four
layers. Such a layer has no cache of keys and values, but one matrix per head, (size of keys, size
of values), which each token changes: it fades by the token's *gate*, and the value that it answers
to the token's key is moved towards the token's value, as far as *beta* says:

    S = S * exp(gate);  S = S + key (beta (value - key S));  answer = query S

Queries, keys and values pass a short convolution first. OpenVINO has an operation for the rule
outside its operation sets: the plug-in makes it of a ``Loop`` over the tokens that has exactly
these nodes, and continuous batching makes ``PagedGatedDeltaNet`` of that, with a table of matrices.
The other layers are attention whose answer is multiplied by a gate.

*Short convolutions* (`ConvolutionBuilder`: LFM2) in place of most attention. Such a layer mixes
each channel of a token with the same channel of the few tokens before. Its state is their last
values, as many as the convolution is long. Continuous batching keeps a table of such states beside
the cache of keys and values: it makes ``PagedCausalConv1D`` of the state, a grouped convolution
without padding, and a slice that leaves out the first output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import openvino as ov
from openvino import opset8
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import Builder, _joined, _scaled, _transposed, floats
from calculators.kit.checkpoints.decoder import Decoder, Layer, Rotary
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.weights import Rows, WeightScratch, whole

_END = 2**63 - 1


class ConvolutionBuilder(Builder):
    """Builds a decoder whose layers without heads of keys are convolutions."""

    FIRST_NORM = ""
    LAST_NORM = "token_embd_norm"  # as llama.cpp names it

    def _attention(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        if layer.kv_heads:
            return super()._attention(x, number, layer)
        blk, weights, width = f"blk.{number}.shortconv.", self._weights, self._decoder.width
        parts = weights.product(x, f"{blk}in_proj", (3 * width, width))
        before, after, values = op.variadic_split(parts, whole(-1), whole([width] * 3)).outputs()
        mixed = self._convolved(op.multiply(before, values), f"{blk}conv.weight", width, number)
        y = op.multiply(after, mixed).output(0)
        return weights.product(y, f"{blk}out_proj", (width, width))

    def _convolved(self, x: ov.Node, name: str, channels: int, number: int) -> ov.Node:
        """Mix each channel of (batch, length, channels) with the tokens before."""
        kernel = self._weights.floats(name)
        length = kernel.shape[-1]
        if kernel.shape != (channels, length) or length < 2:
            tensor = self._weights.tensor(name)
            raise self._weights.wrong_shape(tensor, f"{channels} rows of 2 numbers or more")
        state = f"cache_params.past.conv.{number}cache_params.present.conv.{number}"
        past, variable = self._state(state, [channels, length], [channels, length])
        joined = op.concat([past, op.transpose(x, whole([0, 2, 1]))], -1)
        last = op.slice(joined, whole([-length]), whole([_END]), whole([1]), whole([2]))
        self._states.append(op.assign(last, variable))
        filters = op.constant(kernel.reshape(channels, 1, 1, length))
        mixed = op.group_convolution(joined, filters, [1], [0], [0], [1])
        mixed = op.slice(mixed, whole([1]), whole([_END]), whole([1]), whole([2]))
        return op.transpose(mixed, whole([0, 2, 1]))


class DeltaBuilder(ConvolutionBuilder):
    """Builds a decoder whose layers without heads of keys follow the gated delta rule."""

    FIRST_NORM = "token_embd_norm"
    LAST_NORM = "output_norm"

    def __init__(
        self, file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
    ) -> None:
        super().__init__(file, decoder, form, scratch)
        assert decoder.linear is not None
        self._size, self._key_heads, self._heads_of_values = decoder.linear
        self._inner = self._heads_of_values * self._size

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


class Gemma4Builder(Builder):
    """Builds a decoder of Gemma 4."""

    def __init__(
        self, file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
    ) -> None:
        super().__init__(file, decoder, form, scratch)
        self._remembered_by: dict[int, tuple[ov.Output, ov.Output]] = {}
        self._parts: ov.Output | None = None
        self._factors: np.ndarray | None = None
        if "rope_freqs.weight" in self._weights:
            self._factors = self._weights.floats("rope_freqs.weight").reshape(-1)
        self._rotaries: dict[bool, Rotary] = {}

    def _begin(self, x: ov.Output) -> ov.Output:
        """Make the embeddings for each layer: (batch, length, layers, size)."""
        decoder, weights = self._decoder, self._weights
        if "per_layer_token_embd.weight" not in weights:
            return x
        layers, size = len(decoder.layers), decoder.part
        shape = whole([0, 0, layers, size])
        rows = weights.embedded(self._ids, "per_layer_token_embd", layers * size)
        rows = op.reshape(_scaled(rows, math.sqrt(size)), shape, True).output(0)
        own = weights.product(x, "per_layer_model_proj", (layers * size, decoder.width))
        own = op.reshape(_scaled(own, 1 / math.sqrt(decoder.width)), shape, True).output(0)
        own = self._norm(own, "per_layer_proj_norm", size)
        self._parts = _scaled(op.add(own, rows).output(0), 1 / math.sqrt(2))
        return x

    def _layer(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        h = self._norm(x, f"{blk}attn_norm", width)
        a = self._norm(self._attention(h, number, layer), f"{blk}post_attention_norm", width)
        x = op.add(x, a).output(0)
        f = self._dense(self._norm(x, f"{blk}ffn_norm", width), blk)
        if f"{blk}ffn_gate_inp.weight" in weights:
            f = self._norm(f, f"{blk}post_ffw_norm_1", width)
            routed = self._experts(self._norm(x, f"{blk}pre_ffw_norm_2", width), blk, x)
            f = op.add(f, self._norm(routed, f"{blk}post_ffw_norm_2", width)).output(0)
        x = op.add(x, self._norm(f, f"{blk}post_ffw_norm", width)).output(0)
        if self._parts is not None:
            part = op.slice(
                self._parts, whole([number]), whole([number + 1]), whole([1]), whole([2])
            )
            part_size = self._decoder.part
            gate = weights.product(x, f"{blk}inp_gate", (part_size, width))
            y = op.multiply(op.gelu(gate, "tanh"), op.squeeze(part, whole([2]))).output(0)
            y = weights.product(y, f"{blk}proj", (width, part_size))
            x = op.add(x, self._norm(y, f"{blk}post_norm", width)).output(0)
        if f"{blk}layer_output_scale.weight" in weights:
            scale = weights.floats(f"{blk}layer_output_scale.weight", 1)
            x = op.multiply(x, floats(scale.reshape(-1))).output(0)
        return x

    def _router(self, x: ov.Output, blk: str) -> ov.Output:
        """Scores of the normed, not of the layer's normed input."""
        width = self._decoder.width
        scale = self._weights.floats(f"{blk}ffn_gate_inp.scale", width).reshape(-1)
        return super()._router(_scaled(self._norm(x, "", width, scale), 1 / math.sqrt(width)), blk)

    def _attention(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        size = layer.key_size
        layer = layer._replace(rotary=self._rotary(layer))
        q = weights.product(x, f"{blk}attn_q", (layer.heads * size, width))
        q = self._heads(q, f"{blk}attn_q_norm", layer.heads, layer)
        own = self._decoder.own_caches
        if number < own:
            source = number
            self._remember(x, number, layer)
        else:
            # Some files have the tensors that are not used.
            weights.used |= {f"{blk}{name}.weight" for name in ("attn_k", "attn_v", "attn_k_norm")}
            # The last two layers with caches of their own are one with a window and one without.
            source = own - (2 if layer.window else 1)
        keys, values = self._remembered_by[source]
        layer = layer._replace(kv_heads=self._decoder.layers[source].kv_heads)
        y = self._scores(q, keys, values, number, layer, self._decoder.attention_scale)
        return weights.product(
            _joined(y, layer.heads * size), f"{blk}attn_output", (width, layer.heads * size)
        )

    def _remember(self, x: ov.Output, number: int, layer: Layer) -> None:
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        heads, size = layer.kv_heads, layer.key_size
        if f"{blk}attn_v.weight" in weights:
            parts = [Rows(f"{blk}attn_k", heads * size), Rows(f"{blk}attn_v", heads * size)]
            k, v = weights.products(x, parts, width)
        else:
            # A layer without values of its own takes its keys, before their norm.
            k = v = weights.product(x, f"{blk}attn_k", (heads * size, width))
        k = self._heads(k, f"{blk}attn_k_norm", heads, layer)
        v = op.reshape(v, whole([0, 0, heads, size]), True).output(0)
        v = _transposed(self._norm(v, "", size, np.ones(size, np.float32)))
        self._remembered_by[number] = (
            self._remembered(k, number, "key", heads, size),
            self._remembered(v, number, "value", heads, size),
        )

    def _rotary(self, layer: Layer) -> Rotary | None:
        """Layers without a window have factors of frequencies: 1e30 means not rotated."""
        assert layer.rotary is not None
        is_window = layer.window > 0
        if is_window not in self._rotaries:
            rotary = layer.rotary
            if not is_window and self._factors is not None:
                rotary = rotary._replace(frequencies=rotary.frequencies / self._factors)
            self._rotaries[is_window] = rotary
        return self._rotaries[is_window]


class LatentBuilder(Builder):
    """Builds a decoder with latent attention."""

    def __init__(
        self, file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
    ) -> None:
        super().__init__(file, decoder, form, scratch)
        assert decoder.latent is not None
        self._latent, self._key, self._value, self._scale = decoder.latent

    def _attention(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        blk, weights, width = f"blk.{number}.", self._weights, self._decoder.width
        assert layer.rotary is not None
        turned, latent, heads = layer.rotary.numbers, self._latent, layer.heads
        plain = self._key - turned
        pairs = np.concatenate([np.arange(0, turned, 2), np.arange(1, turned, 2)])
        of_head = np.concatenate([np.arange(plain), plain + pairs])
        order = np.concatenate([of_head + head * self._key for head in range(heads)])
        query = x
        name, columns = f"{blk}attn_q", width
        if f"{blk}attn_q_a.weight" in weights:
            columns = weights.tensor(f"{blk}attn_q_a.weight").shape[0]
            query = weights.product(x, f"{blk}attn_q_a", (columns, width))
            query, name = self._norm(query, f"{blk}attn_q_a_norm", columns), f"{blk}attn_q_b"
        (q,) = weights.products(query, [Rows(name, heads * self._key, order)], columns)
        q = _transposed(op.reshape(q, whole([0, 0, heads, self._key]), True))
        q_plain, q_turned = op.variadic_split(q, whole(-1), whole([plain, turned])).outputs()
        order = np.concatenate([np.arange(latent), latent + pairs])
        (kv,) = weights.products(x, [Rows(f"{blk}attn_kv_a_mqa", latent + turned, order)], width)
        part, k_turned = op.variadic_split(kv, whole(-1), whole([latent, turned])).outputs()
        part = self._norm(part, f"{blk}attn_kv_a_norm", latent)
        part = _transposed(op.reshape(part, whole([0, 0, 1, latent]), True))
        k_turned = _transposed(op.reshape(k_turned, whole([0, 0, 1, turned]), True))
        k_turned = self._rotated(k_turned, layer.rotary, turned)
        q_turned = self._rotated(q_turned, layer.rotary, turned)
        absorbed = self._of_heads(q_plain, f"{blk}attn_k_b", (heads, latent, plain))
        q = op.concat([absorbed, q_turned], -1).output(0)
        k = op.concat([part, k_turned], -1).output(0)
        shared = layer._replace(kv_heads=1, key_size=latent + turned, value_size=latent)
        keys = self._remembered(k, number, "key", 1, shared.key_size)
        values = self._remembered(part, number, "value", 1, latent)
        y = self._scores(q, keys, values, number, shared, self._scale)
        y = self._of_heads(y, f"{blk}attn_v_b", (heads, self._value, latent))
        y = _joined(y, heads * self._value)
        return weights.product(y, f"{blk}attn_output", (width, heads * self._value))

    def _of_heads(self, x: ov.Output, name: str, shape: tuple[int, int, int]) -> ov.Output:
        """Return ``x``, (batch, heads, length, size), times one matrix per head."""
        matrix = op.unsqueeze(self._weights.matrices([name], shape), whole(0))
        return op.matmul(x, matrix, False, True).output(0)


_BUILDERS: Final[Mapping[str, type[Builder]]] = {
    "decoder": Builder,
    "gemma4": Gemma4Builder,
    "latent": LatentBuilder,
    "convolution": ConvolutionBuilder,
    "delta": DeltaBuilder,
}


def build_model(
    file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
) -> ov.Model:
    """Build the model of a file.

    Args:
        scratch: holds the constants; it must live as long as the model.

    Raises:
        ResourceError: a tensor is missing, left over, of a wrong shape, or of a type that cannot be
            computed.
    """
    return _BUILDERS[decoder.family.builder](file, decoder, form, scratch).build()
