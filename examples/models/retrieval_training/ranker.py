"""The ranker: a model without training, which weighs the words that question and passage share.

A word counts as much as it is rare in the documents (inverse document frequency). It has the inputs
of a BERT cross-encoder, so it shows what such a model does in a graph; a trained one ranks better.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from tokenizers import Tokenizer

#: The logit of a passage with all words of a question; with none of them it is the negative.
_HIGHEST = 4.0


def word_weights(tokenizer: Tokenizer, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a weight for each token of the vocabulary; special ones have 0."""
    counts: Counter[int] = Counter()
    for encoded in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        counts.update(set(encoded.ids))
    weights = np.zeros(tokenizer.get_vocab_size(), np.float32)
    for token, count in counts.items():
        weights[token] = math.log(1 + len(texts) / count)
    for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"):
        weights[tokenizer.token_to_id(name)] = 0.0
    return weights


def make_ranker(weights: NDArray[np.float32]) -> ov.Model:
    """Return the model: ``logits`` ``[pairs, 1]`` for pairs of a question and a passage."""
    ids, mask, types = (_input(name) for name in ("input_ids", "attention_mask", "token_type_ids"))
    shown = op.convert(mask, "boolean")
    is_passage = op.logical_and(op.equal(types, op.constant(np.int64(1))), shown)
    is_question = op.logical_and(op.equal(types, op.constant(np.int64(0))), shown)
    # [pairs, question's tokens, passage's tokens]: the same token at both places.
    same = op.equal(_unsqueeze(ids, 2), _unsqueeze(ids, 1))
    same = op.logical_and(same, _unsqueeze(is_passage, 1))
    found = op.reduce_logical_or(same, op.constant(np.array([2], np.int64)))
    each = op.gather(op.constant(weights), ids, op.constant(np.int64(0)))
    each = op.multiply(each, op.convert(is_question, "f32"))
    shared = _sum(op.multiply(each, op.convert(found, "f32")))
    share = op.divide(shared, op.maximum(_sum(each), op.constant(np.float32(1e-6))))
    logits = op.subtract(
        op.multiply(share, op.constant(np.float32(2 * _HIGHEST))),
        op.constant(np.float32(_HIGHEST)),
    )
    result = op.result(logits)
    result.output(0).set_names({"logits"})
    return ov.Model([result], [ids, mask, types], "ranker")


def _input(name: str) -> ov.Node:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter


def _unsqueeze(node: ov.Node, axis: int) -> ov.Node:
    return op.unsqueeze(node, op.constant(np.int64(axis)))


def _sum(node: ov.Node) -> ov.Node:
    """Return sums over the tokens, ``[pairs, 1]``."""
    return op.reduce_sum(node, op.constant(np.array([1], np.int64)), keep_dims=True)
