"""Make `examples/models/guard`: ``python -m examples.models.guard_making [DIRECTORY]``.

The model knows a few rude and violent words. It has the inputs and files of a BERT that classifies
texts, so it shows what such a model does in a graph; a trained one sees more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from openvino import opset13 as op
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

LABELS: Final = ("insult", "violence")
MAX_TOKENS: Final = 256
#: Logits of a text without any of the words.
_NOTHING: Final = -3.0
#: What each word adds, by label.
_WORDS: Final = {
    **dict.fromkeys(("idiot", "idiots", "fool", "fools", "moron", "stupid", "dumb"), (6.0, 0.0)),
    **dict.fromkeys(("kill", "murder", "stab", "shoot", "bomb", "bombs", "strangle"), (0.0, 6.0)),
    **dict.fromkeys(("knife", "gun", "weapon", "weapons", "explosive", "attack"), (0.0, 2.0)),
}
_SPECIAL: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def make(directory: Path) -> None:
    """Write the model's files."""
    directory.mkdir(parents=True, exist_ok=True)
    ov.save_model(_model(), directory / "openvino_model.xml")
    _tokenizer().save(str(directory / "tokenizer.json"), pretty=False)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    _write(
        directory / "tokenizer_config.json",
        {"tokenizer_class": "BertTokenizer", "model_max_length": MAX_TOKENS, **names},
    )
    _write(
        directory / "config.json",
        {
            "architectures": ["BertForSequenceClassification"],
            "model_type": "bert",
            "max_position_embeddings": MAX_TOKENS,
            "vocab_size": len(_vocabulary()),
            "pad_token_id": 0,
            "id2label": {str(number): label for number, label in enumerate(LABELS)},
            "problem_type": "multi_label_classification",
        },
    )


def _model() -> ov.Model:
    ids, mask = _input("input_ids"), _input("attention_mask")
    weights = np.zeros((len(_vocabulary()), len(LABELS)), np.float32)
    weights[len(_SPECIAL) :] = list(_WORDS.values())
    each = op.gather(op.constant(weights), ids, op.constant(np.int64(0)))
    shown = op.unsqueeze(op.convert(mask, "f32"), op.constant(np.int64(2)))
    total = op.reduce_sum(op.multiply(each, shown), op.constant(np.array([1], np.int64)))
    result = op.result(op.add(total, op.constant(np.float32(_NOTHING))))
    result.output(0).set_names({"logits"})
    return ov.Model([result], [ids, mask], "guard")


def _input(name: str) -> Any:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter


def _vocabulary() -> dict[str, int]:
    return {word: number for number, word in enumerate((*_SPECIAL, *_WORDS))}


def _tokenizer() -> Tokenizer:
    made = Tokenizer(models.WordLevel(_vocabulary(), unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ids = _vocabulary()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    return made


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "guard")
