"""Reranking models made by hand: a few KB of OpenVINO's operations, with tokenizers of few words.

The two encoders count the words of the query that occur in the document, and subtract 2. They find
query and document by segment ids, or by the tokens between them, so that pairs of another form get
other scores. The decoder counts a word, and says yes if there is more than one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from openvino import opset13 as op
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

#: The most tokens of a pair.
MAX_TOKENS: Final = 24
WORDS: Final = ("the", "cat", "dog", "bird", "sat", "ran", "on", "mat", "is", "a")
QUERY: Final = "the cat sat"
DOCUMENTS: Final = ("dog ran", "the cat sat on the mat", "cat", "the bird sat")
#: Words of `QUERY` in each of `DOCUMENTS`, minus 2.
LOGITS: Final = (-2.0, 1.0, -1.0, 0.0)
#: Places of `DOCUMENTS`, the best first.
ORDER: Final = (1, 3, 2, 0)

#: The text that OpenVINO Model Server's ``--pull`` writes.
GRAPH: Final = """\
# File created with: OpenVINO Model Server 2026.2
# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO

input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
    name: "RerankExecutor"
    calculator: "RerankCalculatorOV"
    input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
    input_stream: "REQUEST_PAYLOAD:input"
    output_stream: "RESPONSE_PAYLOAD:output"
    node_options: {
        [type.googleapis.com / mediapipe.RerankCalculatorOVOptions]: {
            models_path: "./",
            max_allowed_chunks: %(max_allowed_chunks)s,
            %(further)s
            target_device: "CPU",
            plugin_config: '{"NUM_STREAMS":"1"}',
        }
    }
}
"""


def graph(*, max_allowed_chunks: int = 10000, further: str = "") -> str:
    """Return `GRAPH` with these options; ``further``: more of them, as text."""
    return GRAPH % {"max_allowed_chunks": max_allowed_chunks, "further": further}


def sigmoid(logit: float) -> float:
    return float(1 / (1 + np.exp(-logit)))


def make_bert(directory: Path, text: str = "", *, labels: int = 1) -> Path:
    """Write an encoder with segment ids; the second of two ``labels`` has the score."""
    ids, mask, types = map(_input, ("input_ids", "attention_mask", "token_type_ids"))
    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    vocabulary = _vocabulary(marks)
    is_word = op.convert(op.greater(ids, _ints(marks.index("[SEP]"))), "f32")
    is_word = op.multiply(is_word, op.convert(mask, "f32"))
    second = op.convert(types, "f32")
    first = op.subtract(_floats(1), second)
    score = _words_in_both(ids, op.multiply(is_word, first), op.multiply(is_word, second))
    if labels == 2:
        score = op.concat([op.multiply(score, _floats(-7)), score], 1)
    tokenizer = _word_tokenizer(vocabulary, "[UNK]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")],
    )
    config = {"model_type": "bert", "max_position_embeddings": MAX_TOKENS, "pad_token_id": 0}
    _save(directory, [ids, mask, types], score, tokenizer, config, "Bert", labels, text)
    return directory


def make_roberta(directory: Path, text: str = "") -> Path:
    """Write an encoder without segment ids, with two tokens between query and document."""
    ids, mask = map(_input, ("input_ids", "attention_mask"))
    marks = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = _vocabulary(marks)
    is_word = op.convert(op.greater(ids, _ints(marks.index("<unk>"))), "f32")
    is_word = op.multiply(is_word, op.convert(mask, "f32"))
    ends = op.cum_sum(op.convert(op.equal(ids, _ints(marks.index("</s>"))), "f32"), _ints(1))
    first = op.convert(op.equal(ends, _floats(0)), "f32")
    second = op.convert(op.equal(ends, _floats(2)), "f32")
    score = _words_in_both(ids, op.multiply(is_word, first), op.multiply(is_word, second))
    tokenizer = _word_tokenizer(vocabulary, "<unk>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(mark, vocabulary[mark]) for mark in ("<s>", "</s>")],
    )
    # Positions are counted from behind the padding token, so two of them are not usable.
    config = {
        "model_type": "roberta",
        "max_position_embeddings": MAX_TOKENS + 2,
        "pad_token_id": 1,
    }
    _save(directory, [ids, mask], score, tokenizer, config, "Roberta", 1, text)
    return directory


#: The word that the decoder counts; the logit of a prompt is its number minus 1.
COUNTED: Final = " cat"


def make_decoder(directory: Path, text: str = "", *, max_tokens: int = 1024) -> Path:
    """Write a model that continues texts, as Qwen3-Reranker does, with tokens of bytes."""
    ids, mask, positions = map(_input, ("input_ids", "attention_mask", "position_ids"))
    tokenizer, vocabulary = _byte_tokenizer()
    counted = tokenizer.encode(COUNTED, add_special_tokens=False).ids
    assert len(counted) == 1
    is_counted = op.convert(op.equal(ids, _ints(counted[0])), "f32")
    seen = op.cum_sum(is_counted, _ints(1))
    # What stands in the padding must not count, so it is large.
    padding = op.subtract(_floats(1), op.convert(mask, "f32"))
    seen = op.add(seen, op.multiply(padding, _floats(1e6)))
    unused = op.multiply(op.convert(positions, "f32"), _floats(0))
    ones = op.add(op.multiply(seen, _floats(0)), op.add(unused, _floats(1)))
    hidden = op.concat([op.unsqueeze(each, _ints([2])) for each in (seen, ones)], 2)
    weights = np.zeros((2, len(vocabulary)), np.float32)
    weights[0, vocabulary["yes"]] = 1
    weights[1, vocabulary["no"]] = 1
    logits = op.matmul(hidden, op.constant(weights), False, False)
    config = {"model_type": "qwen3", "max_position_embeddings": max_tokens, "pad_token_id": 0}
    _save(directory, [ids, mask, positions], logits, tokenizer, config, "Qwen3", 0, text)
    settings = {"add_bos_token": False}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


def _words_in_both(ids: Any, first: Any, second: Any) -> Any:
    """The number of tokens of the first text that are in the second, minus 2; ``[batch, 1]``."""
    same = op.convert(op.equal(op.unsqueeze(ids, _ints([2])), op.unsqueeze(ids, _ints([1]))), "f32")
    found = op.reduce_sum(op.multiply(same, op.unsqueeze(second, _ints([1]))), _ints([2]))
    found = op.multiply(op.minimum(found, _floats(1)), first)
    return op.subtract(op.reduce_sum(found, _ints([1]), keep_dims=True), _floats(2))


def _vocabulary(marks: Sequence[str]) -> dict[str, int]:
    return {word: place for place, word in enumerate((*marks, *WORDS))}


def _word_tokenizer(vocabulary: dict[str, int], unknown: str) -> Any:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([mark for mark in vocabulary if mark[0] in "[<"])
    return tokenizer


def _byte_tokenizer() -> tuple[Any, dict[str, int]]:
    words = ["Ġc", "Ġca", "Ġcat", "ye", "yes", "no"]
    merges = [("Ġ", "c"), ("Ġc", "a"), ("Ġca", "t"), ("y", "e"), ("ye", "s"), ("n", "o")]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: place for place, word in enumerate([*letters, *words])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer, tokenizer.get_vocab()


def _save(
    directory: Path,
    inputs: list[Any],
    output: Any,
    tokenizer: Any,
    config: dict[str, Any],
    name: str,
    labels: int,
    text: str,
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    result = op.result(output)
    result.output(0).set_names({"logits"})
    model = ov.Model([result], inputs, name)
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)
    tokenizer.save(str(directory / "tokenizer.json"))
    kind = "SequenceClassification" if labels else "CausalLM"
    config = {**config, "architectures": [f"{name}For{kind}"], "vocab_size": _size(tokenizer)}
    if labels == 1:
        config["id2label"] = {"0": "LABEL_0"}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if text:
        (directory / "graph.pbtxt").write_text(text, encoding="utf-8")


def _size(tokenizer: Any) -> int:
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def _input(name: str) -> Any:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter


def _ints(value: int | list[int]) -> Any:
    return op.constant(np.array(value, np.int64))


def _floats(value: float) -> Any:
    return op.constant(np.array(value, np.float32))
