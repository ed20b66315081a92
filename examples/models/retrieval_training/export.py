"""Writes both models as OpenVINO files, with what servers read beside them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import nncf
import openvino as ov
import torch
from tokenizers import Tokenizer

from .documents import read_sections, texts_of
from .embedder import MAX_TOKENS, SIZE, make_embedder
from .ranker import make_ranker, word_weights
from .word_tokenizer import save_tokenizer

log = logging.getLogger("export")


class _Hidden(torch.nn.Module):
    """The model with its inputs by position, for the converter."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self._model(
            input_ids=input_ids, attention_mask=attention_mask
        ).last_hidden_state
        return hidden


def export_embedder(weights: Path, tokenizer: Tokenizer, target: Path) -> None:
    """Write the embedder with weights of 8 bits."""
    model = make_embedder(tokenizer.get_vocab_size(), tokenizer.token_to_id("[PAD]"))
    model.load_state_dict(torch.load(weights))
    example = torch.ones((2, 7), dtype=torch.long)
    with torch.no_grad():
        found = ov.convert_model(
            _Hidden(model.eval()),
            example_input={"input_ids": example, "attention_mask": example},
            input=[("input_ids", [-1, -1], ov.Type.i64), ("attention_mask", [-1, -1], ov.Type.i64)],
        )
    found.outputs[0].set_names({"last_hidden_state"})
    _save(nncf.compress_weights(found, mode=nncf.CompressWeightsMode.INT8_ASYM), target)
    _write_config(target, "BertModel", tokenizer, hidden_size=SIZE)
    pooling = {"word_embedding_dimension": SIZE, "pooling_mode_mean_tokens": True}
    _write_json(target / "1_Pooling" / "config.json", pooling)
    save_tokenizer(tokenizer, target)


def export_ranker(tokenizer: Tokenizer, target: Path) -> None:
    """Write the ranker, with the weights of the words in the documents of today."""
    tokenizer.no_truncation()
    texts = texts_of(each for each in read_sections() if not each.is_held_out)
    _save(make_ranker(word_weights(tokenizer, texts)), target)
    _write_config(target, "BertForSequenceClassification", tokenizer, id2label={"0": "LABEL_0"})
    save_tokenizer(tokenizer, target)


def _save(model: ov.Model, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    ov.save_model(model, target / "openvino_model.xml", compress_to_fp16=True)
    for file in sorted(target.glob("openvino_model.*")):
        log.info("%9d bytes  %s", file.stat().st_size, file)


def _write_config(target: Path, architecture: str, tokenizer: Tokenizer, **more: Any) -> None:
    ids = {name: tokenizer.token_to_id(f"[{name.upper()}]") for name in ("pad", "cls", "sep")}
    config = {
        "architectures": [architecture],
        "model_type": "bert",
        "max_position_embeddings": MAX_TOKENS,
        "vocab_size": tokenizer.get_vocab_size(),
        **{f"{name}_token_id": token for name, token in ids.items()},
        **more,
    }
    _write_json(target / "config.json", config)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": MAX_TOKENS, **names}
    _write_json(target / "tokenizer_config.json", settings)


def _write_json(file: Path, value: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
