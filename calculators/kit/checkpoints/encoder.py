"""The OpenVINO model of a GGUF file that turns texts into vectors.

An encoder has no cache and no logits. Its inputs are ``input_ids`` and ``attention_mask``, its
output is a vector for each token, ``last_hidden_state``; the embeddings task makes one vector of
these, by the pooling that the file names. There are two kinds:

- *BERT and its kin*: every token sees every other one, norms stand after attention and
  feed-forward part (``attn_output_norm``, ``layer_output_norm``), positions are learned, rotate
  (Nomic, Jina 3), or weaken what is far away (Jina 2);
- *decoders* with ``pooling_type`` (Qwen3-Embedding): the builder of decoders, without states.
  Tokens see those before them, or all (ModernBERT, EuroBERT, NeoBERT, EmbeddingGemma, and
  ``attention.causal`` false).

A model that ranks has a head over one token, the first or, of a decoder, the last, or over the
mean of all (ModernBERT): ``cls`` with tanh and ``cls.output``. Its output is ``logits``, one
number; of a head with yes and no (Qwen3-Reranker) their difference. Segments of a pair come by
``token_type_ids``.

EmbeddingGemma has two more products after its pooling (``dense_2``, ``dense_3``). They are linear,
and so is pooling: here they are applied to each token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import openvino as ov
from openvino import opset15 as op

from calculators.kit.checkpoints.builder import LOWEST, Builder, floats, parameter, slopes
from calculators.kit.checkpoints.decoder import Decoder, Layer
from calculators.kit.checkpoints.families import ENCODERS, pooling_of
from calculators.kit.checkpoints.gguf import GgufFile
from calculators.kit.checkpoints.packed import OffsetForm
from calculators.kit.checkpoints.weights import WeightScratch, whole

#: The number of a pooling by the first token.
_FIRST: Final = 2


def build_encoder(
    file: GgufFile, encoder: Decoder, form: OffsetForm, scratch: WeightScratch
) -> ov.Model:
    """Build the model of a file; see `models.build_model`.

    Raises:
        ResourceError: a tensor is missing, left over, of a wrong shape, or of a type that cannot be
            computed.
    """
    kind = _BUILDERS.get(encoder.architecture, EncoderBuilder)
    return kind(file, encoder, form, scratch).build()


class EncoderBuilder(Builder):
    """Builds a decoder without states, whose output are vectors."""

    def __init__(
        self, file: GgufFile, decoder: Decoder, form: OffsetForm, scratch: WeightScratch
    ) -> None:
        super().__init__(file, decoder, form, scratch)
        mask = self._inputs["attention_mask"].output(0)
        # Padding on either side leaves the positions of a text as they are.
        places = op.cumsum(mask, whole(1))
        places = op.maximum(op.subtract(places, whole(1)), whole(0))
        self._positions = places.output(0)
        causal = file.metadata.flag(f"{decoder.architecture}.attention.causal")
        self._ranks = pooling_of(file) == "RANK"
        self._sees_all = decoder.architecture in ENCODERS if causal is None else not causal

    def build(self) -> ov.Model:
        decoder, weights = self._decoder, self._weights
        x = self._embedded()
        for number, layer in enumerate(decoder.layers):
            x = self._layer(x, number, layer)
        x = self._ended(x)
        for name in ("dense_2", "dense_3"):
            if f"{name}.weight" in weights:
                rows, columns = weights.tensor(f"{name}.weight").shape
                x = weights.product(x, name, (rows, columns))
        output = "last_hidden_state"
        if self._ranks:
            x, output = self._scores_of(x), "logits"
        self._check_left_over()
        x.get_tensor().set_names({output})
        result = op.result(x)
        result.set_friendly_name(output)
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [self._inputs[name] for name in names if name in self._inputs]
        return ov.Model([result], inputs, "encoder")

    def _scores_of(self, x: ov.Output) -> ov.Output:
        """Return the score of each text, (batch, 1)."""
        weights, width = self._weights, self._decoder.width
        x = self._ranked(x)
        if "cls.weight" in weights:
            rows = weights.tensor("cls.weight").shape[0]
            x = self._head_activated(weights.product(x, "cls", (rows, width)))
            if rows == 1 and "cls.output.weight" not in weights:  # Jina Reranker 1
                return x
        rows = weights.tensor("cls.output.weight").shape[0]
        y = weights.product(x, "cls.output", (rows, width))
        if rows == 2:
            yes, no = op.split(y, whole(-1), 2).outputs()
            y = op.subtract(yes, no).output(0)
        return y

    def _ranked(self, x: ov.Output) -> ov.Output:
        """Return the vector of each text that the head reads."""
        return op.gather(x, self._place_of_score(), whole(1), 1).output(0)

    def _head_activated(self, x: ov.Output) -> ov.Output:
        return op.tanh(x).output(0)

    def _place_of_score(self) -> ov.Output:
        """Return the place of the last token of each text."""
        mask = self._inputs["attention_mask"].output(0)
        length = op.gather(op.shape_of(self._ids), whole(1), whole(0))
        places = op.multiply(op.range(whole(0), length, whole(1), "i64"), mask)
        return op.reduce_max(places, whole([1]), False).output(0)

    def _embedded(self) -> ov.Output:
        decoder, weights = self._decoder, self._weights
        x = weights.embedded(self._ids, "token_embd", decoder.width)
        if decoder.embedding_scale:
            x = op.multiply(x, floats(decoder.embedding_scale)).output(0)
        return x

    def _ended(self, x: ov.Output) -> ov.Output:
        """Return the vectors after the last layer."""
        if "output.weight" in self._weights:  # of a decoder, which is not needed
            self._weights.used.add("output.weight")
        own = "enc.output_norm" if "enc.output_norm.weight" in self._weights else self.LAST_NORM
        return self._norm(x, own, self._decoder.width)

    def _remembered(self, x: ov.Output, number: int, what: str, heads: int, size: int) -> ov.Output:
        return x

    def _mask(self, layer: Layer) -> ov.Output:
        if layer.window not in self._masks:
            key, query, given, _, _ = self._places()
            seen = given
            if not self._sees_all:
                seen = op.logical_and(seen, op.less_equal(key, query))
            if layer.window:
                apart = op.absolute(op.subtract(key, query))
                # A window of an encoder reaches to both sides.
                reach = layer.window // 2 if self._sees_all else layer.window - 1
                seen = op.logical_and(seen, op.less_equal(apart, whole(reach)))
            length = op.gather(op.shape_of(self._ids), whole([1]), whole(0))
            shape = op.concat([self._batch, whole([1]), length, length], 0)
            seen = op.broadcast(seen, shape)
            bias = floats(0.0)
            if self._decoder.family.positions == "slopes":
                steep = floats(-np.reshape(slopes(layer.heads), (1, layer.heads, 1, 1)))
                apart = op.absolute(op.subtract(key, query))
                bias = op.multiply(steep, op.convert(apart, "f32"))
            self._masks[layer.window] = op.select(seen, bias, floats(LOWEST)).output(0)
        return self._masks[layer.window]


class BertBuilder(EncoderBuilder):
    """Builds BERT and its kin."""

    def _embedded(self) -> ov.Output:
        weights, width = self._weights, self._decoder.width
        x = super()._embedded()
        if "token_types.weight" in weights:
            rows = weights.floats("token_types.weight", width)
            if self._ranks and len(rows) > 1:
                types = parameter("token_type_ids", [-1, -1], ov.Type.i64)
                self._inputs["token_type_ids"] = types
                x = op.add(x, op.gather(floats(rows), types, whole(0))).output(0)
            else:  # all tokens are of the first text
                x = op.add(x, floats(rows[:1])).output(0)
        if "position_embd.weight" in weights:
            rows = weights.embedded(self._positions, "position_embd", width)
            x = op.add(x, rows).output(0)
        return self._norm(x, "token_embd_norm", width)

    def _ended(self, x: ov.Output) -> ov.Output:
        return x

    def _place_of_score(self) -> ov.Output:
        return first_place(self._inputs["attention_mask"])

    def _layer(self, x: ov.Output, number: int, layer: Layer) -> ov.Output:
        blk, width = f"blk.{number}.", self._decoder.width
        a = op.add(x, self._attention(x, number, layer)).output(0)
        a = self._norm(a, f"{blk}attn_output_norm", width)
        if f"{blk}attn_norm_2.weight" in self._weights:  # Jina 2 for code
            a = self._norm(op.add(a, x).output(0), f"{blk}attn_norm_2", width)
        f = op.add(a, self._feed_forward(a, number)).output(0)
        return self._norm(f, f"{blk}layer_output_norm", width)


class ModernBertBuilder(EncoderBuilder):
    """Builds ModernBERT: a decoder's layers, and a head of its own."""

    def _embedded(self) -> ov.Output:
        return self._norm(super()._embedded(), self.FIRST_NORM, self._decoder.width)

    def _optional_norm(self, x: ov.Output, blk: str, name: str) -> ov.Output:
        if blk == "blk.0." and name == "attn_norm" and f"{blk}{name}.weight" not in self._weights:
            return x  # it is normed already
        return super()._optional_norm(x, blk, name)

    def _ranked(self, x: ov.Output) -> ov.Output:
        key = f"{self._decoder.architecture}.classifier.pooling_type"
        if self._file.metadata.integer(key) == _FIRST:
            return op.gather(x, first_place(self._inputs["attention_mask"]), whole(1), 1).output(0)
        mask = op.unsqueeze(op.convert(self._inputs["attention_mask"], "f32"), whole(-1))
        total = op.reduce_sum(op.multiply(x, mask), whole([1]), False)
        return op.divide(total, op.reduce_sum(mask, whole([1]), False)).output(0)

    def _head_activated(self, x: ov.Output) -> ov.Output:
        x = op.gelu(x, "erf").output(0)
        has_norm = "cls.norm.weight" in self._weights
        return self._norm(x, "cls.norm", self._decoder.width) if has_norm else x


def first_place(mask: ov.Node) -> ov.Output:
    """Return the place of the first token of each text, after padding on the left."""
    first = op.topk(mask, whole(1), 1, "max", "index", "i64", stable=True).output(1)
    return op.squeeze(first, whole([1])).output(0)


_BUILDERS: Final[Mapping[str, type[EncoderBuilder]]] = {
    **dict.fromkeys(
        ("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3"), BertBuilder
    ),
    "modern-bert": ModernBertBuilder,
}
