"""DeepSeek V2, V3 and their kin: latent attention.

Keys and values of all heads are products of one small vector per token, the *latent*. In the
absorbed form these products are applied to the queries and to the answer instead, so that all
heads of queries share one head of keys (latent and rotated part) and one of values (the latent),
and the cache holds nothing else.
"""

from __future__ import annotations

import math

import numpy as np
import openvino as ov
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import Builder, _joined, _transposed
from calculators.kit.checkpoints.decoder import Decoder, Layer
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import Form
from calculators.kit.checkpoints.weights import Rows, Scratch, whole
from graph_runtime import ResourceError


class LatentBuilder(Builder):
    """Builds a decoder with latent attention."""

    def __init__(self, file: GgufFile, decoder: Decoder, form: Form, scratch: Scratch) -> None:
        super().__init__(file, decoder, form, scratch)
        values, prefix = file.metadata, f"{decoder.architecture}."
        self._latent = values.integer(prefix + "attention.kv_lora_rank") or 0
        self._key = values.integer(prefix + "attention.key_length_mla") or 0
        self._value = values.integer(prefix + "attention.value_length_mla") or 0
        if not (self._latent and self._key and self._value):
            raise ResourceError(
                f'"{file.name}" was made before latent attention had its present form (it has no '
                f'"{prefix}attention.key_length_mla"); convert the model anew'
            )
        if values.number(prefix + "attention.temperature_scale"):
            raise ResourceError(
                f'"{file.name}" has "{prefix}attention.temperature_scale", which is not built for '
                "latent attention"
            )
        stretch = values.number(prefix + "rope.scaling.factor") or 0.0
        multiplier = values.number(prefix + "rope.scaling.yarn_log_multiplier") or 0.0
        factor = 1.0
        if values.text(prefix + "rope.scaling.type") == "yarn" and stretch > 1:
            factor += multiplier * math.log(stretch)
        self._scale = factor * factor / math.sqrt(self._key)

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
