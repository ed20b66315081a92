"""A classifier made by hand: a word of its vocabulary adds to the logits of some classes.

A text's logits are the sums over its tokens, so each score can be computed here: `logits`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from tokenizers import Tokenizer, models, pre_tokenizers, processors

#: Tokens of a window, special ones included.
MAX_TOKENS: Final = 10
LABELS: Final = ("insult", "threat", "calm")
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
#: What each word adds to the logits, by class.
_WORDS: Final = {
    "you": (0.0, 0.0, 0.0),
    "fool": (2.0, 0.0, -1.0),
    "idiot": (3.0, 0.25, -2.0),
    "beware": (0.0, 2.5, -1.0),
    "peace": (-1.0, -1.0, 3.0),
    "tea": (0.0, -0.5, 1.0),
}
_PER_TOKEN: Final = np.array(
    [*[(0.0, 0.0, 0.0)] * 2, (-1.0, -2.0, 0.5), (0.0, 0.0, 0.0), *_WORDS.values()], np.float32
)

GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "guard"
  calculator: "TextClassificationCalculatorOV"
  input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] {
      models_path: "./"
      %s
    }
  }
}
"""

#: The options for moderations.
CATEGORIES: Final = """
      categories { label: "insult" category: "harassment" }
      categories { label: "threat" category: "violence" threshold: 0.75 }
      categories { label: "threat" category: "harassment/threatening" }
"""


def make_model(directory: Path, options: str | None = None, **config: Any) -> Path:
    """Write the model's files, and a graph with these options if they are given."""
    directory.mkdir(parents=True, exist_ok=True)
    ids, mask = _input("input_ids"), _input("attention_mask")
    added = op.gather(op.constant(_PER_TOKEN), ids, op.constant(np.int64(0)))
    # Padding must not count, so its rows are dropped by the mask.
    shown = op.multiply(added, op.unsqueeze(op.convert(mask, "f32"), op.constant(np.int64(2))))
    result = op.result(op.reduce_sum(shown, op.constant(np.array([1], np.int64))))
    result.output(0).set_names({"logits"})
    model = ov.Model([result], [ids, mask], "classifier")
    ov.save_model(model, directory / "openvino_model.xml", compress_to_fp16=False)
    written = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "max_position_embeddings": MAX_TOKENS,
        "pad_token_id": 0,
        "vocab_size": len(_PER_TOKEN),
        "id2label": {str(number): label for number, label in enumerate(LABELS)},
        "problem_type": "multi_label_classification",
        **config,
    }
    kept = {name: value for name, value in written.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    _tokenizer().save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if options is not None:
        (directory / "graph.pbtxt").write_text(GRAPH % options, encoding="utf-8")
    return directory


def logits(*texts: str) -> NDArray[np.float32]:
    """Return the logits of texts that fit a window, ``[texts, classes]``."""
    return np.array([_sum(["[CLS]", *text.split(), "[SEP]"]) for text in texts], np.float32)


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def softmax(values: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(values)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def _sum(tokens: Sequence[str]) -> NDArray[np.float32]:
    vocabulary = _vocabulary()
    rows = [_PER_TOKEN[vocabulary.get(token, vocabulary["[UNK]"])] for token in tokens]
    return np.asarray(np.sum(rows, axis=0), np.float32)


def _vocabulary() -> dict[str, int]:
    return {word: number for number, word in enumerate((*_SPECIAL, *_WORDS))}


def _tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(_vocabulary(), unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return made


def _input(name: str) -> Any:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter
