"""Gemma 4's text models.

They differ from Gemma 3 by the sizes of heads (layers with a window have smaller ones), embeddings
of each token for each layer, caches that the last layers share, norms of values, and experts beside
the dense feed-forward part.
"""

from __future__ import annotations

import math

import numpy as np
import openvino as ov
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import (
    Builder,
    _joined,
    _scaled,
    _transposed,
    floats,
)
from calculators.kit.checkpoints.decoder import Decoder, Layer, Rotary
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import Form
from calculators.kit.checkpoints.weights import Rows, Scratch, whole


class Gemma4Builder(Builder):
    """Builds a decoder of Gemma 4."""

    def __init__(self, file: GgufFile, decoder: Decoder, form: Form, scratch: Scratch) -> None:
        super().__init__(file, decoder, form, scratch)
        values, prefix = file.metadata, f"{decoder.architecture}."
        shared = values.integer(prefix + "attention.shared_kv_layers") or 0
        self._own = len(decoder.layers) - shared
        self._part = values.integer(prefix + "embedding_length_per_layer_input") or 0
        self._window_size = values.integer(prefix + "attention.key_length_swa") or 0
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
        layers, size = len(decoder.layers), self._part
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
            gate = weights.product(x, f"{blk}inp_gate", (self._part, width))
            y = op.multiply(op.gelu(gate, "tanh"), op.squeeze(part, whole([2]))).output(0)
            y = weights.product(y, f"{blk}proj", (width, self._part))
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
        if layer.window and self._window_size:
            size = self._window_size
        layer = layer._replace(key_size=size, value_size=size, rotary=self._rotary(layer, size))
        q = weights.product(x, f"{blk}attn_q", (layer.heads * size, width))
        q = self._heads(q, f"{blk}attn_q_norm", layer.heads, layer)
        if number < self._own:
            source = number
            self._remember(x, number, layer)
        else:
            # Some files have the tensors that are not used.
            weights.used |= {f"{blk}{name}.weight" for name in ("attn_k", "attn_v", "attn_k_norm")}
            source = self._own - (2 if layer.window else 1)
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
            k = v = weights.product(x, f"{blk}attn_k", (heads * size, width))
        k = self._heads(k, f"{blk}attn_k_norm", heads, layer)
        v = op.reshape(v, whole([0, 0, heads, size]), True).output(0)
        v = _transposed(self._norm(v, "", size, np.ones(size, np.float32)))
        self._remembered_by[number] = (
            self._remembered(k, number, "key", heads, size),
            self._remembered(v, number, "value", heads, size),
        )

    def _rotary(self, layer: Layer, size: int) -> Rotary | None:
        """Layers without a window have factors of frequencies: 1e30 means not rotated."""
        assert layer.rotary is not None
        is_window = layer.window > 0
        if is_window not in self._rotaries:
            rotary = layer.rotary
            if not is_window and self._factors is not None:
                rotary = rotary._replace(frequencies=rotary.frequencies / self._factors)
            self._rotaries[is_window] = rotary
        return self._rotaries[is_window]
