"""LFM2: most layers are short convolutions instead of attention.

Such a layer mixes each channel of a token with the same channel of the few tokens before. Its state
is their last values, as many as the convolution is long. Continuous batching keeps a table of such
states beside the cache of keys and values: it makes ``PagedCausalConv1D`` of the state, a grouped
convolution without padding, and a slice that leaves out the first output.
"""

from __future__ import annotations

import openvino as ov
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import Builder
from calculators.kit.checkpoints.decoder import Layer
from calculators.kit.checkpoints.weights import whole

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
